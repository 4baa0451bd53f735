"""Small jobs for the demo: one in the event loop, one in a thread, one without a schedule."""

import time

from cronflow import Context


async def tick(ctx: Context) -> dict[str, object]:
    """The smallest possible job."""
    return {"fire_at": ctx.fire_at.isoformat(), "fence": ctx.fence}


def nap(ctx: Context, seconds: float) -> None:
    """Plain functions run in a thread, so they can block."""
    ctx.log.info("napping", seconds=seconds)
    time.sleep(seconds)


async def greet(ctx: Context, name: str) -> str:
    """`cronflow runs show` prints its result."""
    ctx.log.success("greeted", name=name)
    return f"Hello, {name}!"
