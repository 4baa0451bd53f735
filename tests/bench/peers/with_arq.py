"""arq: one process with one event loop. It polls, so a short delay and many concurrent jobs matter most. Results are
not kept.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, ClassVar

from arq import create_pool
from arq.connections import RedisSettings

from tests.bench.peers.ledger import executed

REDIS = RedisSettings.from_dsn(os.environ["PEERS_REDIS_URL"])
WORKER = ("-m", "arq", "tests.bench.peers.with_arq.WorkerSettings")
AT_ONCE = 200


async def no_op(context: dict[str, Any]) -> None:
    executed()


class WorkerSettings:
    functions: ClassVar = [no_op]
    redis_settings = REDIS
    max_jobs = 100
    queue_read_limit = 500
    poll_delay = 0.01
    keep_result = 0
    log_results = False


def enqueue(count: int) -> None:
    async def send() -> None:
        pool = await create_pool(REDIS)
        for first in range(0, count, AT_ONCE):
            await asyncio.gather(*(pool.enqueue_job("no_op") for _ in range(first, min(first + AT_ONCE, count))))
        await pool.aclose()

    asyncio.run(send())
