"""The cron lines, zones and times that are compared."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from cronflow.domain.schedule import zones
from cronflow.domain.schedule.zones import OffsetChange

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
LAST = FIRST + timedelta(days=400)

# Whole hours, half an hour, two hours, midnight, twice a year because of Ramadan, south of the equator, and none.
ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Antarctica/Troll",
    "Africa/Cairo",
    "America/Havana",
    "America/Santiago",
    "Africa/Casablanca",
    "Asia/Kolkata",
)

PLAIN = (
    "0 * * * *",
    "30 * * * *",
    "17 * * * *",
    "0,30 * * * *",
    "0 0 * * *",
    "5 0 * * *",
    "59 23 * * *",
    "30 1 * * *",
    "0 2 * * *",
    "15 2 * * *",
    "30 2 * * *",
    "0 3 * * *",
    "0,15,30,45 2 * * *",
    "0,30 0,1,2,3 * * *",
    "0 9-17 * * *",
    "0 0-23 * * *",
    "0 8,12,18 * * *",
    "25 6 * * *",
    "0 0 1 * *",
    "0 0 1,15 * *",
    "0 0 31 * *",
    "0 0 1 1 *",
    "0 0 1 JAN,JUL *",
    "0 0 1 */3 *",
    "0 12 1-7 * *",
    "0 0 * * MON",
    "0 0 * * MON-FRI",
    "30 8 * * mon,wed,fri",
    "0 0 * * SUN",
    "0 22 * 1-3,10-12 MON-FRI",
)
STEPS = (
    "* * * * *",
    "*/5 * * * *",
    "*/7 * * * *",
    "*/15 * * * *",
    "*/20 2 * * *",
    "0 */2 * * *",
    "5 */2 * * *",
    "0 */6 * * *",
    "0 */24 * * *",
    "30 1-5/2 * * *",
    "50/5 0 * * *",
    "5/20 2 * * *",
    "10-40/10 2 * * *",
    "0 0 */2 * *",
    "0 0 2-31/7 * *",
)
WEEKDAY_NUMBERS = (
    "0 0 * * 0",
    "0 0 * * 1",
    "0 0 * * 1-5",
    "0 0 * * 7",
    "0 0 * * 5-7",
    "0 0 * * */2",
    "0 0 * * 1,3,5",
)
BOTH_DAYS = (
    "0 0 13 * FRI",
    "0 0 1,15 * MON",
    "0 0 1-7 * MON",
    "0 0 */2 * MON",
    "0 0 13 * */2",
    "0 0 */1 * MON",
)
SPECIAL = (
    "0 0 L * *",
    "0 0 LW * *",
    "0 0 * * MON#2",
    "0 0 * * 1#1,3#3",
    "0 0 * * 5L",
    "@hourly",
    "@daily",
    "@weekly",
    "@monthly",
    "@yearly",
    "0 30 2 * * *",
    "0 */30 * * * *",
    "*/20 30 2 * * *",
    "0 0 0 1 * *",
)
REFUSED_HERE = (
    "0 22-2 * * *",
    "0 0 * * SAT-MON",
    "0 0 * * L5",
    "0 0 last * *",
    "0 0 15W * *",
    "0 0 ? * MON",
    "60 * * * *",
    "0 0 30 2 *",
)
LINES = PLAIN + STEPS + WEEKDAY_NUMBERS + BOTH_DAYS + SPECIAL + REFUSED_HERE

FEW_A_DAY = 8
_DAY = timedelta(days=1)


def changes_of(zone: str, first: datetime = FIRST, last: datetime = LAST) -> list[OffsetChange]:
    """The changes of offset in the compared time."""
    found = []
    change = zones.first_change(zones.find_zone(zone), first, last)
    while change is not None:
        found.append(change)
        change = zones.first_change(zones.find_zone(zone), change.at, last)
    return found


def windows(zone: str, per_day: int) -> Iterator[tuple[datetime, datetime]]:
    """All of the time for a line with few fires, else two days around each change of offset and one day between."""
    if per_day <= FEW_A_DAY:
        yield FIRST, LAST
        return
    yield FIRST, FIRST + _DAY
    changes = [FIRST + _DAY, *(change.at for change in changes_of(zone))]
    for before, at in pairwise(changes):
        middle = before + (at - before) // 2
        middle = middle.replace(minute=0, second=0, microsecond=0)
        if middle + _DAY < at - _DAY:
            yield middle, middle + _DAY
        yield at - _DAY, at + _DAY
