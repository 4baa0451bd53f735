"""The jobs that the tests of `cronflow.testing` run."""

from __future__ import annotations

import os

from cronflow import App, Context, PermanentError, Retry, RetryLater, Skip

app = App("shop")


@app.job(cron="30 2 * * *", tz="Europe/Berlin")
async def report(ctx: Context, region: str = "eu") -> dict[str, str]:
    ctx.log.info("building", region=region, attempt=ctx.attempt)
    async for _ in ctx.progress(range(2)):
        pass
    return {"region": region, "at": ctx.fire_at.isoformat()}


@app.job()
def printing(ctx: Context) -> str:
    print("from a thread")
    return ctx.run_id


@app.job(process=True)
def apart() -> int:
    print("from a process")
    return os.getpid()


@app.job(retry=Retry(max=1))
def later() -> None:
    raise RetryLater("10m", "not yet")


@app.job()
def refused() -> None:
    raise PermanentError("no such customer")


@app.job()
def idle() -> None:
    raise Skip("nothing to do")


@app.job(shards=4)
def parts(ctx: Context) -> tuple[int, int]:
    assert ctx.shard is not None
    return ctx.shard.index, ctx.shard.total


@app.job(retry=Retry(max=3, deadline="1m"))
def until_the_deadline() -> None:
    raise ConnectionError("down")


@app.job(delivery="at_most_once")
def once() -> None:
    raise ConnectionError("down")
