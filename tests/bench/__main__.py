"""`make bench`: throughput, the lateness of a single job and of a herd, the cost of lists and of the live stream, and
how an API process responds under hostile requests.

It uses real servers, node processes as in production, and no-op jobs, so it measures CronFlow itself with MongoDB and
Redis on the same machine. Lateness is the time from when a run was due to the start of its attempt. Results depend on
the machine; compare ratios within one run. It asserts nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cronflow.backends.clock import SystemClock
from cronflow.bootstrap.backends import open_backends
from cronflow.bootstrap.parts import VERSION
from cronflow.domain.job import Job, Overlap, PythonTarget, Retry
from cronflow.domain.run import Kind, Outcome, Run, RunState
from cronflow.domain.schedule.kinds import Every, Once
from cronflow.ports import RunQuery
from cronflow.testing.embedded import MongoServer, RedisServer
from cronflow.usecases import UseCases
from tests.bench import hostile, stream
from tests.bench.words import say, spread
from tests.children import cluster_environment, python

NOW = datetime(2026, 11, 21, tzinfo=UTC)
NO_OP = PythonTarget("tests.bench.jobs:nothing")


@asynccontextmanager
async def cluster(redis_url: str, mongo_url: str, namespace: str, nodes: int, slots: int) -> AsyncIterator[UseCases]:
    """Node processes that are up and have a leader."""
    environment = cluster_environment(
        redis_url,
        mongo_url,
        namespace,
        CRONFLOW_SLOTS=str(slots),
        CRONFLOW_ALLOW_PYTHON="tests.bench.jobs",
        CRONFLOW_LOG_LEVEL="error",
        CRONFLOW_METRICS_PORT="0",
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
            yield service
        finally:
            for child in children:
                child.send_signal(signal.SIGTERM)
            for child in children:
                child.wait(20)


def no_op(name: str, schedule: Every | Once) -> Job:
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


async def single(service: UseCases, seconds: int) -> None:
    """One job every second."""
    await service.jobs.apply([no_op("lone", Every("1s"))])
    await asyncio.sleep(seconds)
    await service.jobs.delete("lone")
    runs = [run for run in await all_runs(service) if run.job == "lone" and run.state is RunState.SUCCEEDED]
    say(f"a single job, {len(runs)} runs: lateness", lateness(runs[:-1]))


async def herd(service: UseCases, size: int) -> None:
    """Many jobs that are due at the same time."""
    due = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=5 + size // 300)
    await service.jobs.apply([no_op(f"herd-{k:05}", Once(due)) for k in range(size)])
    await asyncio.sleep(max(0.0, (due - datetime.now(UTC)).total_seconds()))
    runs = [run for run in await until_ended(service, size, 120) if run.job.startswith("herd")]
    ends = [run.ended_at for run in runs if run.ended_at is not None]
    drained = (max(ends) - due).total_seconds() if ends else 0.0
    say(f"a herd of {size:,}: lateness", lateness(runs))
    say(
        f"a herd of {size:,}: all finished after",
        f"{drained:.2f} s   ({len(runs) / drained if drained else 0:,.0f} runs/s)",
    )


async def steady(service: UseCases, jobs: int, seconds: int) -> None:
    """Many jobs that fire every second."""
    await service.jobs.apply([no_op(f"steady-{k:05}", Every("1s")) for k in range(jobs)])
    began = datetime.now(UTC)
    await asyncio.sleep(seconds)
    ended = datetime.now(UTC)
    runs = [
        run
        for run in await all_runs(service)
        if run.job.startswith("steady") and run.ended_at is not None and began <= run.ended_at < ended
    ]
    rate = len(runs) / (ended - began).total_seconds()
    say(f"{jobs:,} jobs every second for {seconds} s", f"{rate:,.0f} runs/s   lateness {lateness(runs)}")


def a_stored_run(n: int) -> Run:
    """The n-th newest run. A thousand jobs on ten nodes; 1% failed; the oldest runs are on a separate node."""
    fire = NOW - timedelta(seconds=n)
    failed = n % 100 == 50
    return Run(
        id=f"job-{n % 1000:03}@{n}",
        job=f"job-{n % 1000:03}",
        fire_at=fire,
        kind=Kind.CRON,
        state=RunState.FAILED if failed else RunState.SUCCEEDED,
        fence=n,
        term=1,
        job_ver=1,
        node=f"node-{n % 10}#a" if n < 900_000 else "gone#a",
        attempt=1,
        max_attempts=4,
        check_at=None,
        created_at=fire,
        dispatched_at=fire,
        started_at=fire,
        ended_at=fire,
        outcome=Outcome.ERROR if failed else Outcome.OK,
    )


async def lists(redis_url: str, mongo_url: str, count: int) -> None:
    """The time to read a page of 50 runs out of `count`, by filter."""
    async with open_backends(redis_url, mongo_url, "lists") as backends:
        for first in range(0, count, 2000):
            await backends.runs.insert([a_stored_run(n) for n in range(first, min(first + 2000, count))])
        middle = NOW - timedelta(seconds=count // 2)
        for name, query in (
            ("all", RunQuery()),
            ("in the middle", RunQuery(before=(middle, "x"))),
            ("of a job", RunQuery(job="job-007")),
            ("failed", RunQuery(states={RunState.FAILED})),
            ("failed, of a job", RunQuery(job="job-050", states={RunState.FAILED})),
            ("running", RunQuery(states={RunState.RUNNING})),
            ("of a node", RunQuery(node="node-3")),
            ("of a node that left long ago", RunQuery(node="gone")),
            ("of a day", RunQuery(since=middle, until=middle + timedelta(days=1))),
        ):
            times = []
            for _ in range(100):
                began = asyncio.get_running_loop().time()
                found = await backends.runs.find(replace(query, limit=50))
                times.append(timedelta(seconds=asyncio.get_running_loop().time() - began))
            say(f"of {count:,} runs a page: {name}", f"{spread(times)}   {len(found)} rows")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--herd", type=int, default=1000)
    parser.add_argument("--steady", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--stored", type=int, default=1_000_000)
    parser.add_argument("--sockets", type=int, default=200)
    parser.add_argument("--hostile", type=int, default=5000)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--slots", type=int, default=64)
    options = parser.parse_args()
    say(
        f"cronflow {VERSION}, Python {platform.python_version()}",
        f"{os.cpu_count()} CPUs, {datetime.now(UTC):%Y-%m-%d %H:%MZ}",
    )
    say("nodes x slots", f"{options.nodes} x {options.slots}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis = stack.enter_context(RedisServer(folder))
        mongo = stack.enter_context(MongoServer(folder))
        async with cluster(redis.url, mongo.url, "lone", options.nodes, options.slots) as service:
            await single(service, options.seconds)
        async with cluster(redis.url, mongo.url, "herd", options.nodes, options.slots) as service:
            await herd(service, options.herd)
        async with cluster(redis.url, mongo.url, "steady", options.nodes, options.slots) as service:
            await steady(service, options.steady, options.seconds)
        await stream.ticks(redis.url, mongo.url, nodes=100)
        async with (
            cluster(redis.url, mongo.url, "stream", options.nodes, options.slots) as service,
            stream.api(redis.url, mongo.url, "stream") as (url, process),
        ):
            await stream.lines(service, url, count=100)
            await stream.sockets(service, url, process, count=options.sockets, seconds=options.seconds)
            await hostile.requests(service, url, count=options.hostile)
        await lists(redis.url, mongo.url, options.stored)


if __name__ == "__main__":
    asyncio.run(main())
