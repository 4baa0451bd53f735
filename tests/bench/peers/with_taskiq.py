"""Taskiq with a Redis list, its fastest broker that executes each task once; tasks are not acknowledged."""

from __future__ import annotations

import asyncio
import os

from taskiq.serializers import ORJSONSerializer
from taskiq_redis import ListQueueBroker

from tests.bench.peers.ledger import executed

WORKER = (
    *("-m", "taskiq", "worker", "tests.bench.peers.with_taskiq:broker"),
    *("--workers", "1", "--max-async-tasks", "100", "--max-prefetch", "100"),
    *("--no-parse", "--log-level", "ERROR"),
)
AT_ONCE = 200

broker = ListQueueBroker(os.environ["PEERS_REDIS_URL"]).with_serializer(ORJSONSerializer())


@broker.task
async def no_op() -> None:
    executed()


def enqueue(count: int) -> None:
    async def send() -> None:
        await broker.startup()
        for first in range(0, count, AT_ONCE):
            await asyncio.gather(*(no_op.kiq() for _ in range(first, min(first + AT_ONCE, count))))
        await broker.shutdown()

    asyncio.run(send())
