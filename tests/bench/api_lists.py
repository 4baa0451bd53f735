"""The time in which the API answers a page of each of its lists, out of a million runs.

`python -m tests.bench.api_lists --runs 1000000`. One request at a time over a kept connection, as the page and the
command line send them; the time includes reading the answer. It asserts nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import httpx2
import psutil

from cronflow.backends.clock import SystemClock
from cronflow.bootstrap.backends import open_backends
from cronflow.domain.access import Role
from cronflow.testing.audit import percentile
from cronflow.testing.embedded import MongoServer, RedisServer
from cronflow.usecases import UseCases
from tests.bench.idle import cpu, register
from tests.bench.results import forget, record
from tests.bench.stored_runs import NEWEST, fill, job_name
from tests.bench.stream import api
from tests.bench.words import say, spread

NAMESPACE = "lists"
COMMAND = "python -m tests.bench.api_lists"
WARM_UP = 5
LIMIT = 50


def lists_of(runs: int) -> Mapping[str, str]:
    """The path of each list, by its description."""
    middle = NEWEST - timedelta(seconds=runs // 2)
    day = f"since={middle:%Y-%m-%dT%H:%M:%SZ}&until={middle + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"
    some, failing = job_name(7), job_name(50)
    latest = "&".join(f"job={job_name(n)}" for n in range(20))
    paths = {
        "runs": "/runs?",
        "brief runs": "/runs?brief=true&",
        "runs of a job": f"/runs?job={some}&",
        "runs of a job, by its path": f"/jobs/{some}/runs?",
        "succeeded runs": "/runs?state=succeeded&",
        "failed runs": "/runs?state=failed&",
        "failed runs of a job": f"/runs?job={failing}&state=failed&",
        "failed runs of a job that has none": f"/runs?job={some}&state=failed&",
        "failed runs of a node": "/runs?node=node-0&state=failed&",
        "running runs": "/runs?state=running&",
        "dead letters": "/runs?dead=true&",
        "dead letters of a job": f"/runs?dead=true&job={failing}&",
        "dead letters of a job that has none": f"/runs?dead=true&job={some}&",
        "runs of a node": "/runs?node=node-3&",
        "runs of a node that left long ago": "/runs?node=gone&",
        "runs of a job on a node": f"/runs?job={some}&node=node-7&",
        "runs of a day": f"/runs?{day}&",
        "jobs": "/jobs?",
        "brief jobs": "/jobs?brief=true&",
        "jobs by text": "/jobs?q=job-00000&",
        "jobs by a text that none has": "/jobs?q=billing&",
        "jobs by label": "/jobs?label=team&",
        "disabled jobs": "/jobs?enabled=false&",
    }
    return {what: f"{path}limit={LIMIT}" for what, path in paths.items()} | {
        "the last runs of 20 jobs": f"/runs/recent?{latest}&limit=20"
    }


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
    forget(COMMAND)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis = stack.enter_context(RedisServer(folder))
        mongo = stack.enter_context(MongoServer(folder))
        async with open_backends(redis.url, mongo.url, NAMESPACE) as backends:
            await fill(mongo.url, NAMESPACE, options.runs)
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
        record("lists_p99", slowest.total_seconds() * 1000, "ms", f"{COMMAND} --runs {options.runs}")


if __name__ == "__main__":
    asyncio.run(main())
