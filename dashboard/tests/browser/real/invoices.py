"""The Python job of the browser tests. It fails without an address."""

from cronflow import Context


def send(ctx: Context, to: str) -> dict[str, str]:
    if not to:
        raise ValueError("no address given")
    ctx.log.info("sent")
    return {"sent_to": to}
