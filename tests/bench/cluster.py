"""A cluster to measure: node processes as in production, their jobs and their runs."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from cronflow.backends.clock import SystemClock
from cronflow.bootstrap.backends import open_backends
from cronflow.domain.job import Job, Overlap, PythonTarget, Retry
from cronflow.domain.run import Run, RunState
from cronflow.domain.schedule.kinds import Schedule
from cronflow.ports import RunQuery
from cronflow.usecases import UseCases
from tests.bench.words import spread
from tests.children import cluster_environment, python

NO_OP = PythonTarget("tests.bench.jobs:nothing")


@asynccontextmanager
async def cluster(redis_url: str, mongo_url: str, namespace: str, nodes: int, slots: int) -> AsyncIterator[UseCases]:
    """Node processes that are up and have a leader."""
    async with running(redis_url, mongo_url, namespace, nodes, CRONFLOW_SLOTS=str(slots)) as (service, _):
        yield service


@asynccontextmanager
async def running(
    redis_url: str, mongo_url: str, namespace: str, nodes: int, **settings: str
) -> AsyncIterator[tuple[UseCases, list[int]]]:
    """The same with other settings, and the process ids."""
    environment = cluster_environment(
        redis_url,
        mongo_url,
        namespace,
        CRONFLOW_ALLOW_PYTHON="tests.bench.jobs",
        CRONFLOW_LOG_LEVEL="error",
        CRONFLOW_METRICS_PORT="0",
        **settings,
    )
    async with open_backends(redis_url, mongo_url, namespace) as backends:
        service = UseCases(backends, SystemClock())
        children = [
            subprocess.Popen(python("-m", "cronflow", "node", "--name", f"node-{k}"), env=environment)
            for k in range(nodes)
        ]
        try:
            # There is no signal for nodes that join, so poll.
            while len(await service.cluster.members()) < nodes or (await service.cluster.status()).leader is None:
                await asyncio.sleep(0.1)
            yield service, [child.pid for child in children]
        finally:
            for child in children:
                child.send_signal(signal.SIGTERM)
            for child in children:
                child.wait(20)


def no_op(name: str, schedule: Schedule) -> Job:
    return Job(name=name, target=NO_OP, schedule=schedule, retry=Retry(max=0), overlap=Overlap.ALLOW)


async def all_runs(service: UseCases) -> list[Run]:
    found: list[Run] = []
    while True:
        page = await service.backends.runs.find(
            RunQuery(before=(found[-1].fire_at, found[-1].id) if found else None, limit=5000)
        )
        found += page
        if len(page) < 5000:
            return found


async def until_ended(service: UseCases, count: int, limit_s: float) -> list[Run]:
    """Wait for `count` successful runs, at most `limit_s`."""
    deadline = asyncio.get_running_loop().time() + limit_s
    while asyncio.get_running_loop().time() < deadline:
        runs = [run for run in await all_runs(service) if run.state is RunState.SUCCEEDED]
        if len(runs) >= count:
            return runs
        await asyncio.sleep(0.5)
    return [run for run in await all_runs(service) if run.state is RunState.SUCCEEDED]


def lateness(runs: Sequence[Run]) -> str:
    """The lateness of the runs that have started."""
    return spread(run.lateness for run in runs if run.lateness is not None)
