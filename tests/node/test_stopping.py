"""Stopping a node whose servers do not answer, on virtual time: what it gives up, and when it ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cronflow.domain.job import Delivery, Job, PythonTarget, Retry, StartGuard
from cronflow.domain.run import RunState
from cronflow.node.node import Node
from cronflow.node.timings import Timings
from tests.node.cluster import Cluster, a_cluster

ALWAYS = 1_000_000


def a_job(**fields: object) -> Job:
    return Job(name="long", target=PythonTarget("jobs:long"), **fields)  # type: ignore[arg-type]


def has_ended(cluster: Cluster, node: Node) -> bool:
    return cluster.tasks[node.id].done()


async def test_a_start_that_cannot_be_recorded_is_given_up_after_the_drain_timeout(tmp_path: Path) -> None:
    async with a_cluster("a", spools=tmp_path) as cluster:
        (node,) = cluster.nodes
        job = a_job(start_guard=StartGuard.MONGO, delivery=Delivery.AT_MOST_ONCE, retry=Retry(max=0))
        await cluster.service.jobs.apply([job])
        taking = cluster.backends.faults.stall("queue.take")
        run_id = await cluster.service.jobs.trigger("long")
        await cluster.elapse(2)
        cluster.backends.faults.fail_before("runs.apply", ALWAYS)
        taking.release()
        await cluster.elapse(3)
        node.stop()
        await cluster.elapse(58)
        assert not has_ended(cluster, node)
        await cluster.elapse(5)
        assert has_ended(cluster, node)
        assert cluster.executor.starts == []
        cluster.nodes.remove(node)
        cluster.tasks.pop(node.id).result()
        cluster.backends.faults.heal()
        cluster.start("a")
        await cluster.elapse(30)
        # It never started, so it may start now, for the first time.
        run = await cluster.service.runs.get(run_id)
        assert (run.state, run.attempt, len(cluster.executor.starts)) == (RunState.SUCCEEDED, 1, 1)


async def test_a_release_that_redis_does_not_accept_is_given_up_after_the_drain_timeout() -> None:
    async with a_cluster("a") as cluster:
        (node,) = cluster.nodes
        await cluster.service.jobs.apply([a_job()])
        cluster.backends.faults.fail_before("queue.release", ALWAYS)
        run_id = await cluster.service.jobs.trigger("long")
        await cluster.elapse(3)
        assert (await cluster.service.runs.get(run_id)).state is RunState.SUCCEEDED
        node.stop()
        await cluster.elapse(65)
        assert has_ended(cluster, node)


async def test_a_node_without_a_spool_ends_although_an_outcome_cannot_be_recorded() -> None:
    """As with a disk that is full: the outcome is lost, the run is not."""
    async with a_cluster("a") as cluster:
        (node,) = cluster.nodes
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job()])
        run_id = await cluster.service.jobs.trigger("long")
        await cluster.elapse(3)
        cluster.backends.faults.fail_before("MongoDB", ALWAYS)
        node.stop()
        await cluster.elapse(Timings().stop - 2)
        assert not has_ended(cluster, node)
        await cluster.elapse(Timings().exit - Timings().stop)
        assert has_ended(cluster, node)
        cluster.nodes.remove(node)
        cluster.tasks.pop(node.id).result()
        cluster.backends.faults.heal()
        cluster.executor.release.set()
        cluster.start("a")
        await cluster.elapse(60)
        assert (await cluster.service.runs.get(run_id)).state is RunState.SUCCEEDED


async def test_a_second_signal_ends_what_waits_for_a_server_too() -> None:
    async with a_cluster("a") as cluster:
        (node,) = cluster.nodes
        await cluster.service.jobs.apply([a_job()])
        cluster.backends.faults.fail_before("queue.release", ALWAYS)
        await cluster.service.jobs.trigger("long")
        await cluster.elapse(3)
        node.stop()
        await cluster.elapse(1)
        assert not has_ended(cluster, node)
        node.stop()
        await cluster.elapse(3)
        assert has_ended(cluster, node)
