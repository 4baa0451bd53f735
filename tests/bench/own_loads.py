"""CronFlow under load: how fast nodes drain jobs that are due at one instant, how late the runs start, and what they
cost.

Jobs are inserted into the store before they are due, because creating them is not measured. The clock starts at the
instant and stops at the latest recorded end of a run, so planning, dispatch and execution count, and recording except
for the last batch.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psutil
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase

from cronflow.domain.job import JobRecord
from cronflow.domain.schedule.kinds import Cron, Every, Once
from cronflow.testing.embedded import MongoServer, RedisServer
from cronflow.usecases import UseCases
from tests.bench.cluster import no_op, running
from tests.bench.commands import executed
from tests.bench.cpu import CpuMeter
from tests.bench.targets import Kind

JOBS_AT_ONCE = 2000
JOBS_A_SECOND = 4000
"""How many jobs are usually inserted within a second at least."""
PATIENCE = (1, 3, 9)
"""How many times longer inserting may take, on a busy machine."""
LEAD_S = 3
"""How long before they are due all jobs must be inserted: longer than the longest look-ahead."""
POLL_S = 0.25
LIMIT_S = 60.0
SLOWEST = 200
"""Wait for so many runs per second, and `LIMIT_S` more, before a drain has failed."""
Client = AsyncMongoClient[dict[str, Any]]
Database = AsyncDatabase[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Setup:
    """Nodes and their settings. Slots are the default if None."""

    nodes: int = 1
    slots: int | None = None
    settings: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        slots = "default slots" if self.slots is None else f"{self.slots:,} slots"
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes} nodes"
        more = "".join(f", {name}={value}" for name, value in self.settings)
        return f"{nodes}, {slots}{more}"

    def environment(self) -> dict[str, str]:
        slots = {} if self.slots is None else {"CRONFLOW_SLOTS": str(self.slots)}
        return {**slots, **{f"CRONFLOW_{name}": value for name, value in self.settings}}


@dataclass(frozen=True, slots=True)
class Drained:
    """`seconds` from the instant to the last end. CPU time is in milliseconds a run: of all nodes, and of the servers.
    `second_half` is the time for the second half of the runs, relative to the first half: 1.0 is linear. `writes` is
    the number of documents written per run, and `round_trips` that of commands.
    """

    runs: int
    seconds: float
    late: Sequence[timedelta]
    cpu_ms: Mapping[str, float]
    memory_mib: float
    second_half: float
    writes: float
    round_trips: float

    @property
    def per_second(self) -> float:
        return self.runs / self.seconds


class InsertedTooLate(Exception):
    """The jobs were due before all were inserted."""


class IncompleteDrain(RuntimeError):
    """After the time limit, some jobs had no run that succeeded."""

    def __init__(self, jobs: int, runs: int, succeeded: int) -> None:
        super().__init__(f"{jobs:,} jobs had {runs:,} runs, of which {succeeded:,} succeeded")
        self.succeeded = succeeded


class Bench:
    """Starts clusters on two servers. Each has a namespace of its own, which is dropped afterwards."""

    def __init__(self, redis: RedisServer, mongo: MongoServer, home: str) -> None:
        self._redis = redis
        self._mongo = mongo
        self._home = home
        self._clusters = 0

    async def drain(self, setup: Setup, jobs: int, kind: Kind = "once") -> Drained:
        """All jobs are due at one instant. IncompleteDrain if not every job has one run that succeeded."""
        for patience in PATIENCE:
            try:
                return await self._drain(setup, jobs, kind, patience)
            except InsertedTooLate:
                continue
        raise RuntimeError("the jobs could not be inserted before they were due")

    async def _drain(self, setup: Setup, jobs: int, kind: Kind, patience: int) -> Drained:
        async with self._database() as (client, database), self._running(setup) as (service, pids):
            due = await insert(service, jobs, kind, patience)
            processes = {f"node-{pid}": pid for pid in pids}
            before = await executed(client, self._redis.url)
            meter = CpuMeter({**processes, "mongod": self._mongo.pid, "redis": self._redis.pid})
            await asyncio.sleep((due - datetime.now(UTC)).total_seconds())
            memory = await self._ended(database["runs"], jobs, pids)
            cpu = meter.seconds()
            commands = (await executed(client, self._redis.url)).since(before)
            runs = await database["runs"].find({}, {"state": 1, "started_at": 1, "ended_at": 1}).to_list()
        succeeded = sum(run["state"] == "succeeded" for run in runs)
        if (succeeded, len(runs)) != (jobs, jobs):
            raise IncompleteDrain(jobs, len(runs), succeeded)
        spent = {"nodes": sum(cpu[name] for name in processes), "mongod": cpu["mongod"], "redis": cpu["redis"]}
        ends = sorted(run["ended_at"] - due for run in runs)
        return Drained(
            runs=jobs,
            seconds=ends[-1].total_seconds(),
            late=sorted(run["started_at"] - due for run in runs),
            cpu_ms={name: 1000 * seconds / jobs for name, seconds in spent.items()},
            memory_mib=memory,
            second_half=(ends[-1] - ends[jobs // 2]) / ends[jobs // 2],
            writes=commands.writes / jobs,
            round_trips=(commands.mongo + commands.redis) / jobs,
        )

    async def lone(self, setup: Setup, seconds: int) -> list[timedelta]:
        """The lateness of one job that fires every second, sorted. The last run may not have ended."""
        async with self._database() as (_, database):
            async with self._running(setup) as (service, _):
                await service.jobs.apply([no_op("lone", Every("1s"))])
                await asyncio.sleep(seconds + 1)
                await service.jobs.delete("lone")
            runs = await database["runs"].find({"state": "succeeded"}).sort("fire_at", 1).to_list()
        # The first run meets nodes that have just started.
        return sorted(run["started_at"] - run["fire_at"] for run in runs[1:])

    @asynccontextmanager
    async def _database(self) -> AsyncIterator[tuple[Client, Database]]:
        self._clusters += 1
        client: Client = AsyncMongoClient(self._mongo.url, tz_aware=True)
        async with client:
            yield client, client[f"cronflow_b{self._clusters}"]
            await client.drop_database(f"cronflow_b{self._clusters}")

    def _running(self, setup: Setup) -> AbstractAsyncContextManager[tuple[UseCases, list[int]]]:
        environment = setup.environment() | {"HOME": self._home}
        return running(self._redis.url, self._mongo.url, f"b{self._clusters}", setup.nodes, **environment)

    async def _ended(self, runs: Any, count: int, pids: Sequence[int]) -> float:
        """Wait until all runs have ended. The most memory that the nodes used meanwhile, in MiB."""
        processes = [psutil.Process(pid) for pid in pids]
        deadline = time.monotonic() + LIMIT_S + count / SLOWEST
        memory = 0.0
        while True:
            memory = max(memory, sum(process.memory_info().rss for process in processes) / 2**20)
            if await runs.estimated_document_count() >= count and await runs.find_one({"open": True}) is None:
                return memory
            if time.monotonic() > deadline:
                # The caller reports what is missing.
                return memory
            await asyncio.sleep(POLL_S)


async def insert(service: UseCases, count: int, kind: Kind, patience: int = 1) -> datetime:
    """Insert jobs that are all due at the instant returned. InsertedTooLate if it took too long."""
    now = datetime.now(UTC)
    due = now.replace(microsecond=0) + timedelta(seconds=LEAD_S + 2 + patience * count // JOBS_A_SECOND)
    schedule = Once(due) if kind == "once" else Cron(f"{due.second} {due.minute} {due.hour} * * *")
    record = JobRecord(
        job=no_op("x", schedule),
        rev=1,
        next_fire=due,
        due_at=due,
        created_at=now,
        updated_at=now,
        since=now,
    )
    for first in range(0, count, JOBS_AT_ONCE):
        names = [f"job-{k:06}" for k in range(first, min(first + JOBS_AT_ONCE, count))]
        await service.backends.jobs.create_all([replace(record, job=replace(record.job, name=name)) for name in names])
    if datetime.now(UTC) + timedelta(seconds=LEAD_S) > due:
        raise InsertedTooLate
    return due
