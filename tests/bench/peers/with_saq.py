"""SAQ: one process with one event loop and `concurrency` tasks that each pop and execute jobs."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from saq import Queue

from tests.bench.peers.ledger import executed

WORKER = ("-m", "saq", "--quiet", "tests.bench.peers.with_saq.settings")
AT_ONCE = 200

# Each task blocks on a connection; the client's default is 100 connections.
queue = Queue.from_url(os.environ["PEERS_REDIS_URL"] + "?max_connections=1000")


async def no_op(context: dict[str, Any]) -> None:
    executed()


settings = {"queue": queue, "functions": [no_op], "concurrency": 100}


def enqueue(count: int) -> None:
    async def send() -> None:
        await queue.connect()
        for first in range(0, count, AT_ONCE):
            # ttl=-1: do not keep the job after its end.
            batch = range(first, min(first + AT_ONCE, count))
            await asyncio.gather(*(queue.enqueue("no_op", ttl=-1) for _ in batch))
        await queue.disconnect()

    asyncio.run(send())
