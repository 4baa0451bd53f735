"""A report: reads a CSV file, adds up the sales by region, and writes a summary."""

import csv
import tempfile
from collections import Counter
from decimal import Decimal
from pathlib import Path

from cronflow import Context, PermanentError

OUT = Path(tempfile.gettempdir()) / "cronflow-examples"


def build(ctx: Context, source: str) -> dict[str, object]:
    """Write `sales-<run>.txt` and return the totals.

    The file is named after the run and replaced atomically, so a second attempt writes the same file.
    """
    path = Path(source)
    if not path.exists():
        raise PermanentError(f"{path} does not exist; a retry would not help")
    totals: Counter[str] = Counter()
    rows = 0
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            totals[row["region"]] += Decimal(row["amount"])  # type: ignore[assignment]
            rows += 1
    ctx.log.info("read", rows=rows, source=path.name)
    OUT.mkdir(parents=True, exist_ok=True)
    target = OUT / f"sales-{ctx.idempotency_key.replace('@', '-')}.txt"
    lines = [f"{region:<8} {total:>12,.2f}" for region, total in totals.most_common()]
    draft = target.with_suffix(f".{ctx.fence}.tmp")
    draft.write_text("\n".join([f"Sales at {ctx.fire_at:%Y-%m-%d %H:%M:%S} UTC", *lines, ""]))
    draft.replace(target)
    ctx.log.success("written", file=target.name, regions=len(totals))
    return {"rows": rows, "totals": {region: str(total) for region, total in totals.items()}}
