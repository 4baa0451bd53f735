"""`make soak PART=…`: runs a load for a long time on real nodes and checks that no run is missing or doubled.

    make soak PART=load             every part, about 80 minutes
    make soak PART=hour FOR=10m     one part, shorter
    make soak PART=million ARGS="--slots 64"

* `hour`: 1,000 jobs are due every 5 seconds, for an hour.
* `instant`: 60,000 jobs are due at one instant.
* `million`: 1,000,000 jobs are stored, of which 500 are due in every second, for five minutes.

There are three node processes with default settings, one MongoDB and one Redis on this machine. The report has the
lateness of the starts, the memory of every process, and the CPU time of a run, for each quarter of the time. When the
nodes have stopped, MongoDB counts the runs of every instant of every job; the exit status is 1 unless each has exactly
one run, which succeeded. The figures of a full part are recorded for `docs/benchmarks.md`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pymongo import AsyncMongoClient
from redis.asyncio import Redis

from cronflow.backends.clock import SystemClock
from cronflow.bootstrap.backends import open_backends
from cronflow.bootstrap.parts import VERSION
from cronflow.domain.durations import parse_duration
from cronflow.testing.embedded import MongoServer, RedisServer
from cronflow.usecases import UseCases
from tests.bench.cluster import running
from tests.bench.results import forget, record
from tests.bench.soak_audit import Audit, Database, Lateness, all_ended, audit, lateness, together
from tests.bench.soak_load import Load, register
from tests.bench.soak_samples import Sampler
from tests.bench.words import say

NODES = 3
QUARTERS = 4
CALIBRATION = "calibration"
"""The namespace in which the speed of storing jobs is measured."""
CALIBRATED_WITH = 20_000
LEAD = timedelta(seconds=15)
"""How long before the first instant all jobs are stored, at least."""
POLL = timedelta(seconds=1)
LIMIT = timedelta(minutes=5)
"""How long after the last instant all runs must have ended."""
RATE = 500
"""Fires per second of the part `million`."""

FULL = (
    Load("hour", jobs=1000, step_s=5, seconds=3600),
    Load("instant", jobs=60_000, step_s=1, seconds=1, once=True),
    Load("million", jobs=1_000_000, step_s=2000, spread_s=2000, seconds=300),
)


@dataclass(frozen=True, slots=True)
class SoakResult:
    """The result of a soak. `parts` has the lateness in each part of its time."""

    load: Load
    audit: Audit
    parts: Sequence[Lateness]

    @property
    def lateness(self) -> Lateness:
        return together(self.parts)

    def figures(self) -> dict[str, tuple[float, str]]:
        """The figures of the targets with their units. There is no lateness unless every instant has its run."""
        if self.load.name == "hour":
            return {"soak_hour": (self.audit.violations, "runs")}
        if not self.audit.holds:
            return {}
        if self.load.name == "instant":
            return {"soak_instant": (self.lateness.percentile(1.0) / 1000, "s")}
        return {"soak_million_p99": (self.lateness.percentile(0.99) / 1000, "s")}


class Soak:
    """One load on a cluster of its own."""

    def __init__(self, redis: RedisServer, mongo: MongoServer, folder: Path, load: Load, slots: int | None) -> None:
        self._redis, self._mongo = redis, mongo
        self._load = load
        self._settings = {"HOME": str(folder)} | ({} if slots is None else {"CRONFLOW_SLOTS": str(slots)})

    async def run(self) -> SoakResult:
        """RuntimeError if a node ends before its time, or if the jobs cannot be stored in time."""
        load = self._load
        client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(self._mongo.url, tz_aware=True)
        async with client:
            database = client[f"cronflow_{load.name}"]
            lead = await self._lead(client)
            async with running(self._redis.url, self._mongo.url, load.name, NODES, **self._settings) as (service, pids):
                start = await self._registered(service, lead)
                nodes = {f"node-{k}": pid for k, pid in enumerate(pids)}
                sampler = Sampler({**nodes, "mongod": self._mongo.pid, "redis": self._redis.pid})
                await _until(start, sampler)
                await self._report_parts(database, sampler, start)
                await self._all_ended(database, sampler, start)
                await self._report_cpu(service, sampler)
            return SoakResult(
                load, await audit(database, load, start), await lateness(database, load, start, self._parts)
            )

    @property
    def _parts(self) -> int:
        return 1 if self._load.once else QUARTERS

    async def _lead(self, client: AsyncMongoClient[dict[str, Any]]) -> timedelta:
        """How long before the first instant to begin to store the jobs, by the speed of storing some of them."""
        some = replace(self._load, jobs=min(self._load.jobs, CALIBRATED_WITH))
        began = time.monotonic()
        async with open_backends(self._redis.url, self._mongo.url, CALIBRATION) as backends:
            await register(UseCases(backends, SystemClock()), some, datetime.now(UTC).replace(microsecond=0))
        spent = time.monotonic() - began
        await client.drop_database(f"cronflow_{CALIBRATION}")
        # The indexes of many jobs do not fit into the memory of the server, so writing them takes longer.
        return LEAD + timedelta(seconds=2 * spent * self._load.jobs // some.jobs)

    async def _registered(self, service: UseCases, lead: timedelta) -> datetime:
        """Store the jobs. Returns the first instant."""
        start = datetime.now(UTC).replace(microsecond=0) + lead
        self._say("instants due", f"{self._load.instants:,}, from {start:%H:%M:%S} UTC on")
        began = time.monotonic()
        await register(service, self._load, start)
        rate = self._load.jobs / (time.monotonic() - began)
        self._say("jobs stored", f"{self._load.jobs:,}, {rate:,.0f} jobs/s")
        if datetime.now(UTC) > start:
            raise RuntimeError("the first jobs were due before all were stored: the machine is too busy")
        return start

    async def _report_parts(self, database: Database, sampler: Sampler, start: datetime) -> None:
        self._say("0 %", sampler.sample())
        for part in range(1, self._parts + 1):
            await _until(start + timedelta(seconds=self._load.seconds * part / self._parts), sampler)
            self._say(f"{100 * part // self._parts} %", sampler.sample())
            self._say("", f"{await database['runs'].estimated_document_count():,} runs are stored")

    async def _all_ended(self, database: Database, sampler: Sampler, start: datetime) -> None:
        """Wait until all runs have ended, or the time limit is over. The audit reports what is missing."""
        last = start + timedelta(seconds=self._load.seconds)
        while not await all_ended(database, self._load, start) and datetime.now(UTC) < last + LIMIT:
            await _until(datetime.now(UTC) + POLL, sampler)
        self._say("all ended", f"{(datetime.now(UTC) - last).total_seconds():.0f} s after the last instant")
        self._say("", sampler.sample())

    async def _report_cpu(self, service: UseCases, sampler: Sampler) -> None:
        status = await service.cluster.status()
        spent = sampler.cpu_ms(self._load.instants)
        parts = (f"{name}{' (leader)' if name == status.leader else ''} {ms:.3f}" for name, ms in spent.items())
        self._say("CPU ms a run", "   ".join(parts))
        self._say("terms", str(status.term))
        async with Redis.from_url(self._redis.url) as redis:
            self._say("keys in Redis", f"{await redis.dbsize():,}")

    def _say(self, what: str, result: str) -> None:
        say(f"{datetime.now(UTC):%H:%M:%S} {self._load.name}: {what}", result)


async def _until(instant: datetime, sampler: Sampler) -> None:
    """RuntimeError if a process ends before."""
    while (left := instant - datetime.now(UTC)) > timedelta(0):
        if dead := sampler.dead():
            raise RuntimeError(f"{', '.join(dead)} ended before the end of the soak")
        await asyncio.sleep(min(left, POLL).total_seconds())


def report(result: SoakResult) -> None:
    """Print the lateness and the audit."""
    name, found = result.load.name, result.audit
    for number, part in enumerate(result.parts, 1):
        if len(result.parts) > 1:
            say(f"{name}: lateness, part {number} of {len(result.parts)}", f"{part}   {part.runs:,} runs")
    say(f"{name}: lateness", str(result.lateness))
    say(f"{name}: instants due", f"{found.due:,}")
    for what, count in (
        ("without a run", found.missing),
        ("with two runs", found.doubled),
        ("whose run did not succeed", found.unsuccessful),
        ("merged with others into one run", found.merged),
        ("not due, with a run", found.stray),
    ):
        say(f"{name}: instants {what}", f"{count:,}")
    say(f"{name}: runs sent to a node again", f"{found.redispatched:,}")
    say(f"{name}: results refused as too late", f"{found.late:,}")
    say(f"{name}: plan intents left behind", f"{found.intents:,}")
    for at, (runs, due) in found.short.items():
        say(f"{name}: runs at {at:%H:%M:%S}", f"{runs:,} of {due:,}")


def chosen(options: argparse.Namespace) -> list[Load]:
    """The loads of the arguments."""
    found = [load for load in FULL if options.part in ("all", load.name)]
    if options.jobs is not None:
        # A smaller `million` keeps its rate.
        found = [
            replace(load, jobs=options.jobs)
            if load.spread_s == 1
            else replace(load, jobs=options.jobs, step_s=options.jobs // RATE, spread_s=options.jobs // RATE)
            for load in found
        ]
    if options.length is not None:
        seconds = int(parse_duration(options.length).total_seconds())
        found = [load if load.once else replace(load, seconds=seconds) for load in found]
    return found


async def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__.partition("\n")[0])
    parser.add_argument("part", nargs="?", default="all", choices=["all", *(load.name for load in FULL)])
    parser.add_argument("--for", dest="length", metavar="DURATION", help="how long jobs fall due, such as 10m")
    parser.add_argument("--jobs", type=int, help="the number of jobs")
    parser.add_argument("--slots", type=int, help="slots of each node; the default of CronFlow if not given")
    parser.add_argument("--data", type=Path, help="keep the servers' data in this folder")
    options = parser.parse_args(arguments)
    say(
        f"cronflow {VERSION}, Python {platform.python_version()}",
        f"{os.cpu_count()} CPUs, {datetime.now(UTC):%Y-%m-%d %H:%MZ}, load average {os.getloadavg()[0]:.1f}",
    )
    holds = True
    for load in chosen(options):
        with ExitStack() as stack:
            folder = options.data or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            redis = stack.enter_context(RedisServer(folder / load.name))
            mongo = stack.enter_context(MongoServer(folder / load.name))
            result = await Soak(redis, mongo, folder, load, options.slots).run()
        report(result)
        holds = holds and result.audit.holds
        if load in FULL:
            command = f"make soak PART={load.name}"
            forget(command)
            for name, (value, unit) in result.figures().items():
                record(name, value, unit, command)
        else:
            say(f"{load.name}: figures", "not recorded, because the part was shortened")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
