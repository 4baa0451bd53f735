"""An independent implementation of when schedules fire, for checking and never for scheduling.

It shares nothing with `domain.schedule` but the values `Cron`, `Every` and `Once`. It is written to be obviously
correct, and is fast enough for windows of minutes to days. It does not validate schedules.

The rule for local times: a time that the clocks show once is that instant; a skipped time is the first instant after
the gap; a repeated time is its first occurrence. A cron whose minute or hour field starts with `*` instead checks the
clock at every instant: a repeated time fires twice, and a skipped one does not fire. Fires at one instant are one fire.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronflow.domain.schedule.kinds import Cron, Every, Once, Schedule

_MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC"
_WEEKDAYS = "SUN MON TUE WED THU FRI SAT"
_NICKNAMES = {
    "@YEARLY": "0 0 1 1 *",
    "@ANNUALLY": "0 0 1 1 *",
    "@MONTHLY": "0 0 1 * *",
    "@WEEKLY": "0 0 * * SUN",
    "@DAILY": "0 0 * * *",
    "@MIDNIGHT": "0 0 * * *",
    "@HOURLY": "0 * * * *",
}


def fires_between(schedule: Schedule, first: datetime, last: datetime) -> list[datetime]:
    """All fires in [first, last), ascending, without duplicates, in UTC. Both instants need an offset."""
    first, last = first.astimezone(UTC), last.astimezone(UTC)
    if not isinstance(schedule, Once):
        first = first if schedule.start is None else max(first, schedule.start)
        last = last if schedule.end is None else min(last, schedule.end)
    match schedule:
        case Once(at=at):
            fires = {at}
        case Every(time=None):
            fires = set(_multiples(schedule, first, last))
        case Every():
            fires = set(_wall_clock(schedule, first, last))
        case Cron():
            fires = set(_cron(schedule, first, last))
    return sorted(fire for fire in fires if first <= fire < last)


def _cron(cron: Cron, first: datetime, last: datetime) -> Iterator[datetime]:
    zone = ZoneInfo(cron.tz)
    expr = _NICKNAMES.get(cron.expr.upper(), cron.expr.upper())
    fields = expr.split() if len(expr.split()) == 6 else ["0", *expr.split()]
    seconds, minutes, hours = (sorted(_numbers(fields[i], 0, high)) for i, high in ((0, 59), (1, 59), (2, 23)))
    asks_the_clocks = fields[1][0] == "*" or fields[2][0] == "*"
    for day in _local_days(zone, first, last):
        if not _day_matches(day, fields[3], fields[4], fields[5]):
            continue
        for hour in hours:
            if _misses(zone, datetime.combine(day, time(hour)), timedelta(hours=1), first, last):
                continue
            for minute in minutes:
                if _misses(zone, datetime.combine(day, time(hour, minute)), timedelta(minutes=1), first, last):
                    continue
                for second in seconds:
                    local = datetime.combine(day, time(hour, minute, second))
                    if asks_the_clocks:
                        yield from _occurrences(zone, local)
                    else:
                        yield _meaning(zone, local)


def _multiples(every: Every, first: datetime, last: datetime) -> Iterator[datetime]:
    origin = every.anchor or _count_from(every)
    fire = origin + (first - origin) // every.interval * every.interval
    while fire < last:
        yield fire
        fire += every.interval


def _wall_clock(every: Every, first: datetime, last: datetime) -> Iterator[datetime]:
    assert every.time is not None
    zone, clock = ZoneInfo(every.tz), time.fromisoformat(every.time)
    origin = (every.anchor.astimezone(zone) if every.anchor else _count_from(every)).date()
    for day in _local_days(zone, first, last):
        if (day - origin) % every.interval == timedelta(0):
            yield _meaning(zone, datetime.combine(day, clock))


def _count_from(every: Every) -> datetime:
    """The Unix epoch was a Thursday. Weeks count from the Monday after it."""
    whole_weeks = every.interval % timedelta(weeks=1) == timedelta(0)
    return datetime(1970, 1, 5 if whole_weeks else 1, tzinfo=UTC)


def _local_days(zone: ZoneInfo, first: datetime, last: datetime) -> Iterator[date]:
    # Two extra days at both ends: a zone may skip a whole day, or go back across midnight.
    day, end = first.astimezone(zone).date() - timedelta(days=2), last.astimezone(zone).date() + timedelta(days=2)
    while day <= end:
        yield day
        day += timedelta(days=1)


def _misses(zone: ZoneInfo, local: datetime, length: timedelta, first: datetime, last: datetime) -> bool:
    """Whether no local time in [local, local + length) can mean an instant of the window, whatever the offset."""
    readings = [_as_utc(zone, at, fold) for at in (local, local + length) for fold in (0, 1)]
    return max(readings) < first or min(readings) >= last


def _occurrences(zone: ZoneInfo, local: datetime) -> list[datetime]:
    """The instants (none, one or two) at which the zone's clocks show this time."""
    candidates = {_as_utc(zone, local, 0), _as_utc(zone, local, 1)}
    return sorted(instant for instant in candidates if instant.astimezone(zone).replace(tzinfo=None) == local)


