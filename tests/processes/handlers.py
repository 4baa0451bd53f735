"""Handlers for the tests with real processes."""

from __future__ import annotations

import asyncio
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


async def work(ctx: Context, sink: str, seconds: float, fails: int = 0) -> None:
    """Takes so long, fails so often in a hundred, and notes what the checker of histories wants to know."""
    place = f"{ctx.run_id} {ctx.fence} {ctx.node.partition('#')[0]}"
    ok = ctx.fence % 100 >= fails
    _note(sink, f"start {place} {time.time():.6f}")
    await asyncio.sleep(seconds)
    # No await from here on: what is noted as its end is how it ends.
    _note(sink, f"end {place} {time.time():.6f} {'ok' if ok else 'error'}")
    if not ok:
        raise RuntimeError("told to fail")


def _note(sink: str, line: str) -> None:
    """One write, so that lines of many processes never mix."""
    file = os.open(sink, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)


async def die(ctx: Context, sink: str) -> None:
    """Takes its node with it, and notes that it was started."""
    with Path(sink).open("a") as file:  # noqa: ASYNC230
        file.write(f"start {ctx.run_id} {ctx.fence}\n")
    os.kill(os.getpid(), signal.SIGKILL)
