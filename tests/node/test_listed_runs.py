"""The runs that Redis lists for a node: `nodes show` prints them, and the leader counts them as load. Virtual time."""

from __future__ import annotations

import asyncio

from cronflow.domain.job import Job, PythonTarget
from cronflow.domain.run import RunState
from tests.node.cluster import Cluster, a_cluster, worker_of


def a_job(name: str) -> Job:
    return Job(name=name, target=PythonTarget("jobs:work"))


async def listed(cluster: Cluster) -> list[str]:
    """The runs that Redis lists as taken, by any node."""
    holdings = await cluster.backends.membership.holdings([node.id for node in cluster.nodes])
    return sorted(run for _, runs in holdings.values() for run in runs)


async def test_a_run_that_was_taken_without_an_answer_does_not_stay_in_the_list_of_its_node() -> None:
    """Redis carried `take` out, but its answer came too late: the item is lost, and nobody would release the run."""
    async with a_cluster("a") as cluster:
        cluster.backends.faults.fail_after("queue.take")
        await cluster.service.jobs.apply([a_job("once")])
        lost = await cluster.service.jobs.trigger("once")
        await cluster.elapse(2)
        assert await listed(cluster) == [lost]
        await cluster.elapse(30)
        assert (await cluster.service.runs.get(lost)).state is RunState.SUCCEEDED
        assert await listed(cluster) == []


async def test_a_renewal_that_redis_carries_out_after_the_release_does_not_list_the_run_for_good() -> None:
    """A Redis that hung carries out what lies in its sockets, in any order and long after its sender gave up."""
    async with a_cluster("a") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job("long")])
        run_id = await cluster.service.jobs.trigger("long")
        await cluster.elapse(1)
        assert await listed(cluster) == [run_id]
        (node,) = cluster.nodes
        (lease,) = worker_of(node).leases()
        cluster.executor.release.set()
        await cluster.elapse(1)
        assert await listed(cluster) == []
        await cluster.backends.queue.renew_locks(node.id, [lease.job_lock])
        assert await listed(cluster) == [run_id]
        await cluster.elapse(7)
        assert await listed(cluster) == []


async def test_a_node_keeps_the_runs_that_it_holds_in_its_list() -> None:
    async with a_cluster("a") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job("long")])
        run_id = await cluster.service.jobs.trigger("long")
        for _ in range(8):
            await cluster.elapse(3)
            assert await listed(cluster) == [run_id]
