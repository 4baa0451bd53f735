"""Schedules: when a job falls due.

A schedule is `Cron`, `Every` or `Once`: a frozen value that is validated when it is created, so its fires can be
computed without errors. Fires are UTC-aware datetimes of whole seconds. The same schedule has the same fires on every
node and in every call; nothing here reads a clock. A schedule fires from `start` (inclusive) to `end` (exclusive).
`timetable` has the rules for daylight saving.

Jitter, calendars, misfires and the number of runs are handled elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock_time

from cronflow.domain.durations import Duration, parse_duration, to_the_minute
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.schedule import zones
from cronflow.domain.schedule.timetable import find_timetable, next_fire
from cronflow.domain.schedule.zones import EARLIEST, LATEST, SECOND

_DAY = timedelta(days=1)
_WEEK = timedelta(days=7)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MONDAY = datetime(1970, 1, 5, tzinfo=UTC)
_CLOCK = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?")


@dataclass(frozen=True, slots=True)
class Cron:
    """Fires when the clocks of the zone `tz` (an IANA name) match `expr`.

    `expr` has five fields, or six with seconds first: names, ranges, steps, lists, L, LW, #n, nL, and nicknames such as
    `@daily`. It fires in [start, end). Raises InvalidInput for a wrong field, an unknown zone, and an expression that
    never fires.
    """

    expr: str
    tz: str = "UTC"
    start: datetime | None = None
    end: datetime | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "expr", " ".join(_text(self.expr, "the cron expression").split()))
        _set_bounds(self, self.start, self.end)
        find_timetable(self.expr, _text(self.tz, "the time zone"))


@dataclass(frozen=True, slots=True, init=False)
class Every:
    """Fires at whole multiples of `interval` (a whole number of seconds), before and after `anchor`, in [start, end).

    Without an anchor the multiples count from 1970-01-01 00:00 UTC, so that `30s` fires at :00 and :30; whole weeks
    count from a Monday. With `time` (HH:MM or HH:MM:SS), an interval of whole days or weeks keeps that wall clock time
    in the zone `tz`; the anchor then only sets the day to count from. A time that the clocks skip fires at the first
    instant after the gap, one that occurs twice at its first occurrence. Without `time`, `tz` has no effect. Raises
    InvalidInput.
    """

    interval: timedelta
    anchor: datetime | None
    tz: str
    time: str | None
    start: datetime | None
    end: datetime | None

    def __init__(
        self,
        interval: Duration,
        anchor: datetime | None = None,
        tz: str = "UTC",
        time: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
    ) -> None:
        exact = parse_duration(interval)
        if exact < SECOND or exact % SECOND:
            remedy = "write a whole number of seconds, at least 1s"
            raise InvalidInput(Problem("", f"an interval of {_written(interval)} is not possible", remedy))
        zones.find_zone(_text(tz, "the time zone"))
        if time is not None:
            _check_clock(time)
            if exact % _DAY:
                remedy = "write 1d or 1w, or remove the time"
                raise InvalidInput(Problem("", f"a time needs whole days or weeks, not {_written(interval)}", remedy))
        elif tz != "UTC" and not exact % _DAY:
            what = f"days of exactly 24 hours do not follow the clocks of {tz}"
            raise InvalidInput(
                Problem("", what, 'add a time such as "02:00" to keep the wall clock, or remove the zone')
            )
        object.__setattr__(self, "interval", exact)
        object.__setattr__(self, "anchor", None if anchor is None else _whole_instant(anchor, "anchor"))
        object.__setattr__(self, "tz", tz)
        object.__setattr__(self, "time", time)
        _set_bounds(self, start, end)

    @property
    def origin(self) -> datetime:
        """The instant from which the multiples of the interval count."""
        if self.anchor is not None:
            return self.anchor
        return _EPOCH if self.interval % _WEEK else _FIRST_MONDAY


@dataclass(frozen=True, slots=True)
class Once:
    """Fires at `at` and never again. Raises InvalidInput when it has no offset from UTC or is not a whole second."""

    at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", _whole_instant(self.at, "at"))


Schedule = Cron | Every | Once


def next_after(schedule: Schedule, after: datetime) -> datetime | None:
    """The first fire strictly after an instant, None when nothing follows.

    Repeating schedules have no fire before the year 1900 and none from the year 3000 on. Raises InvalidInput for a
    naive datetime.
    """
    after = _instant(after, "after").replace(microsecond=0)
    if isinstance(schedule, Once):
        return schedule.at if schedule.at > after else None
    first, end = _bounds(schedule)
    after = max(after, first - SECOND)
    if after >= end:
        return None
    if isinstance(schedule, Cron):
        fire = next_fire(schedule.expr, schedule.tz, after)
    elif schedule.time is None:
        fire = _multiple_at_or_before(schedule, after) + schedule.interval
    else:
        fire = next(fire for fire in _daily_fires(schedule, after, 1) if fire > after)
    return fire if fire is not None and fire < end else None


def last_before(schedule: Schedule, instant: datetime, *, not_before: datetime) -> datetime | None:
    """The last fire in [not_before, instant], at the same cost however many fires lie between the two.

    Raises InvalidInput for a naive datetime.
    """
    instant = _instant(instant, "instant").replace(microsecond=0)
    not_before = _instant(not_before, "not_before")
    if isinstance(schedule, Once):
        return schedule.at if not_before <= schedule.at <= instant else None
    first, end = _bounds(schedule)
    instant, not_before = min(instant, end - SECOND), max(not_before, first)
    if instant < not_before:
        return None
    if isinstance(schedule, Cron):
        return find_timetable(schedule.expr, schedule.tz).before(instant, not_before)
    if schedule.time is None:
        fire = _multiple_at_or_before(schedule, instant)
    else:
        fire = next(fire for fire in _daily_fires(schedule, instant, -1) if fire <= instant)
    return fire if fire >= not_before else None


def count_between(schedule: Schedule, first: datetime, last: datetime, limit: int = 10_000) -> int | None:
    """The number of fires in [first, last], None when there are more than `limit`.

    Raises InvalidInput for a naive datetime.
    """
    first = _whole_second_from(_instant(first, "first"))
    last = _instant(last, "last").replace(microsecond=0)
    if isinstance(schedule, Once):
        return _within(int(first <= schedule.at <= last), limit)
    opening, end = _bounds(schedule)
    first, last = max(first, opening), min(last, end - SECOND)
    if first > last:
        return _within(0, limit)
    if isinstance(schedule, Cron):
        return find_timetable(schedule.expr, schedule.tz).count(first, last, limit)
    if schedule.time is None:
        span = _multiple_at_or_before(schedule, last) - _multiple_at_or_before(schedule, first - SECOND)
        return _within(span // schedule.interval, limit)
    total, fire = 0, next_after(schedule, first - SECOND)
    while fire is not None and fire <= last and total <= limit:
        total, fire = total + 1, next_after(schedule, fire)
    return _within(total, limit)


def latest(schedule: Schedule, instant: datetime, n: int, *, not_before: datetime) -> list[datetime]:
    """The newest `n` fires in [not_before, instant], ascending. Raises InvalidInput for a naive datetime."""
    found: list[datetime] = []
    while len(found) < n:
        fire = last_before(schedule, instant, not_before=not_before)
        if fire is None:
            break
        found.append(fire)
        instant = fire - SECOND
    return found[::-1]


def _multiple_at_or_before(every: Every, instant: datetime) -> datetime:
    origin = every.origin
    return origin + (instant - origin) // every.interval * every.interval


def _daily_fires(every: Every, instant: datetime, direction: int) -> Iterator[datetime]:
    """The fires of an `Every` with a time, forwards (1) or backwards (-1), from a little before or after `instant`."""
    assert every.time is not None
    zone, clock = zones.find_zone(every.tz), clock_time.fromisoformat(every.time)
    origin = every.origin if every.anchor is None else zones.reading(zone, every.anchor)
    counted_from, step = origin.date(), every.interval // _DAY
    today = zones.reading(zone, instant).date()
    # Clocks that go back across midnight show yesterday's date again, after some of today's times have passed.
    today -= direction * _DAY
    number = (today - counted_from).days // step
    while True:
        day: date = counted_from + timedelta(days=number * step)
        yield zones.instant_of(zone, datetime.combine(day, clock))
        number += direction


def _bounds(schedule: Cron | Every) -> tuple[datetime, datetime]:
    first = EARLIEST if schedule.start is None else max(schedule.start, EARLIEST)
    return first, LATEST if schedule.end is None else min(schedule.end, LATEST)


def _set_bounds(schedule: Cron | Every, start: datetime | None, end: datetime | None) -> None:
    start = None if start is None else _whole_instant(start, "start")
    end = None if end is None else _whole_instant(end, "end")
    if start is not None and end is not None and end <= start:
        what = f"the end, {to_the_minute(end)}, is not after the start, {to_the_minute(start)}"
        raise InvalidInput(Problem("", what, "the end must be later; nothing fires at the end itself"))
    object.__setattr__(schedule, "start", start)
    object.__setattr__(schedule, "end", end)


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise InvalidInput(Problem("", f"{what} must be text, not {value!r}", "put it in quotes"))
    return value


def _check_clock(value: object) -> None:
    if not isinstance(value, str) or not _CLOCK.fullmatch(value):
        # YAML reads an unquoted 02:00 as the number 120.
        raise InvalidInput(
            Problem("", f"{value!r} is not a time", 'write HH:MM or HH:MM:SS in quotes, such as "02:00"')
        )


def _instant(value: object, name: str) -> datetime:
    """Convert a datetime with an offset to UTC."""
    if not isinstance(value, datetime):
        what = f"{name} must be a date with a time, not {value!r}"
        raise InvalidInput(Problem("", what, "write it like 2026-12-24T18:00:00+01:00"))
    if value.utcoffset() is None:
        what = f"{name} has no offset from UTC, {value.isoformat()} means another instant in every zone"
        raise InvalidInput(Problem("", what, "add one, such as Z or +01:00; in Python, tzinfo=timezone.utc"))
    try:
        return value.astimezone(UTC)
    except OverflowError:
        what = f"{name} is out of range, {value.isoformat()}"
        raise InvalidInput(Problem("", what, "choose a date in the years 1 to 9999")) from None


def _whole_instant(value: object, name: str) -> datetime:
    instant = _instant(value, name)
    if instant.microsecond:
        what = f"{name} is not a whole second, {instant.isoformat()}"
        raise InvalidInput(Problem("", what, "remove the fraction; in Python, .replace(microsecond=0)"))
    return instant


def _whole_second_from(instant: datetime) -> datetime:
    return instant.replace(microsecond=0) + SECOND if instant.microsecond else instant


def _within(total: int, limit: int) -> int | None:
    return total if total <= limit else None


def _written(interval: Duration) -> str:
    return str(interval) if isinstance(interval, timedelta) else repr(interval)
