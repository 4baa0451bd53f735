"""The lateness of jobs in APScheduler, in memory: all are due at the same instant. Prints one lateness in ms a line.

python -m tests.bench.peers.apscheduler_herd threads cron 2000
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.schedulers.background import BackgroundScheduler

LATE_ENOUGH_S = 300.0
JOBS_A_SECOND = 4000
"""How many jobs are added within a second at least."""


def due_of(count: int) -> datetime:
    """An instant after all jobs were added."""
    return datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=3 + count // JOBS_A_SECOND)


def add(scheduler: Any, function: Any, trigger: str, due: datetime, count: int) -> None:
    """With the trigger `date` a job fires once, with `cron` every hour."""
    when = {"run_date": due} if trigger == "date" else {"minute": due.minute, "second": due.second}
    for _ in range(count):
        scheduler.add_job(function, trigger, **when, misfire_grace_time=None)
    if datetime.now(UTC) >= due:
        raise RuntimeError("adding the jobs took too long")


def threads(trigger: str, count: int) -> list[float]:
    """The default executor: ten threads."""
    times: list[float] = []
    ended = threading.Event()

    def no_op() -> None:
        times.append(time.time())
        if len(times) == count:
            ended.set()

    scheduler = BackgroundScheduler(timezone="UTC")
    scheduler.start()
    due = due_of(count)
    add(scheduler, no_op, trigger, due, count)
    ended.wait(LATE_ENOUGH_S)
    scheduler.shutdown()
    return [at - due.timestamp() for at in times]


async def loop(trigger: str, count: int) -> list[float]:
    """The executor of the event loop."""
    times: list[float] = []
    ended = asyncio.Event()

    async def no_op() -> None:
        times.append(time.time())
        if len(times) == count:
            ended.set()

    scheduler = AsyncIOScheduler(timezone="UTC")
    scheduler.start()
    due = due_of(count)
    add(scheduler, no_op, trigger, due, count)
    await asyncio.wait_for(ended.wait(), LATE_ENOUGH_S)
    scheduler.shutdown()
    return [at - due.timestamp() for at in times]


if __name__ == "__main__":
    executor, trigger, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
    found = threads(trigger, size) if executor == "threads" else asyncio.run(loop(trigger, size))
    print("\n".join(f"{1000 * late:.3f}" for late in found))
