"""What the jobs of `cronflow chaos` do: report their start to the sink, take some time, and report their end.

A report is sent over a connection of its own and acknowledged, so a handler that goes on has reported. The sink is
another process and shares nothing with the cluster; so its account of what happened is independent.
"""

from __future__ import annotations

import asyncio
import time

from cronflow import Context


async def work(ctx: Context, sink: int, seconds: float, fails: int = 0) -> None:
    """Run for `seconds`, and fail in `fails` of 100 fences. `sink` is the port of the sink."""
    place = f"{ctx.run_id} {ctx.fence} {ctx.node.partition('#')[0]}"
    ok = ctx.fence % 100 >= fails
    await _report(sink, f"start {place} {time.time():.6f}")
    await asyncio.sleep(seconds)
    await _report(sink, f"end {place} {time.time():.6f} {'ok' if ok else 'error'}")
    if not ok:
        raise RuntimeError("failed on request")


async def _report(sink: int, line: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", sink)
    try:
        writer.write(f"{line}\n".encode())
        await reader.readexactly(1)
    finally:
        writer.close()
