"""What applying jobs costs: commands to a real MongoDB, counted and not timed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from cronflow.backends.clock import SystemClock
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.bootstrap.backends import adapters
from cronflow.domain.job import Job, PythonTarget
from cronflow.domain.schedule.kinds import Cron
from cronflow.usecases import UseCases
from cronflow.usecases.jobs import BATCH
from tests.test_cost import Counting, CountingRedis

COUNT = 1000
BATCHES = COUNT // BATCH
JOBS = [
    Job(name=f"job-{n:04}", target=PythonTarget("no:op"), schedule=Cron(f"{n % 60} {n // 60} 1 1 *"))
    for n in range(COUNT)
]


async def test_a_thousand_new_jobs_cost_three_round_trips_a_batch_and_unchanged_ones_one(
    redis_url: str, mongo_url: str, namespace: str
) -> None:
    counting = Counting()
    async with (
        MongoDatabase(mongo_url, namespace, listeners=[counting]) as database,
        CountingRedis(redis_url, namespace) as connection,
    ):
        jobs = UseCases(adapters(connection, database), SystemClock()).jobs

        counting.clear()
        assert {one.result for one in await jobs.compare(JOBS)} == {"created"}
        assert counting.commands == Counter({"find jobs": 1})

        counting.clear()
        assert {one.result for one in await jobs.applied(JOBS)} == {"created"}
        assert counting.commands == Counter({"find jobs": BATCHES, "insert jobs": BATCHES, "insert audit": BATCHES})
        assert counting.writes == Counter(jobs=COUNT, audit=COUNT)

        counting.clear()
        assert {one.result for one in await jobs.applied(JOBS)} == {"unchanged"}
        assert counting.commands == Counter({"find jobs": BATCHES})

        counting.clear()
        changed = [replace(job, description="new") for job in JOBS]
        assert {one.result for one in await jobs.applied(changed)} == {"changed"}
        # Each change is a compare-and-set of its own; all else is done for the batch.
        assert counting.commands.pop("update jobs") == COUNT
        assert set(counting.commands.values()) == {BATCHES}, counting.commands
        assert counting.commands.total() <= 4 * BATCHES, counting.commands
