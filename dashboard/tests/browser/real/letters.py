"""What a job of the page's tests calls: it fails for want of an argument."""

from cronflow import Context


def send(ctx: Context, to: str) -> dict[str, str]:
    """Send it."""
    if not to:
        raise ValueError("there is no address")
    ctx.log.info("sent")
    return {"sent_to": to}
