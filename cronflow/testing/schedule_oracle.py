"""An independent implementation of when schedules fire, for checking and never for scheduling.

It shares nothing with `domain.schedule` but the values of the schedules. It is written to be obviously correct, and is
fast enough for windows of minutes to days. It does not validate schedules.

The rule for local times: a time that the clocks show once is that instant. A skipped time is the first instant after
the gap, or as much later as the clocks jump, or nothing; a repeated time is its first occurrence, its last, or both. A
cron whose minute or hour field starts with `*` instead checks the clock at every instant: a repeated time fires twice,
and a skipped one does not fire. Fires at one instant are one fire.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from hashlib import blake2b
from zoneinfo import ZoneInfo

from cronflow.domain.schedule.calendar import Calendar, DaySpan, Period, Window
from cronflow.domain.schedule.dst import Dst
from cronflow.domain.schedule.kinds import AnyOf, Cron, Every, Once, Schedule
from cronflow.testing.cron_matcher import CronMatcher

_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)


def fires_between(schedule: Schedule, first: datetime, last: datetime) -> list[datetime]:
    """All fires in [first, last), ascending, without duplicates, in UTC. Both instants need an offset."""
    first, last = first.astimezone(UTC), last.astimezone(UTC)
    if isinstance(schedule, Once) or not schedule.jitter:
        return _undelayed(schedule, first, last)
    # The fires that may be delayed into the window, and those that limit the delay of its last ones.
    bases = _undelayed(schedule, first - schedule.jitter, last + schedule.jitter + _SECOND)
    found = []
    for place, base in enumerate(bases):
        limit = schedule.jitter
        if place + 1 < len(bases):
            limit = min(limit, bases[place + 1] - base - _SECOND)
        if schedule.end is not None:
            limit = min(limit, schedule.end - base - _SECOND)
        choice = _hash(f"{schedule.seed}\0jitter\0{int(base.timestamp())}")
        found.append(base + choice % (int(limit.total_seconds()) + 1) * _SECOND)
    return [fire for fire in found if first <= fire < last]


def is_excluded(schedule: Schedule, fire: datetime) -> bool:
    """Whether its calendars and windows make a fire a skipped one."""
    if isinstance(schedule, Once):
        return False
    book = {calendar.name: calendar for calendar in schedule.book}

    def inside(entry: str | Window) -> bool:
        if not isinstance(entry, str):
            return _in_window(entry, fire, ZoneInfo(schedule.tz))
        zone = ZoneInfo(book[entry].tz or schedule.tz)
        is_holiday = _is_day_of(book[entry], _reading(zone, fire).date())
        return is_holiday or any(_in_window(window, fire, zone) for window in book[entry].windows)

    if any(inside(entry) for entry in (*schedule.calendars, *schedule.blackout)):
        return True
    return bool(schedule.only_in) and not any(inside(entry) for entry in schedule.only_in)


def _undelayed(schedule: Schedule, first: datetime, last: datetime) -> list[datetime]:
    """The fires in [first, last), without jitter."""
    if not isinstance(schedule, Once):
        first = first if schedule.start is None else max(first, schedule.start)
        last = last if schedule.end is None else min(last, schedule.end)
    match schedule:
        case Once(at=at):
            fires = {at}
        case AnyOf(schedules=schedules):
            fires = {fire for one in schedules for fire in fires_between(one, first, last)}
        case Every(time=None):
            fires = set(_multiples(schedule, first, last))
        case Every():
            fires = set(_wall_clock(schedule, first, last))
        case Cron():
            fires = set(_cron(schedule, first, last))
    return sorted(fire for fire in fires if first <= fire < last)


def _cron(cron: Cron, first: datetime, last: datetime) -> Iterator[datetime]:
    zone, matcher = ZoneInfo(cron.tz), CronMatcher(cron.expr, cron.seed)
    for day in _local_days(zone, first, last):
        if not matcher.matches_day(day) or not _is_chosen_business_day(cron, day):
            continue
        for hour in matcher.hours:
            if _misses(zone, datetime.combine(day, time(hour)), timedelta(hours=1), first, last):
                continue
            for minute in matcher.minutes:
                if _misses(zone, datetime.combine(day, time(hour, minute)), timedelta(minutes=1), first, last):
                    continue
                for second in matcher.seconds:
                    local = datetime.combine(day, time(hour, minute, second))
                    if matcher.asks_the_clocks:
                        yield from _occurrences(zone, local)
                    else:
                        yield from _meaning(zone, local, cron.dst)


def _is_chosen_business_day(cron: Cron, day: date) -> bool:
    if not cron.business_day:
        return True
    closing = [calendar for calendar in cron.book if calendar.name in cron.calendars or not cron.calendars]
    month = [day.replace(day=1) + number * _DAY for number in range(31)]
    open_days = [
        one
        for one in month
        if one.month == day.month
        and one.isoweekday() <= 5
        and not any(_is_day_of(calendar, one) for calendar in closing)
    ]
    if day not in open_days:
        return False
    place = open_days.index(day)
    return place + 1 in cron.business_day or place - len(open_days) in cron.business_day


def _is_day_of(calendar: Calendar, day: date) -> bool:
    for entry in calendar.days:
        if isinstance(entry, DaySpan):
            if entry.first <= day <= entry.last:
                return True
        elif (entry.month, entry.day) == (day.month, day.day):
            return True
    return False


def _in_window(window: Window, instant: datetime, zone: ZoneInfo) -> bool:
    local = _reading(zone, instant)
    if isinstance(window, Period):
        if window.start.tzinfo is not None:
            return window.start <= instant < window.end
        begin, end = (_meaning(zone, at, Dst())[0] for at in (window.start, window.end))
        return begin <= instant < end
    clock = local.time()
    today, yesterday = local.isoweekday() in window.weekdays, (local - _DAY).isoweekday() in window.weekdays
    if window.start < window.end:
        return today and window.start <= clock < window.end
    return (today and clock >= window.start) or (yesterday and clock < window.end)


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
            yield from _meaning(zone, datetime.combine(day, clock), every.dst)


def _count_from(every: Every) -> datetime:
    """The Unix epoch was a Thursday. Weeks count from the Monday after it."""
    whole_weeks = every.interval % timedelta(weeks=1) == timedelta(0)
    return datetime(1970, 1, 5 if whole_weeks else 1, tzinfo=UTC)


def _local_days(zone: ZoneInfo, first: datetime, last: datetime) -> Iterator[date]:
    # Two extra days at both ends: a zone may skip a whole day, or go back across midnight.
    day, end = first.astimezone(zone).date() - 2 * _DAY, last.astimezone(zone).date() + 2 * _DAY
    while day <= end:
        yield day
        day += _DAY


def _misses(zone: ZoneInfo, local: datetime, length: timedelta, first: datetime, last: datetime) -> bool:
    """Whether no local time in [local, local + length) can mean an instant of the window, whatever the offset."""
    readings = [_as_utc(zone, at, fold) for at in (local, local + length) for fold in (0, 1)]
    return max(readings) < first or min(readings) >= last


def _reading(zone: ZoneInfo, instant: datetime) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def _occurrences(zone: ZoneInfo, local: datetime) -> list[datetime]:
    """The instants (none, one or two) at which the zone's clocks show this time."""
    candidates = {_as_utc(zone, local, 0), _as_utc(zone, local, 1)}
    return sorted(instant for instant in candidates if _reading(zone, instant) == local)


def _meaning(zone: ZoneInfo, local: datetime, dst: Dst) -> list[datetime]:
    """The instants at which a time of the day fires."""
    if occurrences := _occurrences(zone, local):
        return {"first": occurrences[:1], "last": occurrences[-1:], "both": occurrences}[dst.overlap.value]
    match dst.gap.value:
        case "skip":
            return []
        case "shift":
            # With the offset from before the gap.
            return [_as_utc(zone, local, 0)]
    begun_minute = timedelta(seconds=-local.second % 60)
    return [_end_of_gap(zone, local + begun_minute)]


@lru_cache(maxsize=10_000)
def _end_of_gap(zone: ZoneInfo, local: datetime) -> datetime:
    """The first instant after a gap. `local` is a full minute in or after the gap."""
    while not _occurrences(zone, local):
        local += timedelta(minutes=1)
    while _occurrences(zone, local - _SECOND):
        local -= _SECOND
    return _occurrences(zone, local)[0]


def _as_utc(zone: ZoneInfo, local: datetime, fold: int) -> datetime:
    return local.replace(tzinfo=zone, fold=fold).astimezone(UTC)


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
