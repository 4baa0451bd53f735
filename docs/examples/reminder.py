"""A one-time reminder, defined in Python: it is due 20 seconds after this file is loaded."""

from datetime import UTC, datetime, timedelta

from cronflow import App, Context

app = App("reminders")


@app.job(at=datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=20), timeout="10s")
async def tea_is_ready(ctx: Context) -> None:
    """Reminds you of the tea, once."""
    ctx.log.success("tea is ready", fire_at=ctx.fire_at.isoformat())
