"""Schedule load: the starts in each minute of the coming seven days, by job, and a quieter minute for a cron schedule.

Everything is computed from schedules, before anything starts. The starts of a minute are counted exactly, for every
kind of schedule: plain cron expressions and intervals in one step, any other start by start, without those that a
calendar or window excludes. That is bounded for each schedule, and by `MOST_STEPS` for all of them. A schedule that
starts more often than every five minutes is `frequent`: it shares a minute with other jobs wherever they are moved to,
so it can be left out.

The week of a schedule is cached, because many jobs share one. A `ScheduleLoad` keeps counts and a few names per minute,
and no jobs.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import TypeGuard

from cronflow.domain.schedule import zones
from cronflow.domain.schedule.cron_expression import NICKNAMES, Expression
from cronflow.domain.schedule.dst import DEFAULT_DST
from cronflow.domain.schedule.exclusions import allowed_until, next_allowed
from cronflow.domain.schedule.fires import count_between, is_dynamic
from cronflow.domain.schedule.kinds import AnyOf, Cron, Every, Schedule
from cronflow.domain.schedule.timetable import find_timetable
from cronflow.domain.schedule.zone_cache import depends_on_zone_data
from cronflow.domain.schedule.zones import SECOND

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
MINUTES = 60
WEEK_HOURS = 7 * 24
WEEK_MINUTES = WEEK_HOURS * MINUTES
FREQUENT = 12
"""Starts per hour: a schedule with more, on average over the hours in which it starts, is frequent."""
NAMED = 10
"""Jobs that are named per minute; the others are counted."""
MOST_STEPS = 300_000
"""Starts that are found one by one for a load. Jobs that need more are not counted."""
WORTH_IT = 1
"""A minute with this many fewer starts per week counts as quieter."""
_MOST_GROUPS = 1000
_AROUND = timedelta(hours=26)
"""No change of an offset has an effect for longer."""
# Jitter may move one start of a schedule of every five minutes into the week.
_MOST_SELDOM = FREQUENT * WEEK_HOURS + 1
_MOST_OF_ANY = 2 * WEEK_MINUTES
# `tz` is the zone of calendars alone where it is not that of the expression. The others have no effect, or are read.
_PLAIN = frozenset({"expr", "tz", "start", "end", "seed", "interval", "anchor", "time"})


@dataclass(frozen=True, slots=True)
class Block:
    """The schedule has this many starts in each of these minutes of each of these hours of the week."""

    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    starts: int = 1


@dataclass(frozen=True, slots=True)
class ScheduleWeek:
    """The starts of a schedule in a week. `steps` is what it took to find them. `unknown`: they depend on when runs
    end, or are too many to find.
    """

    blocks: tuple[Block, ...]
    frequent: bool = False
    steps: int = 0
    unknown: bool = False

    @property
    def starts(self) -> int:
        return sum(len(block.hours) * len(block.minutes) * block.starts for block in self.blocks)

    def minutes(self) -> Iterator[tuple[int, int]]:
        """The minutes of the week with their starts; a minute may come more than once."""
        for block in self.blocks:
            for hour in block.hours:
                for minute in block.minutes:
                    yield hour * MINUTES + minute, block.starts


@dataclass(frozen=True, slots=True)
class Slot:
    """The minute of a cron, how many other starts of the week share it, and the quietest minute with its number of
    starts. `quieter` is None when another minute would not help.
    """

    minute: int
    beside: int
    quieter: int | None
    there: int
    cron: str


@dataclass(slots=True)
class _HourGroup:
    """The starts, jobs and first names by minute of the hour, of the jobs that start in the same hours."""

    starts: list[int] = field(default_factory=lambda: [0] * MINUTES)
    jobs: list[int] = field(default_factory=lambda: [0] * MINUTES)
    names: list[list[str]] = field(default_factory=lambda: [[] for _ in range(MINUTES)])


@dataclass(slots=True)
class ScheduleLoad:
    """The starts of the jobs that are added, in a week that begins at `first`, a whole hour. Without `frequent`,
    frequent schedules only count as `left_out`. Jobs whose starts are unknown, or would take too many steps, are
    `uncounted`.
    """

    first: datetime
    frequent: bool = False
    jobs: int = 0
    left_out: int = 0
    uncounted: int = 0
    _steps: int = 0
    _known: set[int] = field(default_factory=set)
    _groups: dict[tuple[int, ...], _HourGroup] = field(default_factory=dict)
    _starts: list[int] = field(default_factory=lambda: [0] * WEEK_MINUTES)
    _jobs: list[int] = field(default_factory=lambda: [0] * WEEK_MINUTES)
    _names: dict[int, list[str]] = field(default_factory=dict)

    def add(self, name: str, schedule: Schedule) -> bool:
        """Count the starts of a job; jobs are added by name. Returns whether it took many steps, so that other tasks
        should run before the next one.
        """
        new = not is_plain(schedule, self.first) and hash(schedule) not in self._known
        if new and self._steps > MOST_STEPS:
            self.uncounted += 1
            return False
        week = week_of(schedule, self.first, self.frequent)
        steps = week.steps if new else 0
        if new:
            self._known.add(hash(schedule))
            self._steps += steps
        if week.frequent and not self.frequent:
            self.left_out += 1
            return steps > FREQUENT
        if week.unknown:
            self.uncounted += 1
            return steps > FREQUENT
        self.jobs += 1
        for block in week.blocks:
            group = self._groups.get(block.hours)
            if group is None:
                if len(self._groups) >= _MOST_GROUPS:
                    self._flush()
                group = self._groups[block.hours] = _HourGroup()
            for minute in block.minutes:
                group.starts[minute] += block.starts
                group.jobs[minute] += 1
                if len(group.names[minute]) < NAMED:
                    group.names[minute].append(name)
        return steps > FREQUENT

    def minutes(self) -> Sequence[int]:
        """The starts in each minute of the week."""
        self._flush()
        return self._starts

    def jobs_at(self, minute: int) -> tuple[int, Sequence[str]]:
        """The number of jobs that start in this minute of the week, and the names of the first ones."""
        self._flush()
        return self._jobs[minute], self._names.get(minute, ())

    def busiest(self, count: int) -> list[int]:
        """The busiest minutes of the week, the busiest first, then the earliest."""
        starts = self.minutes()
        return sorted(
            (minute for minute in range(WEEK_MINUTES) if starts[minute]), key=lambda one: (-starts[one], one)
        )[:count]

    def slot(self, name: str, schedule: Schedule | None, *, counted: bool) -> Slot | None:
        """The slot of a schedule; None unless it is a cron with one minute. `counted`: it is among the jobs that were
        added. The name chooses among several quietest minutes, so that not all jobs move to the same one.
        """
        minute = minute_of(schedule)
        if minute is None or not isinstance(schedule, Cron):
            return None
        week = week_of(schedule, self.first, self.frequent)
        own = Counter[int]()
        for at, starts in week.minutes():
            own[at] += starts
        load = self.minutes()
        removed: Mapping[int, int] = own if counted and not (week.frequent and not self.frequent) else {}
        sums = [
            sum(load[at + shift] - removed.get(at + shift, 0) for at in own if 0 <= at + shift < WEEK_MINUTES)
            for shift in range(-minute, MINUTES - minute)
        ]
        least = min(sums)
        best = chosen([one for one, total in enumerate(sums) if total == least], name)
        helps = sums[minute] - least >= WORTH_IT
        cron = at_minute(schedule.expr, best) if helps else schedule.expr
        return Slot(minute, sums[minute], best if helps else None, least, cron)

    def _flush(self) -> None:
        """Add the groups to the minutes of the week."""
        for hours, group in self._groups.items():
            for minute in range(MINUTES):
                if not group.jobs[minute]:
                    continue
                starts, jobs, names = group.starts[minute], group.jobs[minute], group.names[minute]
                for hour in hours:
                    at = hour * MINUTES + minute
                    self._starts[at] += starts
                    self._jobs[at] += jobs
                    present = self._names.get(at)
                    # Shared until another group has starts in this minute.
                    self._names[at] = names if present is None else sorted({*present, *names})[:NAMED]
        self._groups.clear()


def levels(values: Iterable[int]) -> list[int]:
    """The quartiles and the 95th percentile of the values that are not 0: a value above none of these is at level 1, a
    value above all of them at level 5. Empty without such values.
    """
    ordered = sorted(value for value in values if value)
    return [ordered[(len(ordered) - 1) * share // 100] for share in (25, 50, 75, 95)] if ordered else []


def level_of(value: int, limits: Sequence[int]) -> int:
    """The level of a value, 0 for 0."""
    return 0 if value == 0 else 1 + sum(value > limit for limit in limits)


def chosen(minutes: Sequence[int], name: str) -> int:
    """One of several minutes, the same one whenever this name is asked about."""
    return minutes[zlib.crc32(name.encode()) % len(minutes)]


@depends_on_zone_data
@lru_cache(maxsize=4096)
def week_of(schedule: Schedule, first: datetime, frequent: bool = True) -> ScheduleWeek:
    """The starts of a schedule in the week from `first`. Those of a frequent one are only found if `frequent`."""
    if is_dynamic(schedule):
        return ScheduleWeek((), unknown=True)
    if not is_plain(schedule, first):
        return _by_steps(schedule, first, frequent)
    return _by_days(schedule, first) if isinstance(schedule, Cron) else _by_interval(schedule, first)


def is_plain(schedule: Schedule, first: datetime) -> TypeGuard[Cron | Every]:
    """Whether it is a cron expression or an interval without anything that adds, moves or removes starts in the week
    from `first`.
    """
    if not isinstance(schedule, Cron) and not (isinstance(schedule, Every) and schedule.time is None):
        return False
    if schedule.start is not None and schedule.start > first:
        return False
    if schedule.end is not None and schedule.end < first + WEEK_HOURS * HOUR:
        return False
    values = (getattr(schedule, one.name) for one in fields(schedule) if one.name not in _PLAIN)
    return all(not value or value == DEFAULT_DST for value in values)


def minute_of(schedule: Schedule | None) -> int | None:
    """The only minute of the hour at which a cron fires; None for every other schedule."""
    if not isinstance(schedule, Cron):
        return None
    minute = minute_field(schedule.expr)
    return int(minute) if minute.isdigit() else None


def minute_field(expr: str) -> str:
    """The text of the minute field."""
    return _fields(expr)[-5]


def at_minute(expr: str, minute: int | str) -> str:
    """The same expression at another minute."""
    words = _fields(expr)
    words[-5] = str(minute)
    return " ".join(words)


def _fields(expr: str) -> list[str]:
    return NICKNAMES.get(expr.lower(), expr).split()


# ------------------------------------------------------------------------------------------------- by days and hours


def _by_days(cron: Cron, first: datetime) -> ScheduleWeek:
    """Counts all days in one step, except for the hours around a change of the zone's offset."""
    end = first + WEEK_HOURS * HOUR
    zone = zones.find_zone(cron.tz)
    expression = find_timetable(cron.plain, cron.tz).expression
    starts = len(expression.seconds)
    blocks: list[Block] = []
    at, seen = first, first - _AROUND
    while at < end:
        change = zones.first_change(zone, seen, end + _AROUND)
        if change is None:
            blocks += _constant(expression, zones.offset_at(zone, at), first, at, end)
            break
        seen = change.at
        around = abs(change.after - change.before) + HOUR
        begin = min(end, max(at, first + (change.at - around - first) // HOUR * HOUR))
        until = min(end, max(at, first - (first - change.at - around) // HOUR * HOUR))
        if at < begin:
            blocks += _constant(expression, zones.offset_at(zone, at), first, at, begin)
        if begin < until:
            blocks += _blocks(_counted(cron, first, begin, until - SECOND))
        at = until
    return ScheduleWeek(tuple(blocks), len(expression.minutes) * starts > FREQUENT)


def _constant(
    expression: Expression, offset: timedelta, first: datetime, begin: datetime, end: datetime
) -> Iterator[Block]:
    """The starts from `begin` to `end`, whole hours between which the zone has this offset."""
    local = first.replace(tzinfo=None) + offset
    since_midnight = local.hour * MINUTES + local.minute
    days = None if expression.every_day else tuple((day - local) // MINUTE for day in expression.days(local, 8))
    # The hours of a zone whose offset has half an hour are parts of two hours of UTC.
    rest = -since_midnight % MINUTES
    sums = [minute + rest for minute in expression.minutes]
    bounds = (begin - first) // HOUR, (end - first) // HOUR
    for later, minutes in enumerate(
        (tuple(one for one in sums if one < MINUTES), tuple(one - MINUTES for one in sums if one >= MINUTES))
    ):
        if minutes and (hours := _hours_of(tuple(expression.hours), days, since_midnight, later, *bounds)):
            yield Block(hours, minutes, len(expression.seconds))


@lru_cache(maxsize=4096)
def _hours_of(
    hours: tuple[int, ...], days: tuple[int, ...] | None, since_midnight: int, later: int, begin: int, end: int
) -> tuple[int, ...]:
    """The hours of the week, from `begin` to `end`, with these hours of these days; `days` are minutes from the begin
    of the week to a midnight, and None for every day.
    """
    midnights = (day * 24 * MINUTES - since_midnight for day in range(8)) if days is None else days
    found = ((midnight + hour * MINUTES) // MINUTES + later for midnight in midnights for hour in hours)
    return tuple(hour for hour in found if begin <= hour < end)


# ------------------------------------------------------------------------------------------------- by arithmetic


def _by_interval(every: Every, first: datetime) -> ScheduleWeek:
    """Counts by division."""
    step = every.interval // SECOND
    begin = (every.origin - first) // SECOND % step
    frequent = every.interval < HOUR / FREQUENT
    if every.interval >= MINUTE:
        return ScheduleWeek(_blocks(Counter(at // 60 for at in range(begin, 60 * WEEK_MINUTES, step))), frequent)
    until = [(60 * minute - begin + step - 1) // step for minute in range(WEEK_MINUTES + 1)]
    starts = {minute: max(0, until[minute + 1]) - max(0, until[minute]) for minute in range(WEEK_MINUTES)}
    return ScheduleWeek(_blocks(starts), frequent)


# ---------------------------------------------------------------------------------------------------------- by steps


def _by_steps(schedule: Schedule, first: datetime, frequent: bool) -> ScheduleWeek:
    """For any schedule whose starts do not depend on its runs. Takes a bounded number of steps."""
    last = first + WEEK_HOURS * HOUR - SECOND
    each = len(schedule.schedules) if isinstance(schedule, AnyOf) else 1
    found = list(islice(_starts(schedule, first, last), _MOST_SELDOM + 1))
    if len(found) <= _MOST_SELDOM:
        starts = Counter((start - first) // MINUTE for start in found)
        is_frequent = len(found) > FREQUENT * len({minute // MINUTES for minute in starts}) + 1
        return ScheduleWeek(_blocks(starts), is_frequent, each * (len(found) + 1))
    if not frequent:
        return ScheduleWeek((), True, each * len(found))
    if not isinstance(schedule, AnyOf):
        return ScheduleWeek(_blocks(_counted(schedule, first, first, last)), True, WEEK_MINUTES)
    # What its schedules share can only be counted start by start.
    most = max(_MOST_SELDOM, _MOST_OF_ANY // each)
    found = list(islice(_starts(schedule, first, last), most + 1))
    if len(found) > most:
        return ScheduleWeek((), True, each * len(found), unknown=True)
    starts = Counter((start - first) // MINUTE for start in found)
    return ScheduleWeek(_blocks(starts), True, each * len(found))


def _starts(schedule: Schedule, first: datetime, last: datetime) -> Iterator[datetime]:
    start = next_allowed(schedule, first - SECOND)
    while start is not None and start <= last:
        yield start
        start = next_allowed(schedule, start)


def _counted(schedule: Schedule, first: datetime, begin: datetime, last: datetime) -> Counter[int]:
    """The starts from `begin` to `last`, by minute of the week from `first`, in a step for each minute and window."""
    found = Counter[int]()
    start = next_allowed(schedule, begin - SECOND)
    while start is not None and start <= last:
        minute = (start - first) // MINUTE
        end = min(last, first + (minute + 1) * MINUTE - SECOND, allowed_until(schedule, start) - SECOND)
        found[minute] += count_between(schedule, start, end) or 0
        start = next_allowed(schedule, end)
    return found


def _blocks(starts: Mapping[int, int]) -> tuple[Block, ...]:
    by_hour: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for at in sorted(starts):
        by_hour[at // MINUTES, starts[at]].append(at % MINUTES)
    hours: defaultdict[tuple[tuple[int, ...], int], list[int]] = defaultdict(list)
    for (hour, count), minutes in by_hour.items():
        hours[tuple(minutes), count].append(hour)
    return tuple(Block(tuple(where), minutes, count) for (minutes, count), where in hours.items())