def _meaning(zone: ZoneInfo, local: datetime) -> datetime:
    occurrences = _occurrences(zone, local)
    if occurrences:
        return occurrences[0]
    begun_minute = timedelta(seconds=-local.second % 60)
    return _end_of_gap(zone, local + begun_minute)


@lru_cache(maxsize=10_000)
def _end_of_gap(zone: ZoneInfo, local: datetime) -> datetime:
    """The first instant after a gap. `local` is a full minute in or after the gap."""
    while not _occurrences(zone, local):
        local += timedelta(minutes=1)
    while _occurrences(zone, local - timedelta(seconds=1)):
        local -= timedelta(seconds=1)
    return _occurrences(zone, local)[0]


def _as_utc(zone: ZoneInfo, local: datetime, fold: int) -> datetime:
    return local.replace(tzinfo=zone, fold=fold).astimezone(UTC)


def _day_matches(day: date, days: str, months: str, weekdays: str) -> bool:
    if day.month not in _numbers(months, 1, 12, _MONTHS):
        return False
    by_date = any(_date_matches(day, term) for term in days.split(","))
    by_weekday = any(_weekday_matches(day, term) for term in weekdays.split(","))
    if days[0] == "*" or weekdays[0] == "*":
        return by_date and by_weekday
    return by_date or by_weekday


def _date_matches(day: date, term: str) -> bool:
    last = calendar.monthrange(day.year, day.month)[1]
    if term == "L":
        return day.day == last
    if term == "LW":
        working = [number for number in range(1, last + 1) if day.replace(day=number).isoweekday() <= 5]
        return day.day == working[-1]
    return day.day in _numbers(term, 1, 31)


def _weekday_matches(day: date, term: str) -> bool:
    sunday_is_0 = day.isoweekday() % 7
    if term.endswith("L"):
        next_week = day + timedelta(days=7)
        return int(term[:-1]) % 7 == sunday_is_0 and next_week.month != day.month
    if "#" in term:
        name, nth = term.split("#")
        return _number(name, _WEEKDAYS, 0) % 7 == sunday_is_0 and (day.day - 1) // 7 + 1 == int(nth)
    return sunday_is_0 in {number % 7 for number in _numbers(term, 0, 7, _WEEKDAYS)}


@lru_cache(maxsize=1000)
def _numbers(text: str, low: int, high: int, names: str = "") -> frozenset[int]:
    """The numbers that a list of values, ranges and steps denotes."""
    found: set[int] = set()
    for term in text.split(","):
        span, _, step = term.partition("/")
        if span == "*":
            start, stop = low, high
        elif "-" in span:
            start, stop = (_number(part, names, low) for part in span.split("-"))
        else:
            start = _number(span, names, low)
            stop = high if step else start
        found.update(range(start, stop + 1, int(step or 1)))
    return frozenset(found)


def _number(text: str, names: str, low: int) -> int:
    return names.split().index(text) + low if text in names.split() else int(text)
