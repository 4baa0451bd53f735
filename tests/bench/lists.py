"""The time to read a page of runs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from cronflow.bootstrap.backends import open_backends
from cronflow.domain.run import Kind, Outcome, Run, RunState
from cronflow.ports import RunQuery
from tests.bench.words import say, spread

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def a_stored_run(n: int) -> Run:
    """The n-th newest run. A thousand jobs on ten nodes; 1% failed; the oldest runs are on a separate node."""
    fire = NOW - timedelta(seconds=n)
    failed = n % 100 == 50
    return Run(
        id=f"job-{n % 1000:03}@{n}",
        job=f"job-{n % 1000:03}",
        fire_at=fire,
        kind=Kind.CRON,
        state=RunState.FAILED if failed else RunState.SUCCEEDED,
        fence=n,
        term=1,
        job_ver=1,
        node=f"node-{n % 10}#a" if n < 900_000 else "gone#a",
        attempt=1,
        max_attempts=4,
        check_at=None,
        created_at=fire,
        dispatched_at=fire,
        started_at=fire,
        ended_at=fire,
        outcome=Outcome.ERROR if failed else Outcome.OK,
    )


async def lists(redis_url: str, mongo_url: str, count: int) -> None:
    """The time to read a page of 50 runs out of `count`, by filter."""
    async with open_backends(redis_url, mongo_url, "lists") as backends:
        for first in range(0, count, 2000):
            await backends.runs.insert([a_stored_run(n) for n in range(first, min(first + 2000, count))])
        middle = NOW - timedelta(seconds=count // 2)
        for name, query in (
            ("all", RunQuery()),
            ("in the middle", RunQuery(before=(middle, "x"))),
            ("of a job", RunQuery(job="job-007")),
            ("failed", RunQuery(states={RunState.FAILED})),
            ("failed, of a job", RunQuery(job="job-050", states={RunState.FAILED})),
            ("running", RunQuery(states={RunState.RUNNING})),
            ("of a node", RunQuery(node="node-3")),
            ("of a node that left long ago", RunQuery(node="gone")),
            ("of a day", RunQuery(since=middle, until=middle + timedelta(days=1))),
        ):
            times = []
            for _ in range(100):
                began = asyncio.get_running_loop().time()
                found = await backends.runs.find(replace(query, limit=50))
                times.append(timedelta(seconds=asyncio.get_running_loop().time() - began))
            say(f"of {count:,} runs a page: {name}", f"{spread(times)}   {len(found)} rows")
