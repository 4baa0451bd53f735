"""`python -m tests.dashboard.fill MONGO_URL COUNT` inserts old runs for the scrolling test of the dashboard."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta

from cronflow.backends.codec import run_document
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.domain.run import Attempt, Kind, Outcome, Run, RunState, run_id

NAMESPACE = "default"
JOB = "archived"
BATCH = 5000
NEWEST_AGO = timedelta(days=2)


def ended(n: int, newest: datetime) -> Run:
    """The n-th newest run; there is one per second."""
    fire = newest - timedelta(seconds=n)
    end = fire + timedelta(milliseconds=200 + n % 900)
    node = f"node-{n % 3 + 1}#0000"
    return Run(
        id=run_id(JOB, fire),
        job=JOB,
        fire_at=fire,
        kind=Kind.INTERVAL,
        state=RunState.SUCCEEDED,
        fence=n + 1,
        term=1,
        job_ver=1,
        node=node,
        attempt=1,
        max_attempts=1,
        check_at=None,
        created_at=fire,
        dispatched_at=fire,
        started_at=fire,
        ended_at=end,
        outcome=Outcome.OK,
        attempts=(Attempt(1, n + 1, node, fire, end, Outcome.OK, None),),
    )


async def fill(url: str, count: int) -> None:
    newest = datetime.now(UTC).replace(microsecond=0) - NEWEST_AGO
    async with MongoDatabase(url, NAMESPACE) as database:
        for first in range(0, count, BATCH):
            documents = [run_document(ended(n, newest)) for n in range(first, min(first + BATCH, count))]
            await database["runs"].insert_many(documents, ordered=False)


if __name__ == "__main__":
    asyncio.run(fill(sys.argv[1], int(sys.argv[2])))
