"""The fires of a schedule: UTC-aware instants of whole seconds, in ascending order.

The same schedule has the same fires on every node and in every call; nothing here reads a clock. Each function is
bounded: its cost does not depend on how many fires it passes over. A repeating schedule fires from its `start`
(inclusive) to its `end` (exclusive), with jitter included; excluded fires (`exclusions`) are fires all the same.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from datetime import time as clock_time
from functools import lru_cache

from cronflow.domain.schedule import zones
from cronflow.domain.schedule.calendar import Calendar
from cronflow.domain.schedule.dst import Dst
from cronflow.domain.schedule.hashed import jitter_share
from cronflow.domain.schedule.kinds import AnyOf, Cron, Every, Once, Repeating, Schedule, find_calendar, utc_instant
from cronflow.domain.schedule.local_times import BusinessDayTimes, EveryFewDays
from cronflow.domain.schedule.timetable import Timetable, find_timetable, next_fire
from cronflow.domain.schedule.zone_cache import depends_on_zone_data
from cronflow.domain.schedule.zones import EARLIEST, LATEST, SECOND

MOST_COUNTED = 10_000
MOST_COUNTED_OF_ANY = 2_000
"""Fires that several schedules may share are counted one by one."""
_DAY = timedelta(days=1)


def next_after(schedule: Schedule, after: datetime) -> datetime | None:
    """The first fire strictly after an instant, None when nothing follows.

    Repeating schedules have no fire before the year 1900 and none from the year 3000 on. For a schedule with
    `after_completion` it is the earliest instant that can follow. Raises InvalidInput for a naive datetime.
    """
    after = utc_instant(after, "after").replace(microsecond=0)
    if isinstance(schedule, Once):
        return schedule.at if schedule.at > after else None
    if not schedule.jitter:
        return _base_after(schedule, after)
    before = _base_before(schedule, after, after - schedule.jitter)
    if before is not None and (delayed := _delayed(schedule, before)) > after:
        return delayed
    base = _base_after(schedule, after)
    return None if base is None else _delayed(schedule, base)


def last_before(schedule: Schedule, instant: datetime, *, not_before: datetime) -> datetime | None:
    """The last fire in [not_before, instant], at the same cost however many fires are between the two.

    Raises InvalidInput for a naive datetime.
    """
    instant = utc_instant(instant, "instant").replace(microsecond=0)
    not_before = utc_instant(not_before, "not_before")
    if isinstance(schedule, Once):
        return schedule.at if not_before <= schedule.at <= instant else None
    if not schedule.jitter:
        return _base_before(schedule, instant, not_before)
    earliest = max(not_before, EARLIEST) - schedule.jitter
    base = _base_before(schedule, instant, earliest)
    if base is not None and _delayed(schedule, base) > instant:
        base = _base_before(schedule, base - SECOND, earliest)
    fire = None if base is None else _delayed(schedule, base)
    return fire if fire is not None and fire >= not_before else None


def count_between(schedule: Schedule, first: datetime, last: datetime, limit: int = MOST_COUNTED) -> int | None:
    """The number of fires in [first, last], None when there are more than `limit`, or of several schedules more than
    MOST_COUNTED_OF_ANY.

    Raises InvalidInput for a naive datetime.
    """
    first = _whole_second_from(utc_instant(first, "first"))
    last = utc_instant(last, "last").replace(microsecond=0)
    if isinstance(schedule, Once):
        return _within(int(first <= schedule.at <= last), limit)
    if first > last:
        return _within(0, limit)
    count = _count_base(schedule, first, last, limit + 1)
    if count is None or not schedule.jitter:
        return None if count is None else _within(count, limit)
    # Jitter moves a fire over either end of the range.
    earlier = _base_before(schedule, first - SECOND, first - schedule.jitter)
    if earlier is not None and first <= _delayed(schedule, earlier) <= last:
        count += 1
    latest_base = _base_before(schedule, last, first)
    if latest_base is not None and _delayed(schedule, latest_base) > last:
        count -= 1
    return _within(count, limit)


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


def is_dynamic(schedule: Schedule | None) -> bool:
    """Whether the fires depend on when runs end."""
    return isinstance(schedule, Every) and schedule.after_completion


def timetable_of(schedule: Cron | Every) -> Timetable:
    """The timetable of a cron, or of an interval with a time of day. Raises InvalidInput when it needs calendars and
    has none.
    """
    if isinstance(schedule, Every):
        return _daily_timetable(schedule)
    if not schedule.business_day:
        return find_timetable(schedule.plain, schedule.tz, schedule.dst)
    # A part of `any` names no calendars; its book has those of the whole.
    names = schedule.calendars if schedule.calendar_names else [calendar.name for calendar in schedule.book]
    calendars = tuple(find_calendar(schedule, name) for name in names)
    return _business_day_timetable(schedule.plain, schedule.tz, schedule.dst, schedule.business_day, calendars)


# ------------------------------------------------------------------------------------------------- without jitter


def _base_after(schedule: Repeating, after: datetime) -> datetime | None:
    """The first fire strictly after a whole second, without jitter."""
    first, end = _bounds(schedule)
    if after < first and is_dynamic(schedule) and schedule.start is not None:
        return first
    after = max(after, first - SECOND)
    if after >= end:
        return None
    if isinstance(schedule, Cron):
        fire = next_fire(timetable_of(schedule), after)
    elif isinstance(schedule, AnyOf):
        fires = [fire for one in schedule.schedules if (fire := next_after(one, after)) is not None]
        fire = min(fires, default=None)
    elif schedule.after_completion:
        fire = after + schedule.interval
    elif schedule.time is None:
        fire = _multiple_at_or_before(schedule, after) + schedule.interval
    else:
        fire = next_fire(timetable_of(schedule), after)
    return fire if fire is not None and fire < end else None


def _base_before(schedule: Repeating, instant: datetime, not_before: datetime) -> datetime | None:
    """The last fire in [not_before, instant], without jitter."""
    first, end = _bounds(schedule)
    instant, not_before = min(instant, end - SECOND), max(not_before, first)
    if instant < not_before:
        return None
    if isinstance(schedule, Cron):
        return timetable_of(schedule).before(instant, not_before)
    if isinstance(schedule, AnyOf):
        fires = [last_before(one, instant, not_before=not_before) for one in schedule.schedules]
        return max((fire for fire in fires if fire is not None), default=None)
    if schedule.after_completion:
        # Only one fire is open at a time: the cursor itself.
        return _whole_second_from(not_before)
    if schedule.time is not None:
        return timetable_of(schedule).before(instant, not_before)
    fire = _multiple_at_or_before(schedule, instant)
    return fire if fire >= not_before else None


def _count_base(schedule: Repeating, first: datetime, last: datetime, limit: int) -> int | None:
    opening, end = _bounds(schedule)
    first, last = max(first, opening), min(last, end - SECOND)
    if first > last:
        return 0
    if isinstance(schedule, Cron):
        return timetable_of(schedule).count(first, last, limit)
    if isinstance(schedule, AnyOf):
        return _count_any(schedule, first, last, min(limit, MOST_COUNTED_OF_ANY))
    if schedule.after_completion:
        return 1
    if schedule.time is not None:
        return timetable_of(schedule).count(first, last, limit)
    span = _multiple_at_or_before(schedule, last) - _multiple_at_or_before(schedule, first - SECOND)
    return _within(span // schedule.interval, limit)


def _count_any(schedule: AnyOf, first: datetime, last: datetime, limit: int) -> int | None:
    """Counts each schedule first, so that what is counted one by one is bounded."""
    if len(schedule.schedules) == 1:
        return count_between(schedule.schedules[0], first, last, limit)
    found: set[datetime] = set()
    for one in schedule.schedules:
        if count_between(one, first, last, limit) is None:
            return None
        fire = next_after(one, first - SECOND)
        while fire is not None and fire <= last:
            found.add(fire)
            fire = next_after(one, fire)
    return _within(len(found), limit)


def _delayed(schedule: Repeating, base: datetime) -> datetime:
    """The fire of an instant: later by jitter, but before the next instant and before the end."""
    limit = schedule.jitter
    following = _base_after(schedule, base)
    if following is not None:
        limit = min(limit, following - base - SECOND)
    if schedule.end is not None:
        limit = min(limit, schedule.end - base - SECOND)
    share = jitter_share(schedule.seed, int(base.timestamp()), int(limit.total_seconds()))
    return base + timedelta(seconds=share)


def _multiple_at_or_before(every: Every, instant: datetime) -> datetime:
    origin = every.origin
    return origin + (instant - origin) // every.interval * every.interval


def _daily_timetable(every: Every) -> Timetable:
    assert every.time is not None
    origin = every.origin if every.anchor is None else zones.reading(zones.find_zone(every.tz), every.anchor)
    times = EveryFewDays(origin.date(), every.interval // _DAY, clock_time.fromisoformat(every.time))
    return _timetable(times, every.tz, every.dst)


@depends_on_zone_data
@lru_cache(maxsize=4096)
def _timetable(times: EveryFewDays, tz: str, dst: Dst) -> Timetable:
    return Timetable(times, zones.find_zone(tz), dst)


@depends_on_zone_data
@lru_cache(maxsize=1024)
def _business_day_timetable(
    expr: str, tz: str, dst: Dst, places: tuple[int, ...], calendars: tuple[Calendar, ...]
) -> Timetable:
    plain = find_timetable(expr, tz, dst)
    times = BusinessDayTimes(
        plain.expression, places, lambda day: any(one.name_of_day(day) is not None for one in calendars)
    )
    return Timetable(times, plain.zone, dst)


def _bounds(schedule: Repeating) -> tuple[datetime, datetime]:
    first = EARLIEST if schedule.start is None else max(schedule.start, EARLIEST)
    return first, LATEST if schedule.end is None else min(schedule.end, LATEST)


def _whole_second_from(instant: datetime) -> datetime:
    return instant.replace(microsecond=0) + SECOND if instant.microsecond else instant


def _within(total: int, limit: int) -> int | None:
    return total if total <= limit else None
