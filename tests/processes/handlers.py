"""Handlers for the tests with real processes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from cronflow import Context


async def block(ctx: Context, sink: str, seconds: float) -> None:
    """Blocks the event loop, as no coroutine should, and notes each start and end."""
    with Path(sink).open("a") as file:  # noqa: ASYNC230
        file.write(f"start {ctx.run_id} {ctx.fence}\n")
        file.flush()
        time.sleep(seconds)  # noqa: ASYNC251
        file.write(f"end {ctx.run_id} {ctx.fence}\n")


async def die(ctx: Context, sink: str) -> None:
    """Takes its node with it, and notes that it was started."""
    with Path(sink).open("a") as file:  # noqa: ASYNC230
        file.write(f"start {ctx.run_id} {ctx.fence}\n")
    os.kill(os.getpid(), signal.SIGKILL)
