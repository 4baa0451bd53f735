"""The bare path: what the stores can do at most for runs as CronFlow stores them.

Each run costs a compare-and-set of its job (cursor and pending run), the insert of the run, a push to a Redis list, a
pop, and the compare-and-set that ends it. All writes wait for a majority and the journal. One process sends batches, a
few at a time, through the drivers alone: no planning, no placement, no job locks, no execution. Documents have the
shape of CronFlow's, and the collections have its indexes. A second variant has no secondary indexes.

    python -m tests.bench.bare_path --runs 20000

prints the figures; `make bench-peers` records them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bson.codec_options import CodecOptions
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase
from redis.asyncio import Redis

from cronflow.backends import codec
from cronflow.backends.mongo.indexes import INDEXES
from cronflow.domain.job import Job, JobRecord, Overlap, PendingRun, PythonTarget, Retry
from cronflow.domain.placement import Placement
from cronflow.domain.planning import run_of_pending
from cronflow.domain.run import RunState
from cronflow.domain.schedule.kinds import Every
from cronflow.ports import Assignment
from cronflow.testing.embedded import MongoServer, RedisServer
from tests.bench.cpu import CpuMeter
from tests.bench.words import say

BATCH = 500
IN_FLIGHT = 8
NODE = "node-0#0a1b2c3d"
LIST = "queue"
DURABLE = {"w": "majority", "j": True}
SECOND = timedelta(seconds=1)
Document = dict[str, Any]
Database = AsyncDatabase[Document]


@dataclass(frozen=True, slots=True)
class Rate:
    """Runs per second, and CPU milliseconds per run of each process."""

    per_second: float
    cpu_ms: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Template:
    """The parts of the documents and items that all runs have in common."""

    job: Document
    pending_run: Document
    run: Document
    attempt: Document
    item: bytes

    @classmethod
    def of(cls, due: datetime) -> Template:
        job = Job(
            name="x",
            target=PythonTarget("tests.bench.jobs:nothing"),
            schedule=Every("1s"),
            retry=Retry(max=0),
            overlap=Overlap.ALLOW,
        )
        job_record = JobRecord(job=job, next_fire=due, due_at=due, created_at=due, updated_at=due, since=due)
        placement = Placement(NODE, 0.25, (("node-1#0a1b2c3d", 0.5), ("node-2#0a1b2c3d", 0.5)))
        pending = PendingRun(
            fire=due, state=RunState.DISPATCHED, fence=1, job_ver=1, at=due, node=NODE, placement=placement
        )
        run = run_of_pending(job, pending, term=1)
        assignment = Assignment(run="RUN", fence=1, term=1, attempt=1, fire_at=due, args={}, job=job)
        attempt = {"n": 1, "node": NODE, "outcome": "ok", "error": None}
        return cls(
            codec.record_document(job_record),
            codec.pending_run_document(pending),
            codec.run_document(run),
            attempt,
            codec.item(assignment),
        )


class BarePath:
    """The path of batches of runs through the stores."""

    def __init__(self, database: Database, redis: Redis, due: datetime) -> None:
        self._database = database
        self._redis = redis
        self._due = due
        self._template = Template.of(due)

    async def prepare(self, runs: int, *, indexes: bool) -> None:
        """Create the collections and the jobs."""
        for name in ("jobs", "runs"):
            await self._database.create_collection(name)
            if indexes:
                await self._database[name].create_indexes(INDEXES[name])
        for first in range(0, runs, 2000):
            names = range(first, min(first + 2000, runs))
            await self._database["jobs"].insert_many(
                [self._template.job | {"_id": job_name(k)} for k in names], ordered=False
            )

    async def drain(self, runs: int) -> None:
        """All runs, in batches."""
        batches = iter([range(first, min(first + BATCH, runs)) for first in range(0, runs, BATCH)])

        async def some() -> None:
            for batch in batches:
                await self._batch(batch)

        await asyncio.gather(*(some() for _ in range(IN_FLIGHT)))

    async def check(self, runs: int) -> None:
        """Raise unless every run has ended and every cursor has moved."""
        ended = await self._database["runs"].count_documents({"state": "succeeded", "open": {"$exists": False}})
        moved = await self._database["jobs"].count_documents({"rev": 1, "next_fire": self._due + SECOND})
        if (ended, moved) != (runs, runs):
            raise RuntimeError(f"{ended} runs of {runs} have ended, {moved} cursors have moved")

    async def _batch(self, batch: range) -> None:
        fences = {f"{job_name(k)}@{self._due:%Y%m%dT%H%M%SZ}": k + 1 for k in batch}
        await self._write({"update": "jobs", "updates": [self._move(k) for k in batch]}, len(batch))
        now = datetime.now(UTC)
        documents = [
            self._template.run | {"_id": run, "job": job_name(k), "fence": k + 1, "created_at": now}
            for k, run in zip(batch, fences, strict=True)
        ]
        await self._write({"insert": "runs", "documents": documents}, len(batch))
        await self._redis.rpush(LIST, *(self._template.item.replace(b"RUN", run.encode()) for run in fences))
        items: Any = await self._redis.lpop(LIST, len(batch))
        ended = datetime.now(UTC)
        taken = [item.split(b"\x1f", 2)[1].decode() for item in items]
        await self._write({"update": "runs", "updates": [self._finish(run, ended) for run in taken]}, len(taken))

    def _move(self, k: int) -> Document:
        next_fire = self._due + SECOND
        sets = {
            "next_fire": next_fire,
            "due_at": next_fire,
            "active": True,
            "priority": 0,
            "pend": self._template.pending_run | {"fence": k + 1},
            "term": 1,
        }
        return {"q": {"_id": job_name(k), "rev": 0, "term": {"$lte": 1}}, "u": {"$set": sets, "$inc": {"rev": 1}}}

    def _finish(self, run: str, at: datetime) -> Document:
        fence = int(run.partition("@")[0].removeprefix("job-")) + 1
        sets = {
            "state": "succeeded",
            "finish_id": f"{fence:032x}",
            "started_at": at,
            "ended_at": at,
            "outcome": "ok",
            "result": None,
            "error": None,
            "attempts": [self._template.attempt | {"fence": fence, "started_at": at, "ended_at": at}],
        }
        where = {"_id": run, "state": {"$in": ["dispatched", "running"]}, "fence": fence}
        return {"q": where, "u": {"$set": sets, "$unset": {"open": "", "check_at": ""}}}

    async def _write(self, command: Document, count: int) -> None:
        answer = await self._database.command(command | {"ordered": False, "writeConcern": DURABLE})
        if answer["n"] != count or answer.get("writeErrors") or answer.get("writeConcernError"):
            raise RuntimeError(f"{answer['n']} of {count} writes were applied: {answer}")


def job_name(k: int) -> str:
    return f"job-{k:06}"


async def measure(redis: RedisServer, mongo: MongoServer, runs: int, *, indexes: bool, namespace: str) -> Rate:
    """Prepare, drain, and check."""
    due = datetime.now(UTC).replace(microsecond=0)
    client: AsyncMongoClient[Document] = AsyncMongoClient(mongo.url)
    async with client, Redis.from_url(redis.url) as connection:
        database = client.get_database(f"bare_{namespace}", CodecOptions(tz_aware=True))
        path = BarePath(database, connection, due)
        await path.prepare(runs, indexes=indexes)
        meter = CpuMeter({"python": os.getpid(), "mongod": mongo.pid, "redis": redis.pid})
        began = time.monotonic()
        await path.drain(runs)
        took = time.monotonic() - began
        cpu = meter.seconds()
        await path.check(runs)
        await client.drop_database(database.name)
    return Rate(runs / took, {name: 1000 * seconds / runs for name, seconds in cpu.items()})


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--repeat", type=int, default=2)
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis = stack.enter_context(RedisServer(folder))
        mongo = stack.enter_context(MongoServer(folder))
        for k in range(options.repeat):
            for indexes in (True, False):
                rate = await measure(redis, mongo, options.runs, indexes=indexes, namespace=f"{k}{indexes}")
                name = "bare path" if indexes else "bare path without secondary indexes"
                spent = "   ".join(f"{process} {ms:.3f}" for process, ms in rate.cpu_ms.items())
                say(name, f"{rate.per_second:8,.0f} runs/s   CPU ms a run: {spent}")


if __name__ == "__main__":
    asyncio.run(main())
