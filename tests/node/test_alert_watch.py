"""The watch over dead letters and retries, on whole nodes and virtual time: each crossing is reported once."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.alerts import Alert, ReportTime
from cronflow.domain.events import RunLong
from cronflow.domain.job import Job, Overlap, PythonTarget, Retry
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.domain.thresholds import Crossing, DeadLetterLimits
from cronflow.domain.weekdays import Weekday
from cronflow.domain.why import RunsNow
from cronflow.ports import Assignment
from tests.node.cluster import Cluster
from tests.node.test_alerts import HOOK, alerted, define, notifications

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "alerts.md"
SECOND = timedelta(seconds=1)
DEAD = (AlertKind.DEAD_LETTERS,)
FEW = DeadLetterLimits(warn=2, critical=4)


def a_job(name: str = "job", **fields: Any) -> Job:
    wanted: dict[str, Any] = {"overlap": Overlap.ALLOW, "retry": Retry(max=0), **fields}
    return Job(name=name, target=PythonTarget("jobs:any"), **wanted)


async def fail(cluster: Cluster, count: int, name: str = "job") -> None:
    """More dead letters."""
    cluster.executor.attempt_result = lambda _: AttemptResult(Outcome.PERMANENT, error="no rows")
    for _ in range(count):
        await cluster.service.jobs.trigger(name)
    await cluster.elapse(6)


async def acknowledge(cluster: Cluster, count: int) -> None:
    dead = [run.id for run in cluster.runs if run.is_dead]
    await cluster.service.runs.acknowledge(dead[:count])
    await cluster.elapse(6)


def bodies(cluster: Cluster) -> list[dict[str, Any]]:
    """The notifications in the order of their creation."""
    return [orjson.loads(one.body) for one in sorted(notifications(cluster), key=lambda one: one.created_at)]


# -------------------------------------------------------------------------------------------------------- dead letters


async def test_dead_letters_are_reported_once_per_crossing_and_when_they_are_over() -> None:
    async with alerted("a", on=DEAD, dead_letters=FEW) as (cluster, receiver):
        await cluster.service.jobs.apply([a_job()])
        await fail(cluster, 1)
        assert receiver.got == []
        await fail(cluster, 2)
        await fail(cluster, 1)
        await fail(cluster, 3)
        # From critical to a warning nothing is sent.
        await acknowledge(cluster, 4)
        await acknowledge(cluster, 2)
        await fail(cluster, 1)
        assert [(body["level"], body["figure"], body["threshold"]) for body in bodies(cluster)] == [
            ("warn", 3, 2),
            ("critical", 4, 4),
            ("ok", 1, 2),
            ("warn", 2, 2),
        ]
        assert receiver.kinds == ["dead_letters"] * 4
        assert [body["text"] for body in receiver.got][1:3] == [
            "4 dead letters are open (critical at 4); see `cronflow runs report`",
            "1 dead letter is open, below 2 again",
        ]


async def test_a_crossing_that_another_leader_has_written_is_reported_by_that_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with alerted("a", on=DEAD, dead_letters=FEW) as (cluster, receiver):

        async def refused(_: Crossing) -> bool:
            return False

        monkeypatch.setattr(cluster.backends.alerts, "cross", refused)
        await cluster.service.jobs.apply([a_job()])
        await fail(cluster, 3)
        assert receiver.got == []
        monkeypatch.undo()
        await cluster.elapse(6)
        assert receiver.kinds == ["dead_letters"]


async def test_only_dead_letters_of_its_jobs_count() -> None:
    async with alerted("a", on=DEAD, dead_letters=FEW, jobs=("billing-*",)) as (cluster, receiver):
        await cluster.service.jobs.apply([a_job("other"), a_job("billing-sums")])
        await fail(cluster, 5, "other")
        assert receiver.got == []
        await fail(cluster, 2, "billing-sums")
        assert [(body["level"], body["figure"]) for body in receiver.got] == [("warn", 2)]


async def test_an_alert_that_is_created_over_its_threshold_reports_it_and_one_that_is_enabled_again_too() -> None:
    async with alerted("a", alert=False) as (cluster, receiver):
        await cluster.service.jobs.apply([a_job()])
        await fail(cluster, 3)
        await define(cluster, on=DEAD, dead_letters=FEW)
        await cluster.elapse(6)
        await define(cluster, on=DEAD, dead_letters=FEW, enabled=False)
        await cluster.elapse(6)
        await define(cluster, on=DEAD, dead_letters=FEW)
        await cluster.elapse(6)
        assert [body["level"] for body in receiver.got] == ["warn", "warn"]


@pytest.mark.parametrize("verb", ["alerts.cross", "outbox.put", "alerts.crossings", "runs.find"])
@pytest.mark.parametrize("acted", [False, True])
async def test_a_crossing_is_reported_once_when_the_leader_dies_at_any_step(verb: str, acted: bool) -> None:
    kinds = (*DEAD, AlertKind.REPORT)
    async with alerted("a", "b", "c", on=kinds, dead_letters=FEW, report=soon(30)) as (cluster, receiver):
        await cluster.service.jobs.apply([a_job()])
        [leader] = cluster.leaders
        # The report is due in twenty seconds.
        await cluster.elapse(39)
        await fail(cluster, 1)
        stall = cluster.backends.faults.stall(verb, acted=acted)
        await fail(cluster, 2)
        await cluster.elapse(12)
        assert stall.reached.is_set()
        await cluster.kill(leader)
        # What its death leaves must be reported although it is over when the next one leads.
        cluster.backends.faults.heal()
        await acknowledge(cluster, 3)
        await cluster.elapse(120)
        crossed = verb in ("outbox.put", "runs.find") or (verb == "alerts.cross" and acted)
        levels = Counter(body["level"] for body in bodies(cluster) if body["kind"] == "dead_letters")
        assert levels == ({"warn": 1, "ok": 1} if crossed else {})
        assert Counter(one.kind for one in notifications(cluster))[AlertKind.REPORT] == 1
        assert len({body["id"] for body in receiver.got}) == len(notifications(cluster))


async def test_a_deposed_leader_that_resumes_reports_no_crossing_twice() -> None:
    async with alerted("a", "b", on=DEAD, dead_letters=FEW) as (cluster, receiver):
        await cluster.service.jobs.apply([a_job()])
        stall = cluster.backends.faults.stall("alerts.cross")
        await fail(cluster, 3)
        assert stall.reached.is_set()
        await cluster.service.cluster.stepdown()
        await cluster.elapse(20)
        cluster.backends.faults.heal()
        await cluster.elapse(30)
        assert [body["level"] for body in bodies(cluster)] == ["warn"]
        assert len(receiver.got) == 1


def example(kind: str) -> dict[str, Any]:
    """The notification of this kind in the how-to."""
    shown = map(orjson.loads, re.findall(r"^```json\n(.*?)^```$", HOW_TO.read_text("utf-8"), re.MULTILINE | re.DOTALL))
    found: dict[str, Any]
    [found] = [body for body in shown if body["kind"] == kind]
    return found


async def test_the_notifications_of_the_how_to_have_the_keys_of_real_ones() -> None:
    async with alerted("a", on=(*DEAD, AlertKind.REPORT), dead_letters=FEW, report=soon(0)) as (cluster, receiver):
        await cluster.service.jobs.apply([a_job()])
        await fail(cluster, 2)
        await cluster.elapse(60)
        sent = {body["kind"]: body for body in receiver.got}
        assert sent.keys() == {"dead_letters", "report"}
        for kind, body in sent.items():
            assert body.keys() == example(kind).keys()
        report = example("report")["report"]
        assert sent["report"]["report"].keys() == report.keys()
        assert sent["report"]["report"]["failures"][0].keys() == report["failures"][0].keys()


# ------------------------------------------------------------------------------------------------------------- retries


async def test_many_retries_among_the_attempts_are_reported_and_when_they_are_over() -> None:
    async with alerted("a", on=(AlertKind.RETRY_RATE,), retry_rate=0.3) as (cluster, receiver):
        await cluster.service.jobs.apply([a_job(retry=Retry(max=1, initial="1s"))])

        def once(assignment: Assignment) -> AttemptResult:
            return AttemptResult(Outcome.ERROR if assignment.attempt == 1 else Outcome.OK)

        cluster.executor.attempt_result = once
        for _ in range(15):
            await cluster.service.jobs.trigger("job")
        await cluster.elapse(10)
        [body] = receiver.got
        assert (body["kind"], body["level"], body["figure"], body["threshold"]) == ("retry_rate", "warn", 0.5, 0.3)
        assert body["text"] == "50% of the attempts of the last hour are retries, more than 30%"
        cluster.executor.attempt_result = lambda _: AttemptResult(Outcome.OK)
        for _ in range(60):
            await cluster.service.jobs.trigger("job")
        await cluster.elapse(10)
        assert [body["level"] for body in receiver.got] == ["warn", "ok"]


async def test_a_run_is_reported_when_it_has_been_retried_too_often_also_if_it_fails_at_once() -> None:
    async with alerted("a", on=(AlertKind.RETRIES,)) as (cluster, receiver):
        await cluster.service.jobs.apply(
            [
                a_job("slow", retry=Retry(max=5, initial="10s", multiplier=1.0)),
                a_job("fast", retry=Retry(delays=[0, 0, 0])),
            ]
        )
        cluster.executor.attempt_result = lambda _: AttemptResult(Outcome.ERROR, error="no rows")
        slow, fast = [await cluster.service.jobs.trigger(name) for name in ("slow", "fast")]
        await cluster.elapse(25)
        assert [body["run"]["id"] for body in receiver.got] == [fast]
        await cluster.elapse(60)
        assert [body["run"]["id"] for body in receiver.got] == [fast, slow]
        assert receiver.got[1]["text"] == f"{slow} has needed 3 retries so far: no rows"
        assert receiver.got[1]["kind"] == "retries"


# -------------------------------------------------------------------------------------------------- longer than usual


async def test_a_run_that_takes_longer_than_usual_has_one_event_and_one_notification_whoever_leads() -> None:
    async with alerted("a", "b", "c", on=(AlertKind.RUNNING_LONG,)) as (cluster, receiver):
        await cluster.service.jobs.apply([a_job()])
        for _ in range(12):
            await cluster.service.jobs.trigger("job")
        await cluster.elapse(5)
        cluster.executor.release = asyncio.Event()
        run = await cluster.service.jobs.trigger("job")
        await cluster.elapse(9)
        assert receiver.got == []
        await cluster.elapse(20)
        assert [(body["kind"], body["run"]["id"]) for body in receiver.got] == [("running_long", run)]
        assert "95 % of the last 12 successful runs took at most" in receiver.got[0]["text"]
        await cluster.service.cluster.stepdown()
        await cluster.elapse(60)
        events = [one.event for one in await cluster.backends.events.find(limit=1000)]
        assert [event.run for event in events if isinstance(event, RunLong)] == [run]
        assert len(receiver.got) == 1
        link = (await cluster.service.explain.why_run(run)).links[-1]
        assert isinstance(link, RunsNow)
        assert link.long
        assert link.usual is not None
        assert link.usual.runs == 12


async def test_a_job_with_few_runs_is_never_long_and_is_not_read_again_and_again() -> None:
    async with alerted("a", on=(AlertKind.RUNNING_LONG,)) as (cluster, receiver):
        await cluster.service.jobs.apply([a_job()])
        cluster.executor.release = asyncio.Event()
        for _ in range(3):
            await cluster.service.jobs.trigger("job")
        before = cluster.backends.faults.calls["runs.find"]
        await cluster.elapse(120)
        assert receiver.got == []
        assert cluster.backends.faults.calls["runs.find"] - before == 1


# -------------------------------------------------------------------------------------------------------------- report


def soon(seconds: float) -> ReportTime:
    """A report that is due at the first whole minute that is so many seconds after the start of a test."""
    from cronflow.testing.clock import FakeClock

    at = FakeClock().now() + timedelta(seconds=seconds + 60)
    return ReportTime(list(Weekday)[at.weekday()], f"{at:%H:%M}")


async def test_a_weekly_report_groups_the_failures_by_reason_and_is_sent_once_a_week() -> None:
    async with alerted("a", "b", on=(AlertKind.REPORT,), report=soon(60)) as (cluster, receiver):
        await cluster.service.jobs.apply([a_job(), a_job("other")])
        await fail(cluster, 2)
        await fail(cluster, 1, "other")
        await acknowledge(cluster, 1)
        assert receiver.got == []
        await cluster.elapse(150)
        [body] = receiver.got
        report = body["report"]
        assert (body["kind"], report["runs"], report["open"], report["more"]) == ("report", 3, 2, False)
        [failure] = report["failures"]
        assert (failure["reason"], failure["count"], failure["jobs"]) == ("no rows", 3, {"job": 2, "other": 1})
        assert body["text"].startswith("3 runs failed or were lost from ")
        await cluster.service.cluster.stepdown()
        await cluster.elapse(60)
        assert len(receiver.got) == 1


async def test_a_report_that_was_due_without_a_leader_is_sent_by_the_next_one_and_an_old_one_is_not() -> None:
    async with alerted("a", on=(AlertKind.REPORT,), report=soon(30)) as (cluster, receiver):
        await define(cluster, name="yesterday", on=(AlertKind.REPORT,), report=ReportTime(Weekday.SUNDAY, "00:00"))
        [node] = cluster.nodes
        await cluster.kill(node)
        await cluster.elapse(120)
        cluster.start("b")
        await cluster.elapse(60)
        assert [(body["alert"], body["report"]["runs"]) for body in receiver.got] == [("all", 0)]
        assert receiver.got[0]["text"].startswith("no run failed or was lost from ")


def test_a_report_is_due_on_its_day_in_its_zone() -> None:
    at = ReportTime(Weekday.MONDAY, "08:00", "Europe/Berlin")
    monday = datetime(2026, 11, 23, 7, 0, tzinfo=UTC)
    assert at.latest(monday) == monday
    assert at.latest(monday - SECOND) == monday - timedelta(days=7)
    assert at.latest(monday + timedelta(days=3)) == monday


def test_an_alert_on_the_share_of_retries_has_no_jobs() -> None:
    with pytest.raises(Exception, match="define an alert of its own for retry_rate, without jobs"):
        Alert(name="all", webhook=HOOK, on=(AlertKind.RETRY_RATE,), jobs=("billing-*",))
