"""What a node holds beyond its slots, on virtual time: waiting runs in its list, and outcomes to be recorded."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from cronflow.domain.job import Job, Overlap, PythonTarget, Retry
from cronflow.domain.run import RunState
from cronflow.domain.schedule.kinds import Once
from cronflow.worker import worker
from cronflow.worker.throughput import MOST_AHEAD
from tests.contracts.builders import a_job, a_run, an_assignment
from tests.node.cluster import Cluster, a_cluster, worker_of

SECOND = timedelta(seconds=1)


async def a_herd(cluster: Cluster, size: int) -> None:
    """Jobs that are due in a second."""
    due = cluster.clock.now() + SECOND
    jobs = [
        Job(
            name=f"job-{k:03}",
            target=PythonTarget("jobs:any"),
            schedule=Once(due),
            retry=Retry(max=0),
            overlap=Overlap.ALLOW,
        )
        for k in range(size)
    ]
    await cluster.service.jobs.apply(jobs)


def rounds_with_work(cluster: Cluster) -> int:
    return cluster.backends.faults.calls["queue.dispatch"]


async def test_a_herd_of_short_runs_is_planned_in_few_rounds() -> None:
    async with a_cluster("a", slots=4) as cluster:
        await a_herd(cluster, 200)
        await cluster.elapse(3)
        assert {run.state for run in cluster.runs} == {RunState.SUCCEEDED}
        assert len(cluster.runs) == 200
        # The first round fills the slots; after its runs the node accepts the rest.
        assert rounds_with_work(cluster) <= 5


async def test_what_waits_behind_long_runs_is_given_to_another_node() -> None:
    async with a_cluster("a", slots=1) as cluster:
        held = cluster.executor.release = asyncio.Event()
        (full,) = cluster.nodes
        cluster.backends.memory.ahead[full.id] = (3, cluster.clock.monotonic() + 60)
        await a_herd(cluster, 4)
        await cluster.elapse(1.5)
        assert len(cluster.executor.starts) == 1
        assert len(cluster.backends.memory.lists[full.id]) == 3
        cluster.backends.memory.ahead.clear()
        cluster.start("b", slots=4)
        await cluster.elapse(2.5)
        assert [node.partition("#")[0] for _, _, node, _ in cluster.executor.starts] == ["a", "b", "b", "b"]
        held.set()
        await cluster.elapse(1)
        assert {(run.state, run.attempt) for run in cluster.runs} == {(RunState.SUCCEEDED, 1)}


async def test_what_a_node_takes_beyond_its_slots_waits_for_one() -> None:
    """It takes more than it has slots after runs that were sent before their instant; these are due."""
    async with a_cluster("a", slots=2) as cluster:
        held = cluster.executor.release = asyncio.Event()
        (node,) = cluster.nodes
        memory, queue = cluster.backends.memory, cluster.backends.queue
        worker_of(node)._early_lately = True
        names, now = [f"job-{n}" for n in range(5)], cluster.clock.now()
        await cluster.backends.runs.insert([a_run(name, now, id=f"{name}@1", node=node.id) for name in names])
        taken = [an_assignment(f"{name}@1", 100, job=a_job(name)) for name in names]
        assert await queue.dispatch(memory.term, memory.redis_epoch or "", {node.id: taken}, waited_s=0)
        # After a second it would give them back.
        await cluster.elapse(0.5)
        assert len(cluster.executor.starts) == 2
        held.set()
        await cluster.elapse(1)
        assert len(cluster.executor.starts) == 5


async def test_runs_start_at_once_behind_items_that_lay_too_long() -> None:
    """A busy node dropped as many old items a second as it has slots. The runs behind them became too old as well, and
    were sent again behind others: a cluster with 95,000 due runs started thirty a second.
    """
    async with a_cluster("a", slots=4) as cluster:
        (node,) = cluster.nodes
        memory, queue = cluster.backends.memory, cluster.backends.queue
        old = [an_assignment(f"old@{n}", n, job=a_job("old")) for n in range(100)]
        assert await queue.dispatch(memory.term, memory.redis_epoch or "", {node.id: old}, waited_s=60)
        # The node gets more, although it has that many.
        memory.ahead[node.id] = (200, cluster.clock.monotonic() + 60)
        await a_herd(cluster, 4)
        await cluster.elapse(2)
        assert {(run.state, run.attempt, run.redispatches) for run in cluster.runs} == {(RunState.SUCCEEDED, 1, 0)}
        assert len(cluster.runs) == 4
        assert memory.ahead[node.id][0] <= MOST_AHEAD // 2, "the node announces that it accepts fewer"


async def test_slots_are_free_before_the_outcomes_are_recorded_but_their_number_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "MOST_UNRECORDED", 10)
    async with a_cluster("a", slots=4) as cluster:
        cluster.backends.memory.ahead[cluster.nodes[0].id] = (100, cluster.clock.monotonic() + 60)
        for verb in ("runs.apply", "runs.insert_changed"):
            cluster.backends.faults.stall(verb)
        await a_herd(cluster, 30)
        await cluster.elapse(4)
        assert len(cluster.executor.starts) == 10
        cluster.backends.faults.heal()
        await cluster.elapse(15)
        assert sorted(cluster.executor.runs_started) == [run.id for run in cluster.runs]
        assert {run.state for run in cluster.runs} == {RunState.SUCCEEDED}
