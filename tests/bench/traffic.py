"""`make bench-traffic`: how many bytes an open tab of the dashboard exchanges with the API, by view.

Real nodes execute `--rate` runs per second, some of which fail at once or after a retry, so that dead letters are added
all the time; there are 2,000 of them before, as many as the page shows. The page also loads `--registered` jobs that
are not due. A real Chromium opens each view and counts what it receives for a minute: `dashboard/tests/browser/bench`.
It asserts nothing.
The figures are the busiest view, and what a tab receives at first in the list of jobs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cronflow.backends.clock import SystemClock
from cronflow.bootstrap.backends import open_backends
from cronflow.domain.job import Job, Overlap, PythonTarget, Retry
from cronflow.domain.run import Run
from cronflow.domain.schedule.kinds import Cron, Every
from cronflow.testing.embedded import MongoServer, RedisServer
from cronflow.usecases import UseCases
from tests.bench.cluster import cluster, no_op
from tests.bench.results import forget, record
from tests.bench.stream import api
from tests.bench.words import say
from tests.children import PASSWORD, ROOT, child_environment
from tests.contracts.builders import an_ended_run

COMMAND = "python -m tests.bench.traffic"
NAMESPACE = "traffic"
DEAD = 2000
FAILING = 4
"""How many jobs of those that fire every second fail; every other one succeeds."""
RUNS_AT_ONCE = 500
TICKS = 55
"""The least number of ticks in a minute on a machine that has time for its browser."""


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
    return an_ended_run(job, fire, end, node=f"node-{n % 3}#{n % 7:04x}", fence=n + 1, error=error)


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


def missing() -> str | None:
    """The program or file without which the views cannot be opened, and what to do."""
    if shutil.which("npm") is None:
        return "npm was not found; install Node 20.19 or later"
    needed = (ROOT / "cronflow" / "_ui" / "index.html", ROOT / "dashboard" / "node_modules" / "@playwright")
    if absent := [path for path in needed if not path.exists()]:
        return f"{absent[0]} is missing; run `make ui`"
    chromium = child_environment().get("CHROMIUM", "/usr/bin/chromium")
    return None if shutil.which(chromium) else f"{chromium} is missing; set CHROMIUM to the path of a Chromium"


async def measure(url: str, options: argparse.Namespace, rows: Path) -> None:
    """Open the views in Chromium and print the table. The figures are in the file `rows`."""
    own = {"URL": url, "PASSWORD": PASSWORD, "SECONDS": str(options.seconds), "TABS": str(options.tabs)}
    own["ROWS"] = str(rows)
    if options.views:
        own["VIEWS"] = options.views
    child = await asyncio.create_subprocess_exec(
        *("npm", "run", "--silent", "bench:traffic"), cwd=ROOT / "dashboard", env=child_environment(**own)
    )
    if await child.wait() != 0:
        raise SystemExit("the browser failed; see above")


def keep(rows: Path, options: argparse.Namespace) -> None:
    """Record the figures."""
    views = json.loads(rows.read_text())
    if (ticks := min(view["ticks"] for view in views)) < TICKS:
        say("the machine was too busy", f"{ticks:.0f} instead of 60 ticks per minute, so the figures are wrong")
    command = f"{COMMAND} --rate {options.rate} --registered {options.registered} --seconds {options.seconds}"
    record("traffic_minute", max(view["mib_a_minute"] for view in views), "MiB", command)
    for view in views:
        if view["view"] == "/jobs":
            record("traffic_first_load", view["first_kib"], "KiB", command)


async def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--rate", type=int, default=200, help="runs per second")
    parser.add_argument("--registered", type=int, default=10_000, help="jobs that are not due")
    parser.add_argument("--seconds", type=int, default=60, help="how long each view is measured")
    parser.add_argument("--tabs", type=int, default=4, help="how many views are measured at the same time")
    parser.add_argument("--views", default="", help="paths, separated by commas; by default all views")
    options = parser.parse_args()
    if reason := missing():
        raise SystemExit(reason)
    forget(COMMAND)
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
            await measure(url, options, Path(folder, "rows.json"))
        keep(Path(folder, "rows.json"), options)


if __name__ == "__main__":
    asyncio.run(main())
