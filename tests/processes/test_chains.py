"""Jobs that follow each other, on real processes and servers, through killed nodes and a wiped Redis."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from redis.asyncio import Redis

from cronflow.domain.chain import Upstream
from cronflow.domain.cluster import node_name
from cronflow.domain.job import Job
from cronflow.domain.run import Outcome, Run, RunState
from tests.processes.conftest import Processes, process_cluster
from tests.waiting import eventually

pytestmark = pytest.mark.chaos


def a_graph(cluster: Processes, layers: int, width: int, seconds: float, seed: int = 1) -> list[Job]:
    """A first job and layers of jobs; each follows one to three jobs of the layer before it."""
    chance = random.Random(seed)
    before = ["n0"]
    jobs = [cluster.job("n0", every=None)]
    for layer in range(1, layers):
        names = [f"n{layer}-{k}" for k in range(width)]
        for name in names:
            upstream = chance.sample(before, min(len(before), chance.randint(1, 3)))
            jobs.append(replace(cluster.job(name, every=None, seconds=seconds), after=tuple(map(Upstream, upstream))))
        before = names
    return jobs


async def test_a_graph_of_jobs_runs_once_through_a_killed_leader_a_killed_worker_and_flushall(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster:
        leader = await cluster.up("a", "b", "c", "d")
        jobs = a_graph(cluster, layers=6, width=5, seconds=0.1)
        await cluster.apply(*jobs)
        first = await cluster.service.jobs.trigger("n0")

        async def ended(count: int) -> None:
            async def enough() -> bool:
                return sum(run.state is RunState.SUCCEEDED for run in await chain(cluster, first)) >= count

            await eventually(enough, what=f"{count} runs of the chain have succeeded")

        await ended(4)
        killed = [leader]
        cluster.kill(leader)
        await ended(8)
        leader = await cluster.new_leader(leader)
        worker = next(name for name in cluster.children if name != leader)
        killed.append(worker)
        cluster.kill(worker)
        await ended(13)
        async with Redis.from_url(redis_url) as redis:
            await redis.flushall()
        await ended(len(jobs))
        await assert_once(cluster, jobs, first, killed)


async def assert_once(cluster: Processes, jobs: Sequence[Job], first: str, killed: Collection[str]) -> None:
    """Each job has one run in the chain, which follows the runs of its upstream jobs, and was started once more only
    where a node was killed.
    """
    runs = await chain(cluster, first)
    assert Counter(run.job for run in runs) == Counter(job.name for job in jobs)
    of_job = {run.job: run.id for run in runs}
    starts = Counter(run for run, _ in cluster.noted("start"))
    assert set(starts) == {run.id for run in runs}
    for run, job in ((run, next(job for job in jobs if job.name == run.job)) for run in runs):
        followed = {(one.job, one.run) for one in (run.chain.of if run.chain else ())}
        assert followed == {(one.job, of_job[one.job]) for one in job.after}
        # Only a run that was placed again may have started again.
        lost = {node_name(one.node) for one in run.attempts if one.outcome is Outcome.LOST}
        assert lost <= set(killed)
        assert starts[run.id] <= 1 + run.redispatches
    assert await cluster.backends.chains.ended(10) == []


async def chain(cluster: Processes, first: str) -> list[Run]:
    return [run for run in await cluster.runs() if run.chain_id == first]
