"""A leader that dies or sleeps between any two steps of a batch: the next one finishes what it began, once."""

from __future__ import annotations

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


async def test_a_leader_that_meets_a_newer_term_in_a_job_stops_planning_at_once() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.apply([Job(name="tick", target=PythonTarget("a:b"), schedule=Every("10s"))])
        (leader,) = cluster.leaders
        assert leader.elector.tenure is not None
        await cluster.backends.jobs.fence(["tick"], leader.elector.tenure.term + 1)
        moves = cluster.backends.faults.calls["jobs.move"]
        for _ in range(3):
            cluster.clock.step(timedelta(seconds=4))
            await leader._timekeeper.step()
        # Its moves would not apply, the job would stay due, and it would try again without a pause.
        assert await leader._planner.step() > 0
        assert not leader.leads
        assert cluster.backends.faults.calls["jobs.move"] == moves
