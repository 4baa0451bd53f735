"""What became of an instant: every verdict, from forged runs."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cronflow.domain.run import RunState
from cronflow.ledger.derivation import LedgerSpan, due_instants, read_version
from cronflow.schemas import iso
from cronflow.testing.audit import Matcher
from tests.drawing import examples
from tests.ledger.forging import HOUR, JOB, NOON, all_ran, judged, ran, verdicts, version


def test_an_instant_with_a_run_that_ended_ran_with_its_state() -> None:
    entries = judged([ran(0), ran(1, RunState.FAILED), ran(2, RunState.LOST), ran(3), ran(4), ran(5)])
    assert verdicts(entries) == ["ran"] * 6
    assert [entry["state"] for entry in entries[:3]] == ["succeeded", "failed", "lost"]
    assert entries[0]["run"] == "report@20261121T120000Z"
    assert (entries[0]["version"], entries[0]["schedule"], entries[0]["fence"]) == (1, "every hour", 100)


def test_an_instant_without_a_run_is_lost() -> None:
    entries = judged([run for run in all_ran() if run.fire_at != NOON + 3 * HOUR])
    assert verdicts(entries) == ["ran", "ran", "ran", "lost", "ran", "ran"]
    assert entries[3]["instant"] == "2026-11-21T15:00:00Z"
    assert entries[3]["run"] is None


def test_an_instant_that_two_runs_cover_is_doubled() -> None:
    entries = judged([ran(0), ran(1, to=3), ran(2), ran(4), ran(5)])
    assert verdicts(entries) == ["ran", "covered", "doubled", "covered", "ran", "ran"]
    assert entries[2]["run"] == "report@20261121T130000Z"
    assert entries[2]["others"] == ["report@20261121T140000Z"]


def test_missed_instants_for_which_one_run_was_executed_are_covered() -> None:
    entries = judged([ran(-2, to=1, state=RunState.FAILED), ran(2), ran(3), ran(4), ran(5)])
    assert verdicts(entries) == ["covered", "covered", "ran", "ran", "ran", "ran"]
    assert entries[0]["state"] == "failed"
    assert entries[0]["covers"] == {"first": "2026-11-21T10:00:00Z", "last": "2026-11-21T13:00:00Z", "count": 4}


@pytest.mark.parametrize(
    ("reason", "verdict"),
    [
        ("overlap", "skipped"),
        ("paused", "skipped"),
        ("calendar de-holidays: Christmas Day", "skipped"),
        ("misfire", "missed"),
        ("recovery skipped by ada: stale", "missed"),
    ],
)
def test_a_skipped_run_has_its_reason(reason: str, verdict: str) -> None:
    entries = judged([ran(0, RunState.SKIPPED, to=5, reason=reason)])
    assert verdicts(entries) == [verdict] * 6
    assert {entry["reason"] for entry in entries} == {reason}


def test_a_run_that_was_cancelled_before_it_started_is_skipped_and_one_that_had_started_ran() -> None:
    entries = judged(
        [ran(0, RunState.CANCELLED, started_at=None, reason="edited"), ran(1, RunState.CANCELLED), *all_ran()[2:]]
    )
    assert verdicts(entries)[:3] == ["skipped", "ran", "ran"]
    assert entries[0]["reason"] == "cancelled: edited"


def test_a_run_that_has_not_ended_is_open() -> None:
    states = (RunState.DISPATCHED, RunState.RUNNING, RunState.RETRYING)
    entries = judged([ran(hour, state) for hour, state in enumerate(states)], span=LedgerSpan(NOON, NOON + 3 * HOUR))
    assert verdicts(entries) == ["open"] * 3


def test_an_instant_that_the_planner_has_not_passed_is_not_lost() -> None:
    entries = judged(all_ran()[:4], planned=NOON + 3 * HOUR)
    assert verdicts(entries) == ["ran"] * 4 + ["waiting"] * 2
    # An edit handles what its version leaves behind, so nothing of an older version can still wait.
    assert verdicts(judged(all_ran()[:4], planned=NOON + 3 * HOUR, version=2))[4:] == ["lost", "lost"]


def test_a_job_that_was_never_planned_has_only_instants_that_wait() -> None:
    assert verdicts(judged([], planned=None)) == ["waiting"] * 6


def test_an_instant_whose_run_may_have_been_deleted_is_not_judged() -> None:
    entries = judged(all_ran()[3:], kept_from=NOON + 2 * HOUR)
    assert verdicts(entries) == ["not_judged", "not_judged", "lost", "ran", "ran", "ran"]
    assert entries[0]["reason"] == "older than the runs that are kept"


def test_a_run_that_is_older_than_what_is_kept_and_was_not_deleted_is_judged() -> None:
    assert verdicts(judged(all_ran(), kept_from=NOON + 4 * HOUR)) == ["ran"] * 6


def test_runs_after_the_completion_of_others_are_not_derivable() -> None:
    schedule = {"every": "1h", "after_completion": True}
    entries = judged([ran(0), ran(1)], [version(schedule=schedule, text="1h after the end")])
    assert verdicts(entries) == ["not_derivable"] * 2
    assert entries[0]["version"] is None


def test_runs_under_versions_that_are_not_kept_are_not_derivable() -> None:
    later = version(7, since=iso(NOON + 2 * HOUR))
    entries = judged(all_ran(), [later], version=7, known_from=NOON + 90 * timedelta(minutes=1))
    assert verdicts(entries) == ["not_derivable"] * 2 + ["ran"] * 4
    assert entries[0]["reason"] == "due under a version that is not kept"


def test_a_run_at_an_instant_that_no_version_has_is_unexpected() -> None:
    entries = judged([*all_ran()[:2], ran(2, fire_at=NOON + 1.5 * HOUR), *all_ran()[2:]])
    assert verdicts(entries) == ["ran", "ran", "unexpected", "ran", "ran", "ran", "ran"]


def test_each_instant_belongs_to_the_version_that_was_in_force() -> None:
    edited = NOON + 2.5 * HOUR
    versions = [
        version(1, until=iso(NOON + 2 * HOUR + timedelta(seconds=1))),
        version(2, at=iso(edited), since=iso(edited), schedule={"cron": "30 * * * *"}, text="at half past"),
    ]
    half = [ran(hour, id=f"report@{hour}", fire_at=NOON + (hour + 0.5) * HOUR) for hour in range(2, 6)]
    entries = judged([*all_ran()[:3], *half], versions, version=2)
    assert verdicts(entries) == ["ran"] * 7
    assert [entry["version"] for entry in entries] == [1, 1, 1, 2, 2, 2, 2]
    assert entries[-1]["schedule"] == "at half past"


def test_a_version_that_is_disabled_or_deleted_has_no_instant_of_its_own() -> None:
    versions = [
        version(1, until=iso(NOON + 2.5 * HOUR)),
        version(2, at=iso(NOON + 2.5 * HOUR), since=None, state="deleted"),
    ]
    assert verdicts(judged(all_ran()[:3], versions, version=2)) == ["ran"] * 3


def test_business_days_follow_the_calendar_as_it_was_bound() -> None:
    monthly = {"cron": "0 12 * * *", "business_day": [-1], "calendars": ["bank"]}
    closed = version(schedule=monthly, calendars=[{"name": "bank", "days": ["2026-11-30"]}])
    month = LedgerSpan(NOON - 20 * 24 * HOUR, NOON + 20 * 24 * HOUR)
    open_ = version(schedule=monthly, calendars=[{"name": "bank", "days": []}])
    days = [
        [one.at.day for one in due_instants([read_version(JOB, {**one, "since": iso(month.first)})], month)]
        for one in (closed, open_)
    ]
    assert days == [[27], [30]]


def test_long_spans_are_derived_in_slices_that_neither_lose_nor_repeat_an_instant() -> None:
    jittered = version(schedule={"cron": "*/7 * * * *", "jitter": "5m"}, since=iso(NOON - 24 * HOUR))
    read = read_version(JOB, jittered)
    span = LedgerSpan(NOON + timedelta(seconds=11), NOON + 75 * HOUR)
    found = [one.at for one in due_instants([read], span)]
    parts = [LedgerSpan(span.first, NOON + 30.1 * HOUR), LedgerSpan(NOON + 30.1 * HOUR, span.last)]
    assert found == [one.at for part in parts for one in due_instants([read], part)]
    assert found == sorted(set(found))
    assert len(found) == 75 * 9


spans = st.tuples(st.integers(0, 40), st.integers(0, 6)).map(lambda one: (one[0], one[0] + one[1]))


@settings(max_examples=examples(60), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(spans, max_size=12), st.sets(st.integers(0, 40)))
def test_the_matcher_finds_what_counting_finds(ranges: list[tuple[int, int]], seconds: set[int]) -> None:
    at = [NOON + timedelta(seconds=second) for second in range(50)]
    instants = [at[second] for second in sorted(seconds)]
    matcher = Matcher[tuple[int, int]](instants)
    found = [match for one in sorted(ranges) for match in matcher.add(at[one[0]], at[one[1]], one)]
    found += matcher.finish()
    matched = {match.instant: sorted(match.items) for match in found if match.instant is not None}
    assert matched == {at[second]: sorted(one for one in ranges if one[0] <= second <= one[1]) for second in seconds}
    unused = sorted(item for match in found if match.instant is None for item in match.items)
    assert unused == sorted(one for one in ranges if not any(one[0] <= second <= one[1] for second in seconds))


def test_the_entries_are_in_the_order_of_their_instants() -> None:
    entries = judged([ran(0), ran(2, fire_at=NOON + 0.2 * HOUR), ran(2)], planned=NOON + 100 * HOUR)
    instants = [entry["instant"] for entry in entries]
    assert instants == sorted(instants)
    assert verdicts(entries) == ["ran", "unexpected", "lost", "ran", "lost", "lost", "lost"]
