"""A table of instants: on the clocks of a zone, in UTC, and as distances from now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from cronflow.cli import times
from cronflow.cli.tables import Column, table
from cronflow.domain.schedule.zones import find_zone


def fire_table(fires: Sequence[datetime], tz: str, now: datetime) -> None:
    """Write it. The zone has no column of its own when it is UTC."""
    zone = find_zone(tz)
    columns = [Column("#", drop=3, align="right"), Column(tz), Column("UTC"), Column("FROM NOW", drop=1)]
    rows = [
        [
            str(n),
            f"{fire.astimezone(zone):%a %Y-%m-%d %H:%M:%S} {fire.astimezone(zone).isoformat()[19:]}",
            times.absolute(fire) if tz != "UTC" else f"{fire:%a} {times.absolute(fire)}",
            times.relative(fire, now),
        ]
        for n, fire in enumerate(fires, 1)
    ]
    if tz == "UTC":
        del columns[1]
        for row in rows:
            del row[1]
    table(columns, rows)
