"""Handlers for the tests with real processes."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import time
from pathlib import Path

from cronflow import Context


async def block(ctx: Context, sink: str, seconds: float) -> None:
    """Block the event loop, and record start and end."""
    with Path(sink).open("a") as file:  # noqa: ASYNC230
        file.write(f"start {ctx.run_id} {ctx.fence}\n")
        file.flush()
        time.sleep(seconds)  # noqa: ASYNC251
        file.write(f"end {ctx.run_id} {ctx.fence}\n")


async def work(ctx: Context, sink: str, seconds: float, fails: int = 0) -> None:
    """Run for `seconds`, fail in `fails` of 100 fences, and record start and end for the history checker."""
    place = f"{ctx.run_id} {ctx.fence} {ctx.node.partition('#')[0]}"
    ok = ctx.fence % 100 >= fails
    _note(sink, f"start {place} {time.time():.6f}")
    await asyncio.sleep(seconds)
    # No await from here on, so that the recorded outcome is the real one.
    _note(sink, f"end {place} {time.time():.6f} {'ok' if ok else 'error'}")
    if not ok:
        raise RuntimeError("failed on request")


def hold_the_lock(ctx: Context, sink: str, seconds: int) -> None:
    """Hold the interpreter lock in a C function, with a command running, and record start and end."""
    command = subprocess.Popen(["sleep", "300"])
    _note(sink, f"start {ctx.run_id} {ctx.fence}")
    _note(sink, f"pids {os.getpid()} {command.pid}")
    ctypes.PyDLL(None).sleep(seconds)
    command.kill()
    command.wait()
    _note(sink, f"end {ctx.run_id} {ctx.fence}")


def prints(text: str) -> None:
    """Print without a context."""
    print(text)


def _note(sink: str, line: str) -> None:
    """Write with one call, so that lines of several processes never mix."""
    file = os.open(sink, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)


async def die(ctx: Context, sink: str) -> None:
    """Record the start and kill the node."""
    with Path(sink).open("a") as file:  # noqa: ASYNC230
        file.write(f"start {ctx.run_id} {ctx.fence}\n")
    os.kill(os.getpid(), signal.SIGKILL)


async def hold(ctx: Context, sink: str, key: str, seconds: float = 0.0, gate: str | None = None) -> None:
    """Record that this attempt holds the key, and since when, for `seconds` and until the file `gate` exists."""
    place = f"{ctx.run_id} {ctx.fence} {ctx.node.partition('#')[0]} {key}"
    _note(sink, f"start {place} {time.time():.6f}")
    await asyncio.sleep(seconds)
    while gate is not None and not Path(gate).exists():  # noqa: ASYNC240
        await asyncio.sleep(0.02)
    _note(sink, f"end {place}")
