"""The time in which the API answers a page of runs, or of jobs, out of a million.

`python -m tests.bench.api_lists --runs 1000000`. One request at a time over a kept connection, as the page and the
command line send them; the time includes reading the answer. It asserts nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import psutil

from cronflow.backends.clock import SystemClock
from cronflow.bootstrap.backends import open_backends
from cronflow.domain.access import Role
from cronflow.domain.run import Kind, Outcome, Run, RunState
from cronflow.ports import Backends
from cronflow.testing.audit import percentile
from cronflow.testing.embedded import MongoServer, RedisServer
from cronflow.usecases import UseCases
from tests.bench.idle import cpu, register
from tests.bench.results import forget, record
from tests.bench.stream import api
from tests.bench.words import say, spread

NEWEST = datetime(2026, 11, 21, tzinfo=UTC)
NAMESPACE = "lists"
COMMAND = "python -m tests.bench.api_lists"
AT_ONCE = 2000
WARM_UP = 5


def stored_run(n: int) -> Run:
    """The n-th newest run. A thousand jobs on ten nodes; 1% failed; the oldest runs are on a node that left."""
    fire = NEWEST - timedelta(seconds=n)
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


def lists_of(runs: int) -> Mapping[str, str]:
    """The path of each list, by its description."""
    middle = NEWEST - timedelta(seconds=runs // 2)
    day = f"since={middle:%Y-%m-%dT%H:%M:%SZ}&until={middle + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"
    return {
        "runs": "/runs?limit=50",
        "runs of a job": "/runs?job=job-007&limit=50",
        "runs of a job, by its path": "/jobs/job-007/runs?limit=50",
        "failed runs": "/runs?state=failed&limit=50",
        "failed runs of a job": "/runs?job=job-050&state=failed&limit=50",
        "running runs": "/runs?state=running&limit=50",
        "dead letters": "/runs?dead=true&limit=50",
        "runs of a node": "/runs?node=node-3&limit=50",
        "runs of a node that left long ago": "/runs?node=gone&limit=50",
        "runs of a day": f"/runs?{day}&limit=50",
        "jobs": "/jobs?limit=50",
        "jobs by text": "/jobs?q=job-00000&limit=50",
    }


async def fill(backends: Backends, count: int) -> None:
    for first in range(0, count, AT_ONCE):
        await backends.runs.insert([stored_run(n) for n in range(first, min(first + AT_ONCE, count))])


async def times_of(http: httpx2.AsyncClient, path: str, count: int) -> tuple[list[timedelta], httpx2.Response]:
    """The time of each request, and the last answer."""
    times: list[timedelta] = []
    while True:
        began = asyncio.get_running_loop().time()
        answer = await http.get(f"/api/v1{path}")
        if answer.status_code == 429:
            # Above the rate of the key.
            await asyncio.sleep(float(answer.headers["Retry-After"]))
            continue
        answer.raise_for_status()
        times.append(timedelta(seconds=asyncio.get_running_loop().time() - began))
        if len(times) == WARM_UP + count:
            return times[WARM_UP:], answer


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--requests", type=int, default=200)
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis = stack.enter_context(RedisServer(folder))
        mongo = stack.enter_context(MongoServer(folder))
        async with open_backends(redis.url, mongo.url, NAMESPACE) as backends:
            await fill(backends, options.runs)
            await register(mongo.url, NAMESPACE, options.jobs)
            _, key = await UseCases(backends, SystemClock()).keys.create("bench", Role.VIEWER)
        headers = {"Authorization": f"Bearer {key}"}
        async with (
            api(redis.url, mongo.url, NAMESPACE) as (url, process),
            httpx2.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=60) as http,
        ):
            slowest = timedelta(0)
            servers = (process, psutil.Process(mongo.pid))
            for what, path in lists_of(options.runs).items():
                before = sum(map(cpu, servers))
                times, answer = await times_of(http, path, options.requests)
                spent = 1000 * (sum(map(cpu, servers)) - before) / (options.requests + WARM_UP)
                say(f"a page of {what}", f"{spread(times)}   CPU {spent:.1f} ms   {len(answer.json()['items'])} rows")
                slowest = max(slowest, percentile(sorted(times), 0.99) or slowest)
        forget(COMMAND)
        record("lists_p99", slowest.total_seconds() * 1000, "ms", COMMAND)


if __name__ == "__main__":
    asyncio.run(main())
