"""The module `billing` of the documentation, on a node: it succeeds, or fails on request."""

from __future__ import annotations

from cronflow import App, Context, PermanentError

app = App("billing")


@app.job(name="nightly-report", cron="0 2 * * *", overlap="allow", timeout="2m")
async def nightly_report(ctx: Context, region: str = "eu") -> dict[str, int]:
    """Builds the nightly report."""
    ctx.log.info("reading 3 rows", region=region)
    ctx.log.warning("almost nothing")
    if region == "bad":
        raise PermanentError("no rows")
    return {"days": 7}


@app.job(name="sync-tokens", every="1h")
def sync_tokens(ctx: Context) -> None:
    """Fetches new tokens."""
    ctx.log.success("synced")
