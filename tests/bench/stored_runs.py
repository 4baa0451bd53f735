"""Many stored runs, for the benchmarks of lists."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pymongo import WriteConcern

from cronflow.backends import codec
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.domain.run import Run
from tests.contracts.builders import an_ended_run

NEWEST = datetime(2026, 11, 21, tzinfo=UTC)
AT_ONCE = 1000


def job_name(n: int) -> str:
    return f"job-{n:07}"


def stored_run(n: int) -> Run:
    """The n-th newest run. A thousand jobs on ten nodes; all runs of ten jobs failed; the oldest runs are on a node
    that left.
    """
    fire = NEWEST - timedelta(seconds=n)
    node = f"node-{n % 10}#a" if n < 900_000 else "gone#a"
    error = f"ConnectionError: shard {n % 16} refused the connection" if n % 100 == 50 else None
    return an_ended_run(job_name(n % 1000), fire, fire, node=node, fence=n, error=error)


async def fill(mongo_url: str, namespace: str, count: int) -> None:
    """Write the runs. They need not survive a crash of the server."""
    async with MongoDatabase(mongo_url, namespace) as database:
        runs = database["runs"].with_options(write_concern=WriteConcern(1, j=False))
        for first in range(0, count, AT_ONCE):
            some = range(first, min(first + AT_ONCE, count))
            await runs.insert_many([codec.run_document(stored_run(n)) for n in some], ordered=False)
