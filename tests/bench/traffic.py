"""`make bench-traffic`: how many bytes an open tab of the dashboard exchanges with the API, by view.

Real nodes execute `--rate` runs per second, some of which fail at once or after a retry, so that dead letters are added
all the time; there are 2,000 of them before, as many as the page shows. The page also loads `--registered` jobs that
are not due. A real Chromium opens each view and counts what it receives for a minute: `dashboard/tests/browser/bench`.
It asserts nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cronflow.backends.clock import SystemClock
from cronflow.bootstrap.backends import open_backends
from cronflow.domain.job import Job, Overlap, PythonTarget, Retry
from cronflow.domain.run import Attempt, Kind, Outcome, Run, RunState, run_id
from cronflow.domain.schedule.kinds import Cron, Every
from cronflow.testing.embedded import MongoServer, RedisServer
from cronflow.usecases import UseCases
from tests.bench.cluster import cluster, no_op
from tests.bench.stream import api
from tests.children import PASSWORD, ROOT, child_environment

NAMESPACE = "traffic"
DEAD = 2000
FAILING = 4
"""How many jobs of those that fire every second fail; every other one succeeds."""
RUNS_AT_ONCE = 500


def registered(n: int) -> Job:
    """The n-th job that is not due during the measurement."""
    return Job(
        name=f"{('billing', 'search', 'reports', 'mail')[n % 4]}-{('sync', 'export', 'cleanup')[n % 3]}-{n:05}",
        description=f"Keeps partition {n} of the customers up to date",
        target=PythonTarget("tests.bench.jobs:nothing", {"partition": n}),
        schedule=Cron(f"{n % 60} {n % 24} {1 + n % 28} 2 *", "Europe/Berlin"),
        labels={"team": ("billing", "search", "reports", "mail")[n % 4], "tier": str(n % 3)},
    )


def failing(n: int) -> Job:
    """The n-th job that fails every second; half of them after a retry."""
    return Job(
        name=f"failing-{n}",
        target=PythonTarget("tests.bench.jobs:fail", {"shard": n}),
        schedule=Every("1s"),
        retry=Retry(max=n % 2, initial=timedelta(seconds=2)),
        overlap=Overlap.ALLOW,
    )


def dead_letter(n: int, newest: datetime) -> Run:
    """The n-th newest dead letter of those that exist before the measurement."""
    fire, job = newest - timedelta(seconds=n), f"failing-{n % FAILING}"
    end = fire + timedelta(milliseconds=30 + n % 900)
    error = f"ConnectionError: shard {n % 16} of 10.0.{n % 250}.7:5432 refused the connection after {n % 900} ms"
    return Run(
        id=run_id(job, fire),
        job=job,
        fire_at=fire,
        kind=Kind.INTERVAL,
        state=RunState.FAILED,
        fence=n + 1,
        term=1,
        job_ver=1,
        node=f"node-{n % 3}#{n % 7:04x}",
        attempt=1,
        max_attempts=1,
        check_at=None,
        created_at=fire,
        dispatched_at=fire,
        started_at=fire,
        ended_at=end,
        outcome=Outcome.ERROR,
        error=error,
        attempts=(Attempt(1, n + 1, f"node-{n % 3}#{n % 7:04x}", fire, end, Outcome.ERROR, error),),
    )


async def fill(service: UseCases, options: argparse.Namespace) -> None:
    """Write the dead letters and the jobs."""
    newest = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=1)
    letters = [dead_letter(n, newest) for n in range(DEAD)]
    for first in range(0, DEAD, RUNS_AT_ONCE):
        await service.backends.runs.insert(letters[first : first + RUNS_AT_ONCE])
    await service.jobs.apply([registered(n) for n in range(options.registered)])
    busy = [no_op(f"steady-{n:03}", Every("1s")) for n in range(options.rate - FAILING)]
    await service.jobs.apply([replace(job, target=PythonTarget("tests.bench.jobs:brief")) for job in busy])
    await service.jobs.apply([failing(n) for n in range(FAILING)])


async def measure(url: str, options: argparse.Namespace) -> None:
    """Open the views in Chromium and print the table."""
    own = {"URL": url, "PASSWORD": PASSWORD, "SECONDS": str(options.seconds), "TABS": str(options.tabs)}
    if options.views:
        own["VIEWS"] = options.views
    child = await asyncio.create_subprocess_exec(
        *("npm", "run", "--silent", "bench:traffic"), cwd=ROOT / "dashboard", env=child_environment(**own)
    )
    if await child.wait() != 0:
        raise SystemExit("the browser failed; see above")


async def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.traffic", description=__doc__)
    parser.add_argument("--rate", type=int, default=200, help="runs per second")
    parser.add_argument("--registered", type=int, default=10_000, help="jobs that are not due")
    parser.add_argument("--seconds", type=int, default=60, help="how long each view is measured")
    parser.add_argument("--tabs", type=int, default=4, help="how many views are measured at the same time")
    parser.add_argument("--views", default="", help="paths, separated by commas; by default all views")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        RedisServer(Path(folder, "redis")) as redis,
        MongoServer(Path(folder, "mongo")) as mongo,
    ):
        async with open_backends(redis.url, mongo.url, NAMESPACE) as backends:
            await fill(UseCases(backends, SystemClock()), options)
        async with (
            cluster(redis.url, mongo.url, NAMESPACE, 3, 64),
            api(redis.url, mongo.url, NAMESPACE) as (url, _),
        ):
            await measure(url, options)


if __name__ == "__main__":
    asyncio.run(main())
