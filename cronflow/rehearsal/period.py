"""Finds the period to rehearse: the night of the next clock change, or of the first difference between two sets of zone
data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

from cronflow.domain.schedule.zones import OffsetChange, find_zone, first_change
from cronflow.rehearsal.zone_data import zone_data

LOOKS_AHEAD = timedelta(days=730)
AROUND = timedelta(hours=6)


def next_clock_change(zones: Iterable[str], after: datetime) -> tuple[str, OffsetChange] | None:
    """The next change of the clocks in these zones within two years, and its zone."""
    found = [(zone, change) for zone in zones for change in _changes(zone, after)[:1]]
    return min(found, key=lambda pair: (pair[1].at, pair[0]), default=None)


def first_difference(zones: Iterable[str], folder: Path, after: datetime) -> datetime | None:
    """The first clock change within two years that only one of the present and the given zone data has."""
    names = sorted(set(zones))
    now = {zone: set(_changes(zone, after)) for zone in names}
    with zone_data(folder):
        then = {zone: set(_changes(zone, after)) for zone in names}
    return min((change.at for zone in names for change in now[zone] ^ then[zone]), default=None)


def around(instant: datetime) -> tuple[datetime, datetime]:
    """The period around a clock change."""
    return instant - AROUND, instant + AROUND


def _changes(zone: str, after: datetime) -> list[OffsetChange]:
    return list(_all_changes(zone, after))


def _all_changes(zone: str, after: datetime) -> Iterator[OffsetChange]:
    until = after + LOOKS_AHEAD
    change = first_change(find_zone(zone), after, until)
    while change is not None:
        yield change
        change = first_change(find_zone(zone), change.at, until)
