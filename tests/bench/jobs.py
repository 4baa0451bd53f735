"""The jobs of the benchmark."""

import asyncio

from cronflow import Context


async def nothing() -> None:
    """Do nothing."""


async def talk(ctx: Context, lines: int) -> None:
    """Write `lines` log lines, at an interval that does not match any other."""
    for n in range(lines):
        ctx.log.info("line", n=n)
        await asyncio.sleep(0.137)
