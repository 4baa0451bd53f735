"""Python jobs of the browser tests and of the screenshots. They fail without an address or an order."""

from cronflow import Context


def send(ctx: Context, to: str) -> dict[str, str]:
    if not to:
        raise ValueError("no address given")
    ctx.log.info("sent")
    return {"sent_to": to}


def refund(order: str, amount: float, currency: str, reasons: list[str]) -> str:
    if not order:
        raise ValueError("no order given")
    return f"{amount:.2f} {currency} paid back for {order}: {', '.join(reasons)}"
