"""Which of the waiting fires and runs get the free slots, on virtual time."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from cronflow.domain.concurrency import KeyedConcurrency
from cronflow.domain.job import Job, Overlap, PythonTarget, Retry
from cronflow.domain.planning import run_on_request
from cronflow.domain.run import AttemptResult, Kind, Outcome, RunState, job_of
from cronflow.domain.schedule.kinds import Every, Once
from cronflow.ports import Assignment
from cronflow.schemas.runs import run_schema
from tests.node.cluster import Cluster, a_cluster

SECOND = timedelta(seconds=1)


def a_job(name: str, priority: int, **fields: object) -> Job:
    return Job(name=name, target=PythonTarget("jobs:any"), priority=priority, **fields)  # type: ignore[arg-type]


async def busy(cluster: Cluster) -> asyncio.Event:
    """Occupy the only slot until the returned event is set."""
    held = cluster.executor.release = asyncio.Event()
    await cluster.service.jobs.apply([a_job("first", 9)])
    await cluster.service.jobs.trigger("first")
    await cluster.elapse(2)
    assert cluster.executor.runs_started
    return held


def started(cluster: Cluster) -> list[str]:
    return [job_of(run) for run in cluster.executor.runs_started][1:]


async def test_a_fire_of_high_priority_does_not_wait_behind_any_number_of_others() -> None:
    async with a_cluster("a", slots=1) as cluster:
        held = await busy(cluster)
        now = cluster.clock.now()
        low = [a_job(f"low-{k:03}", 0, schedule=Once(now + SECOND)) for k in range(300)]
        await cluster.service.jobs.apply([*low, a_job("high", 9, schedule=Once(now + 5 * SECOND))])
        await cluster.elapse(8)
        held.set()
        await cluster.elapse(2)
        # The oldest may have its turn first.
        assert "high" in started(cluster)[:2]


async def test_manual_runs_obey_priority_and_share_the_slots_with_fires() -> None:
    async with a_cluster("a", slots=1) as cluster:
        held = await busy(cluster)
        names = {"manual-low": 0, "manual-high": 9, "manual-middle": 5}
        await cluster.service.jobs.apply([a_job(name, priority) for name, priority in names.items()])
        for name in names:
            await cluster.service.jobs.trigger(name)
        now = cluster.clock.now()
        fires = {"fire-low": 1, "fire-middle": 6, "fire-high": 8}
        jobs = [a_job(name, priority, schedule=Once(now + SECOND)) for name, priority in fires.items()]
        await cluster.service.jobs.apply(jobs)
        await cluster.elapse(5)
        assert started(cluster) == []
        for _ in range(7):
            held.set()
            # Each takes some seconds; a node that ended more than one run per second would be given more than one.
            held = cluster.executor.release = asyncio.Event()
            await cluster.elapse(4)
        assert started(cluster) == [
            "manual-high",
            "fire-high",
            "fire-middle",
            "manual-middle",
            "fire-low",
            "manual-low",
        ]


async def test_a_retry_gets_a_slot_although_fires_always_wait_for_one() -> None:
    def result(assignment: Assignment) -> AttemptResult:
        fails = assignment.job.name == "retries" and assignment.attempt == 1
        return AttemptResult(Outcome.ERROR, error="again") if fails else AttemptResult(Outcome.OK)

    async with a_cluster("a", slots=1) as cluster:
        cluster.executor.attempt_result = result
        await cluster.service.jobs.apply([a_job("retries", 0, retry=Retry(delays=["1s"]))])
        run_id = await cluster.service.jobs.trigger("retries")
        await cluster.elapse(0.5)
        # Each takes a second, and there is one slot for all of them.
        held = cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job(f"fires-{k}", 9, schedule=Every("1s")) for k in range(10)])
        for _ in range(40):
            await cluster.elapse(1)
            held.set()
            held = cluster.executor.release = asyncio.Event()
        assert (await cluster.service.runs.get(run_id)).state in (RunState.RUNNING, RunState.SUCCEEDED)
        # It did not get more than its turn either.
        assert len(started(cluster)) > 10


async def test_a_manual_run_of_high_priority_does_not_wait_behind_any_number_of_others() -> None:
    async with a_cluster("a", slots=1) as cluster:
        held = await busy(cluster)
        await cluster.service.jobs.apply([a_job("low", 0, overlap=Overlap.ALLOW), a_job("high", 9)])
        for _ in range(300):
            await cluster.service.jobs.trigger("low")
        await cluster.elapse(5)
        await cluster.service.jobs.trigger("high")
        await cluster.elapse(5)
        held.set()
        await cluster.elapse(3)
        assert "high" in started(cluster)[:2]


async def test_runs_that_wait_for_a_limit_hide_no_others_and_follow_in_their_order() -> None:
    async with a_cluster("a", slots=4) as cluster:
        limited = a_job("limited", 5, overlap=Overlap.ALLOW, concurrency=(KeyedConcurrency("one", 1),))
        await cluster.service.jobs.apply([limited, a_job("other", 1)])
        cluster.executor.release = held = asyncio.Event()
        record, now = await cluster.service.jobs.get("limited"), cluster.clock.now()
        runs = [
            run_on_request(record, f"limited@manual-{k}", Kind.MANUAL, now, None, now - (150 - k) * SECOND)
            for k in range(150)
        ]
        await cluster.backends.runs.insert(runs)
        await cluster.elapse(3)
        await cluster.service.jobs.trigger("other")
        await cluster.elapse(2)
        assert [job_of(run) for run in cluster.executor.runs_started] == ["limited", "other"]
        held.set()
        await cluster.elapse(120)
        order = [int(run.rpartition("-")[2]) for run in cluster.executor.runs_started if job_of(run) == "limited"]
        assert order == list(range(150))


async def test_a_run_is_not_before_a_fire_that_was_due_half_a_second_before_it_was_requested() -> None:
    async with a_cluster("a", slots=1) as cluster:
        held = await busy(cluster)
        fire = a_job("fire", 5, schedule=Once(cluster.clock.now() + SECOND))
        await cluster.service.jobs.apply([a_job("requested", 5), fire])
        await cluster.elapse(1.5)
        run = await cluster.service.jobs.trigger("requested")
        inserted = cluster.backends.documents.runs[run]
        assert inserted.next_check == inserted.created_at
        assert run_schema(inserted)["check_at"] == run_schema(inserted)["created_at"]
        await cluster.elapse(2)
        held.set()
        await cluster.elapse(3)
        assert started(cluster) == ["fire", "requested"]


async def test_an_edit_of_the_priority_counts_for_runs_that_wait() -> None:
    async with a_cluster("a", slots=1) as cluster:
        held = await busy(cluster)
        await cluster.service.jobs.apply([a_job("low", 1), a_job("middle", 5)])
        for name in ("low", "middle"):
            await cluster.service.jobs.trigger(name)
        await cluster.elapse(2)
        await cluster.service.jobs.apply([a_job("low", 8)])
        held.set()
        held = cluster.executor.release = asyncio.Event()
        await cluster.elapse(3)
        assert started(cluster) == ["low"]
        held.set()


async def test_runs_of_one_job_that_exclude_each_other_follow_in_their_order_without_delay() -> None:
    async with a_cluster("a", slots=4) as cluster:
        await cluster.service.jobs.apply([a_job("one-by-one", 5, overlap=Overlap.QUEUE), a_job("other", 1)])
        cluster.executor.release = held = asyncio.Event()
        record, now = await cluster.service.jobs.get("one-by-one"), cluster.clock.now()
        runs = [
            run_on_request(record, f"one-by-one@manual-{k}", Kind.MANUAL, now, None, now - (150 - k) * SECOND)
            for k in range(150)
        ]
        wanted = [run.id for run in runs]
        await cluster.backends.runs.insert(runs)
        await cluster.elapse(2)
        assert cluster.executor.runs_started == wanted[:1]
        await cluster.service.jobs.trigger("other")
        await cluster.elapse(2)
        # Those that are blocked do not hide what may start.
        assert [job_of(run) for run in cluster.executor.runs_started] == ["one-by-one", "other"]
        held.set()
        await cluster.elapse(60)
        order = [wanted.index(run) for run in cluster.executor.runs_started if run in set(wanted)]
        assert order == list(range(150)), order
