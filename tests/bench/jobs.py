"""The jobs of the benchmark: nothing, and some lines."""

import asyncio

from cronflow import Context


async def nothing() -> None:
    """Ends at once."""


async def talk(ctx: Context, lines: int) -> None:
    """Writes so many lines, at instants that fit no other rhythm."""
    for n in range(lines):
        ctx.log.info("line", n=n)
        await asyncio.sleep(0.137)
