"""Faults of the protocol's table (section 9) that no real server can reproduce: duplicated items, lost signals, a step
of MongoDB's clock.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from cronflow.domain.job import Job, PythonTarget, Retry, StartGuard
from cronflow.domain.run import AttemptResult, Outcome, RunState
from cronflow.domain.schedule.kinds import Every
from cronflow.ports import Assignment, LineSink
from tests.node.cluster import Cluster, Skewed, a_cluster

SECOND = timedelta(seconds=1)


async def a_doubled_item(cluster: Cluster, guard: StartGuard) -> None:
    """A run is under way, and the other node has its item too: Redis failed over to a replica that still had it in a
    list and had not heard of the lock.
    """
    cluster.executor.release = asyncio.Event()
    await cluster.service.jobs.apply([Job(name="one", target=PythonTarget("a:b"), start_guard=guard)])
    stall = cluster.backends.faults.stall("queue.take")
    await cluster.service.jobs.trigger("one")
    memory = cluster.backends.memory
    while not any(memory.lists.values()):
        await cluster.elapse(0.25)
    (holder,) = [node for node, items in memory.lists.items() if items]
    ((_, item),) = memory.lists[holder]
    cluster.backends.faults.heal()
    stall.release()
    while not cluster.executor.starts or cluster.runs[0].state is not RunState.RUNNING:
        await cluster.elapse(0.25)
    memory.flush()
    (other,) = [node.id for node in cluster.nodes if node.id != holder]
    memory.lists[other] = [(cluster.clock.monotonic() + 5, item)]
    # Neither waits for the leader to set its key in Redis again.
    await cluster.elapse(4)
    assert memory.lists.get(other) == []


async def test_a_doubled_item_starts_once_where_a_start_is_recorded_first() -> None:
    async with a_cluster("a", "b") as cluster:
        await a_doubled_item(cluster, StartGuard.MONGO)
        cluster.executor.release.set()  # type: ignore[union-attr]
        await cluster.elapse(5)
        assert len(cluster.executor.starts) == 1
        (run,) = cluster.runs
        assert (run.state, [attempt.outcome for attempt in run.attempts]) == (RunState.SUCCEEDED, [Outcome.OK])
        assert cluster.backends.documents.late == {}


async def test_a_doubled_item_that_may_start_at_once_is_committed_once_and_the_other_is_stopped() -> None:
    async with a_cluster("a", "b") as cluster:
        await a_doubled_item(cluster, StartGuard.REDIS)
        first, second = cluster.executor.starts
        assert (first[0], first[1]) == (second[0], second[1])
        assert first[2] != second[2]
        # Its start was not accepted, so it was stopped; the one that was goes on.
        assert cluster.executor.cancelled == [first[0]]
        cluster.executor.release.set()  # type: ignore[union-attr]
        await cluster.elapse(5)
        (run,) = cluster.runs
        assert (run.state, [attempt.node for attempt in run.attempts]) == (RunState.SUCCEEDED, [first[2]])
        (late,) = cluster.backends.documents.late.values()
        assert (late.node, late.fence, late.attempt_result.outcome) == (second[2], second[1], Outcome.INTERRUPTED)


async def test_a_superseded_handler_that_is_slow_to_stop_has_its_start_refused_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_cluster("a", "b") as cluster:
        stopped, original = asyncio.Event(), cluster.executor.run

        async def slow_to_stop(assignment: Assignment, node: str, log: LineSink) -> AttemptResult:
            try:
                return await original(assignment, node, log)
            except asyncio.CancelledError:
                await stopped.wait()
                raise

        monkeypatch.setattr(cluster.executor, "run", slow_to_stop)
        await a_doubled_item(cluster, StartGuard.REDIS)
        superseded, writes = list(cluster.executor.cancelled), cluster.backends.faults.calls["runs.apply"]
        await cluster.elapse(2)
        writes = cluster.backends.faults.calls["runs.apply"] - writes
        stopped.set()
        cluster.executor.release.set()  # type: ignore[union-attr]
        await cluster.elapse(5)
        assert (len(superseded), writes) == (1, 0)


async def test_without_signals_a_fire_is_a_second_late_and_a_manual_run_two() -> None:
    async with a_cluster("a", "b") as cluster:
        cluster.backends.memory.signals.clear()
        cluster.backends.memory.notify = lambda channel: None  # type: ignore[method-assign]
        await cluster.service.jobs.apply(
            [
                Job(name="tick", target=PythonTarget("a:b"), schedule=Every("10s")),
                Job(name="hand", target=PythonTarget("a:b")),
            ]
        )
        await cluster.elapse(35)
        fires = {run.id: run.fire_at for run in cluster.runs}
        late = [at - fires[run] for run, _, _, at in cluster.executor.starts]
        assert len(late) == len(fires) >= 3
        assert all(timedelta(milliseconds=-1) <= one <= 1.25 * SECOND for one in late)
        asked = cluster.clock.now()
        by_hand = await cluster.service.jobs.trigger("hand")
        await cluster.elapse(3)
        (at,) = [at for run, _, _, at in cluster.executor.starts if run == by_hand]
        assert at - asked <= 2.25 * SECOND


@pytest.mark.parametrize("step", [timedelta(hours=1), timedelta(minutes=-5)])
async def test_a_clock_step_of_mongodb_starts_no_running_job_twice(step: timedelta) -> None:
    async with a_cluster("a", "b") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([Job(name="long", target=PythonTarget("a:b"))])
        await cluster.service.jobs.trigger("long")
        await cluster.elapse(8)
        assert [run.state for run in cluster.runs] == [RunState.RUNNING]
        step_mongodb(cluster, step)
        await cluster.elapse(90)
        assert len(cluster.executor.starts) == 1
        cluster.executor.release.set()
        await cluster.elapse(2)
        assert [run.state for run in cluster.runs] == [RunState.SUCCEEDED]
        assert len(cluster.leaders) == 1


async def test_a_mongodb_whose_clock_went_back_finds_a_lost_run_later_by_as_much() -> None:
    async with a_cluster("a", "b") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([Job(name="long", target=PythonTarget("a:b"), retry=Retry(max=0))])
        await cluster.service.jobs.trigger("long")
        await cluster.elapse(3)
        step_mongodb(cluster, timedelta(minutes=-2))
        worker = next(node for node in cluster.nodes if node.id == cluster.runs[0].node)
        await cluster.kill(worker)
        await cluster.elapse(120)
        assert len(cluster.executor.starts) == 1
        cluster.executor.release.set()
        await cluster.elapse(80)
        assert len(cluster.executor.starts) == 2
        assert cluster.runs[0].state is RunState.SUCCEEDED


async def test_an_edit_that_dies_between_its_move_and_its_skipped_run_loses_no_instant() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([Job(name="tick", target=PythonTarget("a:b"), schedule=Every("10s"))])
        await cluster.elapse(35)
        await cluster.service.jobs.pause("tick")
        await cluster.elapse(30)
        stall = cluster.backends.faults.stall("runs.insert")
        editor = asyncio.create_task(cluster.service.jobs.resume("tick"))
        await stall.reached.wait()
        editor.cancel()
        await asyncio.wait({editor})
        cluster.backends.faults.heal()
        known = len(cluster.runs)
        # The leader plans on in the term in which it has planned the fires before: what it remembers of them is no
        # reason not to look whether the run of this pending run exists.
        await cluster.elapse(60)
        assert len(cluster.runs) > known
        fires = sum((run.covers.count or 0) if run.covers else 1 for run in cluster.runs)
        first, last = cluster.runs[0].fire_at, cluster.runs[-1].fire_at
        assert fires == (last - first) / timedelta(seconds=10) + 1
        assert [run.reason for run in cluster.runs if run.state is RunState.SKIPPED] == ["paused"]
        assert cluster.backends.documents.plans == {}


async def test_a_triggered_run_starts_at_once_although_the_clock_of_mongodb_is_a_little_behind() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([Job(name="report", target=PythonTarget("a:b"))])
        await cluster.elapse(2)
        step_mongodb(cluster, timedelta(milliseconds=-900))
        for count in range(1, 11):
            await cluster.service.jobs.trigger("report")
            await cluster.elapse(0.1)
            assert len(cluster.executor.starts) == count


def step_mongodb(cluster: Cluster, step: timedelta) -> None:
    """Set the clock by which `check_at` is written and read."""
    cluster.backends.documents.clock = Skewed(cluster.clock, step)
    cluster.backends.server_clocks["MongoDB"].skew = step  # type: ignore[attr-defined]
