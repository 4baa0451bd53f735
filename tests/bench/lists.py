"""The time to read a page of runs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from cronflow.bootstrap.backends import open_backends
from cronflow.domain.run import RunState
from cronflow.ports import RunQuery
from tests.bench.stored_runs import NEWEST, fill, job_name
from tests.bench.words import say, spread

NAMESPACE = "lists"


async def lists(redis_url: str, mongo_url: str, count: int) -> None:
    """The time to read a page of 50 runs out of `count`, by filter."""
    async with open_backends(redis_url, mongo_url, NAMESPACE) as backends:
        await fill(mongo_url, NAMESPACE, count)
        middle = NEWEST - timedelta(seconds=count // 2)
        for name, query in (
            ("all", RunQuery()),
            ("in the middle", RunQuery(before=(middle, "x"))),
            ("of a job", RunQuery(job=job_name(7))),
            ("failed", RunQuery(states={RunState.FAILED})),
            ("failed, of a job", RunQuery(job=job_name(50), states={RunState.FAILED})),
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
