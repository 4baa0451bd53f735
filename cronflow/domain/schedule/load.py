"""Schedule load: the number of fires in each hour of the coming week, and a quieter minute for a cron schedule.

Everything is computed from schedules, before anything fires. The fires of an hour are counted exactly; those of a
schedule that fires more than once a minute are assumed to spread evenly over the hour. The week of a schedule is
cached, because many jobs share one.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache

from cronflow.domain.schedule import zones
from cronflow.domain.schedule.cron_expression import NICKNAMES
from cronflow.domain.schedule.fires import count_between, next_after
from cronflow.domain.schedule.kinds import Cron, Schedule
from cronflow.domain.schedule.timetable import find_timetable
from cronflow.domain.schedule.zone_cache import depends_on_zone_data
from cronflow.domain.schedule.zones import SECOND

HOUR = timedelta(hours=1)
WEEK_HOURS = 7 * 24
MINUTES = 60
WORTH_IT = 1.0
"""A minute with this many fewer fires per week counts as quieter."""


@dataclass(frozen=True, slots=True)
class Busy:
    """The fires of one schedule in one hour of the week, and the minutes that they are in."""

    hour: int
    fires: int
    minutes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Slot:
    """The minute of a cron, how many other fires of the week share it, and the quietest minute with its number of
    fires. `quieter` is None when another minute would not help.
    """

    minute: int
    beside: int
    quieter: int | None
    there: int
    cron: str


@dataclass(slots=True)
class ScheduleLoad:
    """The fires of a week that begins at `first`, a whole hour. With a `target`, also the fires of other jobs by
    minute, in the hours in which the target fires. Mutable: jobs are added one by one.
    """

    first: datetime
    target: Schedule | None = None
    hours: list[int] = field(default_factory=lambda: [0] * WEEK_HOURS)
    jobs: int = 0
    _beside: list[float] = field(default_factory=lambda: [0.0] * MINUTES)
    _asked: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if self.target is not None:
            self._asked = frozenset(busy.hour for busy in week_of(self.target, self.first))

    def add(self, schedule: Schedule, *, is_target: bool = False) -> None:
        """Count the fires of a job. Those of the target itself do not count as others."""
        self.jobs += 1
        for busy in week_of(schedule, self.first):
            self.hours[busy.hour] += busy.fires
            if busy.hour in self._asked and not is_target:
                share = busy.fires / len(busy.minutes)
                for minute in busy.minutes:
                    self._beside[minute] += share

    def slot(self, name: str) -> Slot | None:
        """The slot of the target; None unless it is a cron with one minute. The job's name chooses among several
        quietest minutes, so that not all jobs move to the same one.
        """
        minute = minute_of(self.target)
        if minute is None or not isinstance(self.target, Cron):
            return None
        least = min(self._beside)
        quietest = [one for one, load in enumerate(self._beside) if load - least < WORTH_IT / 2]
        best = quietest[zlib.crc32(name.encode()) % len(quietest)]
        helps = self._beside[minute] - least >= WORTH_IT
        return Slot(
            minute,
            round(self._beside[minute]),
            best if helps else None,
            round(least),
            at_minute(self.target.expr, best) if helps else self.target.expr,
        )


@depends_on_zone_data
@lru_cache(maxsize=4096)
def week_of(schedule: Schedule, first: datetime) -> tuple[Busy, ...]:
    """The hours of the week from `first` in which the schedule fires."""
    by_days = _by_days(schedule, first) if isinstance(schedule, Cron) else None
    return tuple(_by_hours(schedule, first) if by_days is None else by_days)


def minute_of(schedule: Schedule | None) -> int | None:
    """The only minute of the hour at which a cron fires; None for every other schedule."""
    if not isinstance(schedule, Cron):
        return None
    minute = _fields(schedule.expr)[-5]
    return int(minute) if minute.isdigit() else None


def at_minute(expr: str, minute: int) -> str:
    """The same expression at another minute."""
    fields = _fields(expr)
    fields[-5] = str(minute)
    return " ".join(fields)


def _fields(expr: str) -> list[str]:
    return NICKNAMES.get(expr.lower(), expr).split()


def _by_days(cron: Cron, first: datetime) -> Iterable[Busy] | None:
    """Counts a day in one step. None when the zone or the schedule changes within the week, or when the zone's offset
    is not in whole hours.
    """
    last = first + WEEK_HOURS * HOUR - SECOND
    zone = zones.find_zone(cron.tz)
    offset = zones.offset_at(zone, first)
    begins, ends = cron.start is not None and cron.start > first, cron.end is not None and cron.end <= last
    if begins or ends or offset % HOUR or zones.first_change(zone, first, last) is not None:
        return None
    local = first.replace(tzinfo=None) + offset
    expression = find_timetable(cron.expr, cron.tz).expression
    minutes, fires = tuple(expression.minutes), len(expression.minutes) * len(expression.seconds)
    found = ((day + hour * HOUR - local) // HOUR for day in expression.days(local, 8) for hour in expression.hours)
    return [Busy(hour, fires, minutes) for hour in found if 0 <= hour < WEEK_HOURS]


def _by_hours(schedule: Schedule, first: datetime) -> Iterator[Busy]:
    """Counts hour by hour, for any schedule; hours without a fire cost nothing."""
    fire = next_after(schedule, first - SECOND)
    while fire is not None and (hour := (fire - first) // HOUR) < WEEK_HOURS:
        end = first + (hour + 1) * HOUR - SECOND
        count = count_between(schedule, fire, end)
        assert count is not None  # an hour has fewer seconds than the limit
        yield Busy(hour, count, tuple(range(MINUTES)) if count > MINUTES else _minutes(schedule, fire, end))
        fire = next_after(schedule, end)


def _minutes(schedule: Schedule, fire: datetime | None, end: datetime) -> tuple[int, ...]:
    found: list[int] = []
    while fire is not None and fire <= end:
        found.append(fire.minute)
        fire = next_after(schedule, fire)
    return tuple(found)
