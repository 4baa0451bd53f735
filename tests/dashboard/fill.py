"""`python -m tests.dashboard.fill MONGO_URL COUNT` inserts old runs for the scrolling test of the dashboard."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta

from cronflow.backends.codec import run_document
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.domain.run import Run
from tests.contracts.builders import an_ended_run

NAMESPACE = "default"
JOB = "archived"
BATCH = 1000
NEWEST_AGO = timedelta(days=2)


def ended(n: int, newest: datetime) -> Run:
    """The n-th newest run; there is one per second."""
    fire = newest - timedelta(seconds=n)
    end = fire + timedelta(milliseconds=200 + n % 900)
    return an_ended_run(JOB, fire, end, node=f"node-{n % 3 + 1}#0000", fence=n + 1)


async def fill(url: str, count: int) -> None:
    newest = datetime.now(UTC).replace(microsecond=0) - NEWEST_AGO
    async with MongoDatabase(url, NAMESPACE) as database:
        for first in range(0, count, BATCH):
            documents = [run_document(ended(n, newest)) for n in range(first, min(first + BATCH, count))]
            await database["runs"].insert_many(documents, ordered=False)


if __name__ == "__main__":
    asyncio.run(fill(sys.argv[1], int(sys.argv[2])))
