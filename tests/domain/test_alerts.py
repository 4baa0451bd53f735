"""The rules of alerts: what they report, when a job is late, when to give up; and their documents."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from cronflow.documents.alerts import alert_document, parse_alert
from cronflow.domain.alert_kinds import GIVE_UP_AFTER, AlertKind
from cronflow.domain.alert_receivers import Webhook
from cronflow.domain.alerts import Alert, Failing, begins_anew, is_late, next_delay, notification_id
from cronflow.domain.errors import InvalidInput
from cronflow.domain.run import Attempt, Kind, Outcome, RunState
from tests.contracts.builders import T0, a_run

MINUTE = timedelta(minutes=1)
LEAST: dict[str, Any] = {"name": "billing", "on": ["failed"], "webhook": {"url": "https://hooks.example.com/x"}}


def problems(**fields: Any) -> str:
    """What is wrong with a document."""
    document = {key: value for key, value in (LEAST | fields).items() if value is not None}
    with pytest.raises(InvalidInput) as refused:
        parse_alert(document, "alerts[0]")
    return str(refused.value)


def test_a_document_is_read_and_written_back_the_same() -> None:
    least = parse_alert(LEAST)
    assert least == Alert(name="billing", on=(AlertKind.FAILED,), webhook=Webhook("https://hooks.example.com/x"))
    assert parse_alert(alert_document(least)) == least
    whole = parse_alert(
        {
            "name": "all",
            "on": [
                *("failed", "recovered", "dead_letter", "late", "no_leader"),
                *("running_long", "retries", "dead_letters", "report"),
            ],
            "jobs": ["billing-*", "x"],
            "webhook": {"url": "http://10.0.0.1:8080/a?b=c", "secret": "${secret:HOOKS}"},
            "late_after": "90s",
            "no_leader_after": 30,
            "retries": 4,
            "dead_letters": {"warn": 1, "critical": 3},
            "retry_rate": 0.5,
            "report": {"day": "friday", "time": "17:30", "tz": "Europe/Berlin"},
            "enabled": False,
        }
    )
    assert parse_alert(alert_document(whole)) == whole
    assert whole.no_leader_after == timedelta(seconds=30)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"name": None}, "alerts[0].name: missing (give the alert a name)"),
        ({"on": None}, "alerts[0].on: missing (add at least one of failed,"),
        ({"webhook": None}, "alerts[0].webhook: missing (add where notifications go: webhook or email)"),
        ({"webhook": {}}, "alerts[0].webhook.url: missing"),
        ({"name": "Ä"}, "alerts[0].name: 'Ä' is not a alert name"),
        ({"on": []}, "alerts[0].on: on is empty"),
        ({"on": ["fail"]}, "alerts[0].on[0]: expected failed, recovered, dead_letter, late, no_leader, running_long,"),
        ({"on": ["retry_rate"], "jobs": ["a"]}, "alerts[0]: on has retry_rate, which counts the attempts of all jobs"),
        ({"retries": -1}, "alerts[0].retries: retries is -1; it must be 0 to 100"),
        ({"retry_rate": 20}, "alerts[0].retry_rate: retry_rate is 20; it is a share, such as 0.2, between 0 and 1"),
        ({"dead_letters": {"warn": 11}}, "alerts[0].dead_letters.warn: has warn 11 and critical 10; they must be"),
        ({"report": {"time": "8:00"}}, "alerts[0].report.time: '8:00' is not a time of day (write it like 08:00)"),
        ({"report": {"tz": "Europe/Berln"}}, "alerts[0].report.tz: "),
        ({"report": {"day": "mon"}}, "alerts[0].report.day: expected monday, tuesday,"),
        ({"on": ["late", "late"]}, "alerts[0].on: on has a kind twice"),
        ({"on": ["recovered"]}, "alerts[0].on: on has recovered, but no kind that a job could recover from (add"),
        ({"jobs": ["a b"]}, "alerts[0].jobs: 'a b' is not a pattern of job names"),
        ({"jobs": ["a"] * 101}, "alerts[0].jobs: jobs has 101 patterns; at most 100"),
        ({"late_after": "0s"}, "alerts[0].late_after: late_after is 0s; it must be 1s to 7d"),
        ({"no_leader_after": "1s"}, "alerts[0].no_leader_after: no_leader_after is 1s; it must be 5s to 1d"),
        ({"webhok": {}}, "alerts[0].webhok: unknown key (did you mean webhook?)"),
        ({"webhook": {"url": "ftp://x"}}, "alerts[0].webhook.url: not an http:// or https:// address"),
        ({"webhook": {"url": "https://user:pw@x/"}}, "alerts[0].webhook.url: not an http:// or https:// address"),
        ({"webhook": {"url": "https://x/${secret:A}"}}, "alerts[0].webhook.url: a secret in an address"),
        ({"webhook": {"url": "https://x/" + "a" * 2000}}, "at most 2,000 characters"),
        ({"webhook": {"url": "https://x", "secret": "whsec_abc"}}, "alerts[0].webhook.secret: a signing secret is"),
        ({"enabled": "yes"}, "alerts[0].enabled: expected true or false"),
    ],
)
def test_a_problem_has_its_place_and_a_remedy(fields: dict[str, Any], expected: str) -> None:
    assert expected in problems(**fields)


def test_a_secret_that_was_written_out_is_not_repeated() -> None:
    assert "whsec_abc" not in problems(webhook={"url": "https://x", "secret": "whsec_abc"})


def test_all_problems_are_reported_at_once() -> None:
    assert len(problems(on=["x"], jobs=["?!"], late_after="1", extra=1).splitlines()) == 4


@pytest.mark.parametrize(
    ("on", "state", "expected"),
    [
        (("failed",), RunState.FAILED, "failed"),
        (("dead_letter",), RunState.FAILED, "dead_letter"),
        (("failed", "dead_letter"), RunState.FAILED, "failed"),
        (("failed",), RunState.LOST, None),
        (("failed", "dead_letter"), RunState.LOST, "dead_letter"),
        (("late", "no_leader"), RunState.FAILED, None),
        (("failed", "dead_letter"), RunState.CANCELLED, None),
        (("failed", "dead_letter"), RunState.SUCCEEDED, None),
    ],
)
def test_a_failed_run_is_reported_once_by_the_most_specific_kind(
    on: tuple[str, ...], state: RunState, expected: str | None
) -> None:
    alert = parse_alert(LEAST | {"on": list(on)})
    assert alert.dead_letter_kind(a_run(state=state)) == expected
    assert parse_alert(LEAST | {"on": list(on), "jobs": ["other-*"]}).dead_letter_kind(a_run(state=state)) is None
    assert parse_alert(LEAST | {"on": list(on), "enabled": False}).dead_letter_kind(a_run(state=state)) is None


@pytest.mark.parametrize(
    ("fields", "late"),
    [
        ({}, True),
        ({"state": RunState.RUNNING, "started_at": T0 + MINUTE}, False),
        ({"state": RunState.SUCCEEDED, "started_at": T0 + 2 * MINUTE}, True),
        ({"state": RunState.RETRYING, "attempts": (Attempt(1, 1, "n", T0, T0, Outcome.ERROR),)}, False),
        ({"state": RunState.RETRYING, "attempts": (Attempt(1, 1, "n", None, T0, Outcome.DECLINED),)}, True),
        ({"state": RunState.SKIPPED, "reason": "misfire"}, True),
        ({"state": RunState.SKIPPED, "reason": "overlap"}, False),
        ({"state": RunState.CANCELLED}, False),
        ({"state": RunState.LOST}, True),
        ({"kind": Kind.MANUAL}, False),
        ({"kind": Kind.REPLAY}, False),
    ],
)
def test_a_scheduled_run_is_late_when_its_first_start_is(fields: dict[str, Any], late: bool) -> None:
    assert is_late(a_run(**fields), MINUTE) is late


def test_the_first_success_after_the_failure_is_the_recovery() -> None:
    failing = Failing("a", "job", "job@1", T0, T0 + MINUTE)

    def run(n: int, state: RunState = RunState.SUCCEEDED, ended: int = 2) -> Any:
        return a_run("job", T0 + n * MINUTE, state=state, ended_at=T0 + ended * MINUTE)

    assert failing.recovered_by([]) is None
    assert failing.recovered_by([run(0, ended=0), run(1, ended=1), run(2, RunState.FAILED)]) is None
    assert failing.recovered_by([run(4, ended=5), run(3, ended=4), run(2, ended=1)]) == run(3, ended=4)


def test_delays_grow_to_a_quarter_of_an_hour_and_end_after_a_day() -> None:
    delays = [next_delay(n, T0, T0, AlertKind.FAILED) for n in (1, 2, 3, 7, 8, 1000)]
    assert delays == [timedelta(seconds=seconds) for seconds in (10, 20, 40, 640, 900, 900)]
    assert next_delay(50, T0, T0 + GIVE_UP_AFTER - timedelta(minutes=15), AlertKind.FAILED) is not None
    assert next_delay(50, T0, T0 + GIVE_UP_AFTER - timedelta(minutes=14), AlertKind.FAILED) is None
    assert next_delay(1, T0, T0 + 6 * MINUTE, AlertKind.HEARTBEAT) is None


@pytest.mark.parametrize(
    ("quiet", "inside", "outside"),
    [
        # From Friday night on until Saturday morning: the time belongs to the day on which it begins.
        ({"from": "22:00", "to": "07:00", "days": ["friday"]}, ["27T22:00", "28T06:59"], ["27T06:00", "28T22:00"]),
        ({"from": "09:00", "to": "17:00"}, ["24T09:00", "24T16:59"], ["24T08:59", "24T17:00"]),
        ({"from": "00:00", "to": "00:00", "days": ["sunday"]}, ["29T00:00", "29T23:59"], ["28T23:59", "30T00:00"]),
        ({"from": "22:00", "to": "07:00", "tz": "Europe/Berlin"}, ["24T21:00", "25T05:59"], ["24T20:59", "25T06:00"]),
    ],
)
def test_a_quiet_time_may_pass_midnight_and_has_a_zone(
    quiet: dict[str, Any], inside: list[str], outside: list[str]
) -> None:
    alert = parse_alert({**LEAST, "quiet": quiet})
    assert alert.quiet is not None
    assert parse_alert(alert_document(alert)) == alert
    for instants, held in ((inside, True), (outside, False)):
        for instant in instants:
            at = datetime.fromisoformat(f"2026-11-{instant}:00+00:00")
            assert (alert.holds(AlertKind.FAILED, at), alert.holds(AlertKind.NO_LEADER, at)) == (held, False)


def test_an_alert_by_email_comes_back_whole_and_has_one_receiver() -> None:
    mail = {**LEAST, "webhook": None, "email": {"to": ["ops@example.com"], "log_lines": 3}}
    grouped = {**mail, "group": {"by": ["job", "label:team"], "wait": "10s", "interval": "0s"}}
    for document in (mail, grouped):
        alert = parse_alert(document)
        assert parse_alert(alert_document(alert)) == alert
        assert parse_alert(alert_document(alert, compact=True)) == alert


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"email": {"to": ["a@b.de"]}}, "webhook and email are both given"),
        ({"webhook": None, "email": {"to": []}}, "email.to: to is empty"),
        ({"webhook": None, "email": {"to": ["a@b.de", "A@b.de"]}}, "to has an address twice"),
        ({"webhook": None, "email": {"to": ["a@b.de\nBcc: c@d.de"]}}, "is not an e-mail address"),
        ({"webhook": None, "email": {"to": ["a@b.de, c@d.de"]}}, "is not an e-mail address"),
        ({"webhook": None, "email": {"to": ["Ops <a@b.de>"]}}, "is not an e-mail address"),
        ({"webhook": None, "email": {"to": ["a" * 5000 + "@b.de"]}}, "is not an e-mail address"),
        ({"webhook": {"url": "${secret:HOOK}"}}, "sign JSON with `secret` instead"),
        ({"webhook": {"url": "https://x/${secret:HOOK}", "format": "slack"}}, "write ${secret:NAME} as the whole url"),
        ({"webhook": {"url": "https://x", "format": "teams", "secret": "${secret:X}"}}, "has no signature"),
        ({"on": ["late"], "webhook": {"url": "https://x", "format": "ping"}}, "a ping cannot report late"),
        ({"webhook": {"url": "https://x", "format": "ping"}, "group": {}}, "pings are never held"),
        ({"on": ["succeeded"]}, "list the names of the jobs in jobs"),
        ({"on": ["succeeded"], "jobs": ["a-*"]}, "list the names of the jobs in jobs"),
        ({"group": {"by": ["team"]}}, "use job, kind, or label:NAME"),
        ({"group": {"wait": "2h"}}, "it must be 1s to 1h"),
        ({"group": {"by": ["job", "job"]}}, "by has an entry twice"),
        ({"quiet": {"from": "22:00"}}, "quiet.to: missing"),
        ({"quiet": {"from": "22:00", "to": "24:00"}}, "is not a time of day"),
        ({"quiet": {"from": "22:00", "to": "22:00"}}, "the quiet time never ends"),
        ({"quiet": {"from": "22:00", "to": "07:00", "tz": "Mars"}}, "quiet"),
        ({"heartbeat_every": "1s"}, "it must be 30s to 1d"),
        ({"limit_wait_after": "1s"}, "it must be 1m to 7d"),
    ],
)
def test_receivers_groups_and_quiet_times_are_checked(fields: dict[str, Any], message: str) -> None:
    assert message in problems(**fields)


def test_the_id_of_a_notification_depends_on_its_subject_alone() -> None:
    ids = {
        notification_id(alert, kind, subject)
        for alert in ("a", "b")
        for kind in (AlertKind.FAILED, AlertKind.RECOVERED)
        for subject in ("job.x@1", "job.x@2")
    }
    assert len(ids) == 8
    assert notification_id("a", AlertKind.FAILED, "job.x@1") in ids
    assert all(one.startswith("msg_") and "." not in one for one in ids)


def test_an_edit_begins_anew_when_it_is_about_something_else() -> None:
    before = parse_alert(LEAST)
    anew: list[dict[str, Any]] = [{"on": ["late"]}, {"jobs": ["x"]}, {"enabled": False}]
    same: list[dict[str, Any]] = [{"webhook": {"url": "http://x"}}, {"late_after": "1h"}, {"no_leader_after": "1h"}]
    assert all(begins_anew(before, parse_alert(LEAST | fields)) for fields in anew)
    assert not any(begins_anew(before, parse_alert(LEAST | fields)) for fields in same)
