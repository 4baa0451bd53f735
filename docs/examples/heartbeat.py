"""Small jobs for the demo: one in the event loop, one in a thread, one by hand."""

import time

from cronflow import Context


async def tick(ctx: Context) -> dict[str, object]:
    """As little as a job can do."""
    return {"fire_at": ctx.fire_at.isoformat(), "fence": ctx.fence}


def nap(ctx: Context, seconds: float) -> None:
    """A plain function runs in a thread, so it may block."""
    ctx.log.info("napping", seconds=seconds)
    time.sleep(seconds)


async def greet(ctx: Context, name: str) -> str:
    """Its result is shown by `cronflow runs show`."""
    ctx.log.success("greeted", name=name)
    return f"Hello, {name}!"
