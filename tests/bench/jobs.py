"""The jobs of the benchmark."""

import asyncio

from cronflow import Context


async def nothing() -> None:
    """Do nothing."""


async def serve(customer: int) -> None:
    """Do nothing for a customer."""


async def talk(ctx: Context, lines: int) -> None:
    """Write `lines` log lines, at an interval that does not match any other."""
    for n in range(lines):
        ctx.log.info("line", n=n)
        await asyncio.sleep(0.137)


async def brief() -> dict[str, int]:
    """Take a few milliseconds, and return a result."""
    await asyncio.sleep(0.005)
    return {"rows": 42}


async def fail(ctx: Context, shard: int) -> None:
    """Fail with an error that differs between runs."""
    raise ConnectionError(f"shard {shard} of 10.0.{ctx.fence % 250}.7:5432 refused the connection after {ctx.fence} ms")
