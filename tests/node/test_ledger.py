"""The ledger: under any edits and failures, every due instant is in exactly one run.

Random sequences of edits, pauses, deletions, killed leaders, lost answers and jumps of time on whole nodes and virtual
time; then the audit, with the schedules of every version that there was, evaluated by the oracle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cronflow.client.local import LocalClient
from cronflow.domain.errors import BackendUnavailable, NotFound
from cronflow.domain.job import Job, Misfire, MisfirePolicy, Overlap, PythonTarget
from cronflow.domain.run import SCHEDULED, RunState
from cronflow.domain.schedule.calendar import Period
from cronflow.domain.schedule.kinds import Cron, Every, Once, Schedule
from cronflow.domain.version import Version, version_due, version_of
from cronflow.ledger.derivation import LedgerSpan
from cronflow.ledger.report import read_report
from cronflow.testing.audit import audit, expectations
from cronflow.testing.clock import FakeClock
from cronflow.testing.schedule_oracle import fires_between
from tests.drawing import examples
from tests.node.cluster import Cluster, a_cluster

SECOND = timedelta(seconds=1)
START = FakeClock().now()
NAMES = ("a", "b")
DAY = timedelta(days=1)
REASONS = {"overlap", "misfire", "paused", "edited", "deleted", "disabled", "replaced"}
SCHEDULES: tuple[Schedule | None, ...] = (
    Every("1s"),
    Every("7s"),
    Cron("*/5 * * * * *"),
    Cron("* * * * *"),
    Every("3s", start=START + 20 * SECOND),
    Every("3s", end=START + 40 * SECOND),
    Once(START + 25 * SECOND),
    Every("2s", blackout=(Period(START + 6 * SECOND, START + 18 * SECOND), Period(START + 40 * SECOND, START + DAY))),
    Every("3s", max_runs=4),
    None,
)
SHAKY = ("jobs.move", "jobs.replace", "jobs.create", "runs.insert", "plans.write", "plans.remove", "versions.keep")


@dataclass(frozen=True)
class Step:
    """Something that happens."""

    what: str
    name: str = ""
    schedule: int = 0
    overlap: Overlap = Overlap.FORBID
    misfire: MisfirePolicy = MisfirePolicy.FIRE_ONCE
    enabled: bool = True
    seconds: float = 0.0


names = st.sampled_from(NAMES)
edits = st.builds(
    Step,
    st.just("apply"),
    names,
    st.integers(0, len(SCHEDULES) - 1),
    st.sampled_from(Overlap),
    st.sampled_from(MisfirePolicy),
    st.sampled_from([True, True, False]),
)
changes = st.builds(Step, st.sampled_from(["pause", "resume", "delete"]), names)
shakes = st.builds(Step, st.sampled_from(["fail before", "fail after", "kill in"]), st.sampled_from(SHAKY))
others = st.builds(Step, st.sampled_from(["kill", "start", "hold", "free", "flush"]))
times = st.builds(Step, st.sampled_from(["elapse", "elapse", "jump"]), seconds=st.sampled_from([0.25, 3.0, 11.5, 90.0]))
stories = st.lists(st.one_of(edits, edits, changes, shakes, others, times, times), min_size=4, max_size=14)


async def finished(cluster: Cluster, act: Coroutine[Any, Any, object]) -> None:
    """An edit waits on the clock; one that fails was not acknowledged, and may stand or not."""
    task = asyncio.ensure_future(act)
    while not task.done():
        await cluster.clock.advance(0.25)
    try:
        task.result()
    except (BackendUnavailable, NotFound):
        return


async def emit(cluster: Cluster, step: Step, number: int) -> None:
    """Let it happen; what a person does here, what goes wrong by itself below."""
    service = cluster.service
    match step.what:
        case "apply":
            job = Job(
                name=step.name,
                target=PythonTarget("jobs:tick"),
                schedule=SCHEDULES[step.schedule],
                overlap=step.overlap,
                misfire=Misfire(policy=step.misfire, late_after=10 * SECOND, max_catch_up=3),
                enabled=step.enabled,
            )
            await finished(cluster, service.jobs.apply([job]))
        case "pause" | "resume" | "delete":
            await finished(cluster, getattr(service.jobs, step.what)(step.name))
        case "hold":
            cluster.executor.release = asyncio.Event()
        case "free":
            free(cluster)
        case "elapse":
            await cluster.elapse(step.seconds)
        case "jump":
            cluster.clock.step(timedelta(seconds=step.seconds))
        case _:
            await fail(cluster, step, number)


async def fail(cluster: Cluster, step: Step, number: int) -> None:
    faults = cluster.backends.faults
    match step.what:
        case "fail before":
            faults.fail_before(step.name)
        case "fail after":
            faults.fail_after(step.name)
        case "kill in":
            # Between two steps of the protocol: the leader hangs in this call and never comes back from it.
            faults.stall(step.name, acted=number % 2 == 0)
            await cluster.elapse(8.0)
            for node in cluster.leaders:
                await cluster.kill(node)
            faults.heal()
        case "kill":
            for node in cluster.leaders:
                await cluster.kill(node)
        case "start":
            cluster.start(f"node-{number}")
        case "flush":
            cluster.backends.memory.flush()


def free(cluster: Cluster) -> None:
    if cluster.executor.release is not None:
        cluster.executor.release.set()
    cluster.executor.release = None


async def versions(cluster: Cluster, name: str) -> list[Version]:
    kept = await cluster.backends.versions.of(name)
    return kept + [version_of(record) for record in await cluster.backends.jobs.get([name])]


async def live(story: list[Step]) -> None:
    async with a_cluster("first") as cluster:
        for number, step in enumerate(story):
            await emit(cluster, step, number)
        # Heal, let a new leader find what others left, and close the book: what is deleted has no instant to come.
        cluster.backends.faults.heal()
        free(cluster)
        cluster.start("last")
        await cluster.elapse(50.0)
        for name in NAMES:
            await finished(cluster, cluster.service.jobs.delete(name))
        history = {name: await versions(cluster, name) for name in NAMES}
        until = cluster.clock.now().replace(microsecond=0) + SECOND
        found = audit({name: expectations(known) for name, known in history.items()}, cluster.runs, until)
        assert (found.lost, found.doubled) == ([], [])
        report = await read_report(LocalClient(cluster.service), LedgerSpan(START - DAY, until), ())
        assert report["whole"], report["violations"]
        assert sum(job["due"] for job in report["jobs"]) == found.fires_due
        assert not any(job["waiting"] or job["not_judged"] for job in report["jobs"])
        for run in cluster.runs:
            assert run.kind in SCHEDULED
            assert version_due(history[run.job], run.fire_at) is not None, run.id
            excluded = (run.reason or "").startswith("blackout: 2026-11-21")
            assert run.state is not RunState.SKIPPED or run.reason in REASONS or excluded
            assert run.reason != "overlap" or run.blocked_by is not None
        for known in history.values():
            assert [version.ver for version in known] == list(range(1, len(known) + 1))
            assert [version.ver for version in known if left_out(version, until)] == []


def left_out(version: Version, until: datetime) -> bool:
    """Whether an instant after the edit lies before the cursor with which the version began: nobody would miss it."""
    schedule = version.job.schedule
    if schedule is None or version.deleted or (version.since is None and version.closed is not None):
        return False  # Nothing is due any more, also because there were as many runs as there may be.
    after = version.at.replace(microsecond=0) + SECOND
    return any(fires_between(schedule, after, until if version.since is None else min(until, version.since)))


@settings(max_examples=examples(12), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(stories)
def test_every_instant_that_fell_due_lies_in_exactly_one_run_whatever_happened(story: list[Step]) -> None:
    asyncio.run(live(story))


EVERY_SECOND, WINDOWS, FOUR_RUNS, BY_HAND = 0, *range(len(SCHEDULES) - 3, len(SCHEDULES))


@pytest.mark.parametrize(
    "story",
    [
        # The editor dies between its write and the run over what it jumped; by then the job has no schedule left.
        [
            Step("apply", "a", EVERY_SECOND),
            Step("kill"),
            Step("elapse", seconds=3.0),
            Step("fail before", "runs.insert"),
            Step("apply", "a", BY_HAND),
        ],
        # The same, and the leader, which has cached the earlier pending run, moves the job before plan recovery.
        [
            Step("apply", "a", EVERY_SECOND, Overlap.QUEUE),
            Step("elapse", seconds=3.0),
            Step("hold"),
            Step("elapse", seconds=3.0),
            Step("fail before", "runs.insert"),
            Step("apply", "a", 2, Overlap.ALLOW),
            Step("free"),
        ],
        # Disabled, then enabled: what fell due in between.
        [
            Step("apply", "a", EVERY_SECOND),
            Step("apply", "a", EVERY_SECOND, enabled=False),
            Step("elapse", seconds=11.5),
            Step("apply", "a", EVERY_SECOND),
        ],
        # Deleted and defined anew within a second.
        [
            Step("apply", "a", EVERY_SECOND),
            Step("elapse", seconds=3.0),
            Step("delete", "a"),
            Step("apply", "a", EVERY_SECOND),
        ],
        # Paused over the end of its schedule.
        [Step("apply", "a", 5), Step("elapse", seconds=3.0), Step("pause", "a"), Step("jump", seconds=90.0)],
        # Its windows and an outage; then it is edited at an instant that they exclude.
        [
            Step("apply", "a", WINDOWS),
            Step("elapse", seconds=3.0),
            Step("kill"),
            Step("jump", seconds=11.5),
            Step("start"),
            Step("elapse", seconds=11.5),
            Step("apply", "a", EVERY_SECOND),
        ],
        # It has had all of its runs, is edited, disabled and enabled, and may run again.
        [
            Step("apply", "a", FOUR_RUNS),
            Step("elapse", seconds=11.5),
            Step("elapse", seconds=11.5),
            Step("apply", "a", FOUR_RUNS, enabled=False),
            Step("elapse", seconds=11.5),
            Step("apply", "a", FOUR_RUNS, Overlap.ALLOW),
            Step("kill in", "jobs.move"),
            Step("start"),
            Step("apply", "a", 4),
            Step("elapse", seconds=11.5),
        ],
    ],
)
async def test_the_ledger_has_no_hole_where_an_edit_meets_a_failure(story: list[Step]) -> None:
    await live(story)
