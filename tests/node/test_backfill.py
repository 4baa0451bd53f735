"""Backfills on virtual time: every instant once, in turn with the schedule, through dead leaders and cancellations."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from cronflow.domain.backfill import BackfillRate, BackfillScope, BackfillState
from cronflow.domain.events import BackfillEnded
from cronflow.domain.job import BACKFILL_PRIORITY, Job, Overlap, PythonTarget, Retry
from cronflow.domain.run import AttemptResult, Kind, Outcome, RunState
from cronflow.domain.schedule.kinds import Every
from cronflow.ports import Assignment
from tests.node.cluster import Cluster, a_cluster

SECOND = timedelta(seconds=1)


def a_job(every: str = "1h", **fields: object) -> Job:
    return Job(name="report", target=PythonTarget("jobs:report"), schedule=Every(every), **fields)  # type: ignore[arg-type]


async def request(cluster: Cluster, count: int, job: Job, rate: str | None = None) -> list[datetime]:
    """Apply the job, and backfill so many of its latest instants. Returns them."""
    await cluster.service.jobs.apply([job])
    assert isinstance(job.schedule, Every)
    now = cluster.clock.now()
    last = now - SECOND
    limit = None if rate is None else BackfillRate(int(rate.partition("/")[0]), rate[-1])
    found, started = await cluster.service.backfills.request(
        "report", last - count * job.schedule.interval + SECOND, last, BackfillScope.ALL, limit, by="ada"
    )
    assert (started, found.total) == (True, count)
    assert found.first_instant is not None
    return [found.first_instant + n * job.schedule.interval for n in range(count)]


def of_backfill(cluster: Cluster) -> list[tuple[datetime, RunState]]:
    return [(run.fire_at, run.state) for run in cluster.runs if run.kind is Kind.BACKFILL]


def fail_first_attempts(cluster: Cluster) -> None:
    """Of the runs of backfills."""

    def result(assignment: Assignment) -> AttemptResult:
        fails = "~b" in assignment.run and assignment.attempt == 1
        return AttemptResult(Outcome.ERROR, error="no") if fails else AttemptResult(Outcome.OK)

    cluster.executor.attempt_result = result


def started(cluster: Cluster) -> list[str]:
    return [run for run in cluster.executor.runs_started if "~b" in run]


async def state(cluster: Cluster) -> BackfillState:
    return (await cluster.service.backfills.get("report~b1")).backfill.state


async def test_each_instant_runs_once_in_order_and_the_backfill_ends() -> None:
    async with a_cluster("a", "b") as cluster:
        instants = await request(cluster, 5, a_job())
        await cluster.elapse(20)
        assert of_backfill(cluster) == [(instant, RunState.SUCCEEDED) for instant in instants]
        assert started(cluster) == [run.id for run in cluster.runs if run.kind is Kind.BACKFILL]
        progress = await cluster.service.backfills.get("report~b1")
        assert (progress.backfill.state, progress.counts) == (BackfillState.DONE, {RunState.SUCCEEDED: 5})
        events = [one.event for one in await cluster.backends.events.find(kinds=["backfill_ended"])]
        assert events == [BackfillEnded("report~b1", 5, 0)]
        assert await cluster.backends.backfills.watched(1) == []


async def test_runs_of_a_backfill_have_the_lowest_priority_also_after_an_edit_of_their_job() -> None:
    async with a_cluster("a", slots=1) as cluster:
        cluster.executor.release = asyncio.Event()
        await request(cluster, 3, a_job(overlap=Overlap.ALLOW, priority=9))
        await cluster.elapse(2)

        def priorities() -> set[int]:
            return {run.priority for run in cluster.runs if run.kind is Kind.BACKFILL}

        assert priorities() == {BACKFILL_PRIORITY}
        edit = asyncio.ensure_future(cluster.service.jobs.apply([a_job(overlap=Overlap.ALLOW, priority=8)]))
        await cluster.elapse(2)
        await edit
        assert priorities() == {BACKFILL_PRIORITY}
        assert {run.job_ver for run in cluster.runs if run.kind is Kind.BACKFILL} == {2}
        cluster.executor.release.set()


async def test_runs_that_exclude_each_other_follow_one_after_the_other() -> None:
    async with a_cluster("a", "b") as cluster:
        held = cluster.executor.release = asyncio.Event()
        await request(cluster, 3, a_job(overlap=Overlap.FORBID))
        for count in (1, 2, 3):
            await cluster.elapse(10)
            assert len(started(cluster)) == count
            held.set()
            held = cluster.executor.release = asyncio.Event()


async def test_short_runs_that_exclude_each_other_do_not_wait_for_the_next_look() -> None:
    async with a_cluster("a") as cluster:
        await request(cluster, 20, a_job(overlap=Overlap.FORBID))
        await cluster.elapse(8)
        assert [state for _, state in of_backfill(cluster)] == [RunState.SUCCEEDED] * 20


async def test_runs_that_may_overlap_run_at_once() -> None:
    async with a_cluster("a") as cluster:
        cluster.executor.release = asyncio.Event()
        await request(cluster, 4, a_job(overlap=Overlap.ALLOW))
        await cluster.elapse(8)
        assert len(started(cluster)) == 4


async def test_a_rate_is_kept_also_by_the_next_leader() -> None:
    async with a_cluster("a", "b") as cluster:
        await request(cluster, 10, a_job(overlap=Overlap.ALLOW), "6/m")
        await cluster.elapse(25)
        assert len(of_backfill(cluster)) == 3
        await cluster.kill(cluster.leaders[0])
        await cluster.elapse(60)
        before = len(of_backfill(cluster))
        await cluster.elapse(20)
        assert len(of_backfill(cluster)) == before + 2


async def test_the_schedule_goes_first_and_no_fire_is_skipped_for_a_backfill() -> None:
    async with a_cluster("a") as cluster:
        # Each run takes as long as two intervals.
        await request(cluster, 4, a_job("10s", overlap=Overlap.FORBID))
        held = cluster.executor.release = asyncio.Event()
        await cluster.elapse(15)
        assert len(started(cluster)) == 1
        held.set()
        held = cluster.executor.release = asyncio.Event()
        await cluster.elapse(3)
        # The fire that fell due meanwhile runs before the next instant of the backfill.
        assert [("~b" in run) for run in cluster.executor.runs_started] == [True, False]
        held.set()
        cluster.executor.release = None
        await cluster.elapse(60)
        assert [run.reason for run in cluster.runs if run.state is RunState.SKIPPED] == []
        assert await state(cluster) is BackfillState.DONE


async def test_a_fire_goes_before_a_run_of_a_backfill_that_waits_for_its_retry() -> None:
    async with a_cluster("a") as cluster:
        fail_first_attempts(cluster)
        await request(cluster, 1, a_job("10s", overlap=Overlap.FORBID, retry=Retry(delays=["60s"])))
        await cluster.elapse(50)
        done = [run for run in cluster.runs if run.kind is Kind.INTERVAL and run.state is RunState.SUCCEEDED]
        assert len(done) >= 3
        assert [state for _, state in of_backfill(cluster)] == [RunState.RETRYING]
        await cluster.elapse(30)
        assert [state for _, state in of_backfill(cluster)] == [RunState.SUCCEEDED]


async def test_a_run_of_a_backfill_that_its_node_took_to_the_grave_and_a_fire_do_not_wait_for_each_other() -> None:
    """A fire waits for a run of a backfill that was dispatched, so this run must not wait for the fire."""
    async with a_cluster("a", "b") as cluster:
        cluster.backends.faults.stall("queue.take")
        await request(cluster, 1, a_job("10s", overlap=Overlap.FORBID))
        await cluster.elapse(3)
        (run,) = (run for run in cluster.runs if run.kind is Kind.BACKFILL)
        assert run.state is RunState.DISPATCHED
        # Its item is lost, and when that is noticed a fire is due.
        for items in cluster.backends.memory.lists.values():
            items.clear()
        await cluster.elapse(12)
        cluster.backends.faults.heal()
        await cluster.elapse(15)
        assert [state for _, state in of_backfill(cluster)] == [RunState.SUCCEEDED]
        assert RunState.SUCCEEDED in {run.state for run in cluster.runs if run.kind is Kind.INTERVAL}


async def test_a_leader_that_dies_between_the_insert_and_the_cursor_leaves_nothing_behind() -> None:
    async with a_cluster("a", "b") as cluster:
        cluster.backends.faults.fail_before("backfills.advance", 1000)
        instants = await request(cluster, 3, a_job(overlap=Overlap.ALLOW))
        await cluster.elapse(6)
        assert len(of_backfill(cluster)) == 3
        assert (await cluster.service.backfills.get("report~b1")).backfill.inserted == 0
        await cluster.kill(cluster.leaders[0])
        cluster.backends.faults.heal()
        await cluster.elapse(60)
        assert of_backfill(cluster) == [(instant, RunState.SUCCEEDED) for instant in instants]
        assert len(started(cluster)) == 3
        assert await state(cluster) is BackfillState.DONE


async def test_a_run_that_is_inserted_while_its_backfill_is_cancelled_is_cancelled_too() -> None:
    async with a_cluster("a") as cluster:
        advance = cluster.backends.backfills.advance

        async def late(*args: object) -> bool:
            # The cancellation is written, and reads the open runs, before this leader goes on.
            await cluster.service.backfills.cancel("report~b1", by="bob")
            return await advance(*args)  # type: ignore[arg-type]

        cluster.backends.backfills.advance = late  # type: ignore[method-assign, assignment]
        cluster.executor.release = asyncio.Event()
        await request(cluster, 3, a_job(overlap=Overlap.ALLOW))
        await cluster.elapse(6)
        assert {state for _, state in of_backfill(cluster)} == {RunState.CANCELLED}
        assert started(cluster) == []
        # It is watched a while longer, for a leader that stalls.
        assert len(await cluster.backends.backfills.watched(1)) == 1
        await cluster.elapse(65)
        assert await cluster.backends.backfills.watched(1) == []


async def test_a_leader_that_stalls_until_a_cancelled_backfill_is_closed_cancels_what_it_inserts() -> None:
    async with a_cluster("a") as cluster:
        advance = cluster.backends.backfills.advance

        async def late(*args: object) -> bool:
            await cluster.service.backfills.cancel("report~b1", by="bob")
            await cluster.backends.backfills.close("report~b1", BackfillState.CANCELLED, cluster.clock.now())
            return await advance(*args)  # type: ignore[arg-type]

        # The cancellation does not see the runs, because they are inserted after it.
        cluster.backends.runs.open_of = nothing_open  # type: ignore[method-assign, assignment]
        cluster.backends.backfills.advance = late  # type: ignore[method-assign, assignment]
        cluster.executor.release = asyncio.Event()
        await request(cluster, 3, a_job(overlap=Overlap.ALLOW))
        await cluster.elapse(6)
        assert [(state, run.cancel_by) for run, (_, state) in zip(cluster.runs, of_backfill(cluster), strict=True)] == [
            (RunState.CANCELLED, "bob")
        ] * 3


async def nothing_open(_: object) -> dict[str, list[object]]:
    return {}


async def test_a_paused_job_holds_its_backfill_and_loses_none_of_its_runs() -> None:
    async with a_cluster("a") as cluster:
        fail_first_attempts(cluster)
        instants = await request(cluster, 3, a_job(overlap=Overlap.FORBID, retry=Retry(delays=["10s"])))
        await cluster.elapse(8)
        assert of_backfill(cluster) == [(instants[0], RunState.RETRYING)]
        await cluster.service.jobs.pause("report")
        await cluster.elapse(20)
        assert len(started(cluster)) == 1
        await cluster.service.jobs.resume("report")
        await cluster.elapse(60)
        assert of_backfill(cluster) == [(instant, RunState.SUCCEEDED) for instant in instants]


async def test_deleting_the_job_cancels_its_backfill() -> None:
    async with a_cluster("a") as cluster:
        await request(cluster, 10, a_job(overlap=Overlap.ALLOW), "1/m")
        await cluster.elapse(8)
        await cluster.service.jobs.delete("report")
        await cluster.elapse(8)
        progress = await cluster.service.backfills.get("report~b1")
        assert (progress.backfill.state, progress.backfill.reason) == (BackfillState.CANCELLED, "the job was deleted")
        assert len(of_backfill(cluster)) == 1


async def test_a_backfill_waits_for_mongodb_and_goes_on() -> None:
    async with a_cluster("a") as cluster:
        cluster.backends.faults.fail_before("backfills.watched", 1000)
        await request(cluster, 2, a_job())
        await cluster.elapse(10)
        assert of_backfill(cluster) == []
        cluster.backends.faults.heal()
        await cluster.elapse(15)
        assert await state(cluster) is BackfillState.DONE
