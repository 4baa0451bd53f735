"""Time zones: conversion between instants (UTC) and local times.

Rule: a local time that the clocks skip means the first instant after the gap, and a local time that they show twice
means its first occurrence. Daylight saving, a permanent change of offset and a skipped calendar day are all an
`OffsetChange`. Local times are naive datetimes, instants are UTC-aware ones, both of whole seconds.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.schedule.zone_cache import depends_on_zone_data

SECOND = timedelta(seconds=1)

EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
"""No repeating schedule fires before this instant."""
LATEST = datetime(3000, 1, 1, tzinfo=UTC)
"""No repeating schedule fires at or after this instant."""

# Two changes of one zone have never been less than six days apart since 1900 (tzdata 2026f), so samples this far apart
# see every one.
_SAMPLE = timedelta(days=2)
# These depend on the machine or count leap seconds; two nodes of a cluster could disagree about them.
_UNPORTABLE = ("posix/", "right/", "localtime", "posixrules")


def check_reach(instant: datetime, place: str) -> None:
    """Raises InvalidInput for an instant so far away that calendar arithmetic could overflow."""
    if not EARLIEST <= instant < LATEST:
        what = f"is in the year {instant.year}; it must be from {EARLIEST.year} to {LATEST.year - 1}"
        raise InvalidInput(Problem(place, what))


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """From `at`, the first instant with the new offset, the zone is `after` ahead of UTC; before, `before`."""

    at: datetime
    before: timedelta
    after: timedelta


@depends_on_zone_data
@lru_cache(maxsize=1024)
def find_zone(name: str) -> ZoneInfo:
    """The IANA zone of this name. Raises InvalidInput with the nearest name when there is none."""
    if not name.startswith(_UNPORTABLE):
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass
    nearest = _nearest_name(name)
    remedy = f"did you mean {nearest}?" if nearest else "write an IANA name such as Europe/Berlin, or UTC"
    raise InvalidInput(Problem("", f"there is no time zone {name!r}", remedy))


def is_utc(zone: ZoneInfo) -> bool:
    """Whether the zone is UTC, whose offset never changes."""
    return zone.key in ("UTC", "Etc/UTC")


def reading(zone: ZoneInfo, instant: datetime) -> datetime:
    """The local time of the zone at this instant."""
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def offset_at(zone: ZoneInfo, instant: datetime) -> timedelta:
    """The zone's offset from UTC at this instant."""
    offset = instant.astimezone(zone).utcoffset()
    assert offset is not None
    return offset


def instant_of(zone: ZoneInfo, local: datetime) -> datetime:
    """The instant that a local time means: its first occurrence, or the first instant after the gap that swallows it.

    It never decreases when `local` increases, which `earliest_local` and `latest_local` invert.
    """
    # With fold=0 a repeated time takes the offset before the change, which is the first occurrence; a skipped one ends
    # up after the change.
    instant = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    back = reading(zone, instant)
    if back == local:
        return instant
    change = last_change(zone, instant - (back - local), instant)
    assert change is not None
    return change.at


def earliest_local(zone: ZoneInfo, instant: datetime) -> datetime:
    """The smallest local time whose `instant_of` is at or after this instant."""
    aware = instant.astimezone(zone)
    if aware.fold:
        return _end_of_overlap(zone, aware)
    # At the first instant after a gap this is where the gap begins: all of the gap means this very instant.
    return reading(zone, instant - SECOND) + SECOND


def latest_local(zone: ZoneInfo, instant: datetime) -> datetime:
    """The largest local time whose `instant_of` is at or before this instant."""
    aware = instant.astimezone(zone)
    if aware.fold:
        return _end_of_overlap(zone, aware) - SECOND
    return aware.replace(tzinfo=None)


def first_change(zone: ZoneInfo, after: datetime, until: datetime) -> OffsetChange | None:
    """The first change of offset in (after, until]."""
    for year in range(after.year, until.year + 1):
        for change in _changes(zone, year):
            if after < change.at <= until:
                return change
    return None


def last_change(zone: ZoneInfo, after: datetime, until: datetime) -> OffsetChange | None:
    """The last change of offset in (after, until]."""
    for year in range(until.year, after.year - 1, -1):
        for change in reversed(_changes(zone, year)):
            if after < change.at <= until:
                return change
    return None


def _end_of_overlap(zone: ZoneInfo, aware: datetime) -> datetime:
    instant = aware.astimezone(UTC)
    change = last_change(zone, aware.replace(fold=0).astimezone(UTC), instant)
    assert change is not None
    return change.at.replace(tzinfo=None) + change.before


@depends_on_zone_data
@lru_cache(maxsize=16_384)
def _changes(zone: ZoneInfo, year: int) -> tuple[OffsetChange, ...]:
    """Every change of offset in a UTC year, found by sampling and bisection because zoneinfo does not list them."""
    found = []
    at, end = datetime(year, 1, 1, tzinfo=UTC) - SECOND, datetime(year + 1, 1, 1, tzinfo=UTC) - SECOND
    before = offset_at(zone, at)
    while at < end:
        sample = min(at + _SAMPLE, end)
        after = offset_at(zone, sample)
        if after != before:
            found.append(OffsetChange(_halve(zone, at, sample), before, after))
        at, before = sample, after
    return tuple(found)


def _halve(zone: ZoneInfo, old: datetime, new: datetime) -> datetime:
    offset = offset_at(zone, new)
    while new - old > SECOND:
        middle = old + (new - old) // 2
        middle = middle.replace(microsecond=0)
        if offset_at(zone, middle) == offset:
            new = middle
        else:
            old = middle
    return new


def _nearest_name(name: str) -> str | None:
    # CEST, UTC+2 and GMT+1 resemble names with another meaning (Etc/GMT+1 is west of Greenwich).
    if len(name) < 5 or "+" in name:
        return None
    by_spelling: dict[str, str] = {}
    for known in sorted(available_timezones()):
        if known.startswith(_UNPORTABLE):
            continue
        by_spelling.setdefault(known.rpartition("/")[2].lower(), known)
        by_spelling[known.lower()] = known
    close = difflib.get_close_matches(name.strip().lower().replace(" ", "_"), by_spelling, n=1, cutoff=0.75)
    return by_spelling[close[0]] if close else None
