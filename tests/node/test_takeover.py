"""A leader that dies or sleeps between any two steps of a batch: the next one finishes what it began, once."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise

import pytest

from cronflow.domain.job import Job, Overlap, PythonTarget, Retry
from cronflow.domain.run import RunState
from cronflow.domain.schedule import Every
from tests.node.cluster import Cluster, a_cluster

STEPS = ["jobs.due", "plans.write", "jobs.move", "runs.insert", "queue.dispatch", "plans.remove"]


async def a_leader_stuck_at(cluster: Cluster, verb: str, *, acted: bool) -> None:
    """Let it plan until it waits at that step of a batch. It runs no job itself, so that none dies with it."""
    cluster.start("worker", work="yes")
    await cluster.service.apply(
        [
            Job(
                name=f"job-{k}",
                target=PythonTarget("a:b"),
                schedule=Every("10s"),
                overlap=Overlap.ALLOW,
                require={"work": "yes"},
                retry=Retry(max=0),
            )
            for k in range(3)
        ]
    )
    await cluster.elapse(12)
    stall = cluster.backends.faults.stall(verb, acted=acted)
    for _ in range(60):
        await cluster.elapse(0.25)
        if stall.reached.is_set():
            return
    raise AssertionError(f"nobody came to {verb}")


def nothing_lost_or_doubled(cluster: Cluster, least: int) -> None:
    for k in range(3):
        fires = [run.fire_at for run in cluster.runs if run.job == f"job-{k}"]
        assert len(fires) >= least
        assert {later - earlier for earlier, later in pairwise(fires)} == {timedelta(seconds=10)}
    started = cluster.executor.runs_started
    assert len(started) == len(set(started))
    assert cluster.backends.plans.notes == {}  # type: ignore[attr-defined]
    assert {run.state for run in cluster.runs if not run.is_open} == {RunState.SUCCEEDED}


@pytest.mark.parametrize("acted", [False, True])
@pytest.mark.parametrize("verb", STEPS)
async def test_dkron_1210_a_leader_killed_between_two_steps_loses_no_instant(verb: str, acted: bool) -> None:
    async with a_cluster("a", "b") as cluster:
        await a_leader_stuck_at(cluster, verb, acted=acted)
        (leader,) = cluster.leaders
        await cluster.kill(leader)
        cluster.backends.faults.heal()
        await cluster.elapse(75)
        nothing_lost_or_doubled(cluster, least=8)


@pytest.mark.parametrize("verb", ["jobs.move", "runs.insert", "queue.dispatch"])
async def test_a_leader_that_sleeps_between_two_steps_and_wakes_deposed_does_no_harm(verb: str) -> None:
    async with a_cluster("a", "b") as cluster:
        await a_leader_stuck_at(cluster, verb, acted=False)
        (sleeper,) = cluster.leaders
        # Its renewals sleep too, so that it is deposed; then all that it had under way arrives at once.
        sleeper.elector.deposed("asleep")
        sleeper.elector._abstain_until = 1e9
        cluster.backends.memory.leader = None
        stalled = cluster.backends.faults._stalls.pop((verb, False))
        await cluster.elapse(20)
        assert [node for node in cluster.leaders if node is not sleeper]
        stalled.release()
        await cluster.elapse(45)
        nothing_lost_or_doubled(cluster, least=7)


async def an_item_of_a_deposed_leader(cluster: Cluster) -> None:
    """A run that was given out, and whose leader steps down before it is taken."""
    await cluster.service.apply([Job(name="one", target=PythonTarget("a:b"))])
    stall = cluster.backends.faults.stall("queue.take")
    await cluster.service.trigger("one")
    await cluster.elapse(1.5)
    (run,) = cluster.runs
    assert run.state is RunState.DISPATCHED
    before = await cluster.service.status()
    await cluster.service.stepdown()
    await cluster.elapse(1)
    assert (await cluster.service.status()).term > before.term
    stall.release()
    cluster.backends.faults.heal()


async def test_what_a_deposed_leader_gave_out_and_nobody_took_runs_at_once_and_not_when_its_ack_is_overdue() -> None:
    async with a_cluster("a", "b") as cluster:
        await an_item_of_a_deposed_leader(cluster)
        await cluster.elapse(2)
        (run,) = cluster.runs
        assert run.state is RunState.SUCCEEDED
        assert (run.attempt, len(cluster.executor.starts)) == (1, 1)
        assert cluster.backends.runs.late == {}  # type: ignore[attr-defined]


async def test_a_doubled_item_of_an_earlier_term_gives_back_nothing_that_runs_here() -> None:
    async with a_cluster("a", "b") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.apply([Job(name="one", target=PythonTarget("a:b"))])
        await cluster.service.trigger("one")
        await cluster.elapse(2)
        (run,) = cluster.runs
        assert run.node is not None
        worker = next(node._worker for node in cluster.nodes if node.id == run.node)
        assert worker is not None
        (active,) = worker._active.values()
        # As a Redis that failed over may have it: the item is there again, and a newer term.
        cluster.backends.memory.lists[run.node] = [(cluster.clock.monotonic() + 5, active.assignment)]
        await cluster.service.stepdown()
        await cluster.elapse(3)
        assert [run.state for run in cluster.runs] == [RunState.RUNNING]
        cluster.executor.release.set()
        await cluster.elapse(2)
        assert [run.state for run in cluster.runs] == [RunState.SUCCEEDED]
        assert len(cluster.executor.starts) == 1
