"""Windows of time: from one time to another, or the same hours on certain weekdays.

Calendars have windows, and so have schedules of their own. `WindowSet` finds the window that contains an instant, and
where the next one begins; its cost hardly depends on how many windows there are. Local times are read in the zone that
the caller gives.

Where the clocks change, local times are no simple function of instants any more. So no answer reaches beyond such
a change: an end or a begin that would be later is the change itself, and the caller asks again from there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.schedule import zones

MOST_WEEKLY = 500
LONGEST_NAME = 200

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Period:
    """From one time to another, the end not included. Times without an offset are local."""

    start: datetime
    end: datetime
    name: str = ""

    def __post_init__(self) -> None:
        check_label(self.name)
        if (self.start.tzinfo is None) != (self.end.tzinfo is None):
            what = "one end of the window has an offset from UTC, and the other has none"
            raise InvalidInput(Problem("", what, "write both with an offset, or both as local times"))
        if self.end <= self.start:
            raise InvalidInput(Problem("", "the window does not end after its start", "the end must be later"))


@dataclass(frozen=True, slots=True)
class WeeklyHours:
    """The same hours on certain weekdays (1 for Monday to 7), `end` not included. They pass midnight when `end` is not
    after `start`, and then belong to the day on which they begin; equal times are a whole day.
    """

    weekdays: tuple[int, ...]
    start: time
    end: time
    name: str = ""

    def __post_init__(self) -> None:
        check_label(self.name)
        if not self.weekdays or any(not 1 <= day <= 7 for day in self.weekdays):
            raise InvalidInput(Problem("", "the window has no weekdays", "write days such as mon-fri"))
        object.__setattr__(self, "weekdays", tuple(sorted(set(self.weekdays))))


Window = Period | WeeklyHours


@dataclass(frozen=True, slots=True)
class CalendarSpan:
    """A day or window that contains an instant: what it is called, and an instant up to which it lasts at least."""

    name: str
    end: datetime


class WindowSet:
    """Windows to search in. It never changes. Raises InvalidInput when there are too many weekly ones."""

    def __init__(self, windows: Sequence[Window]) -> None:
        self._hours = [window for window in windows if isinstance(window, WeeklyHours)]
        self._periods = [window for window in windows if isinstance(window, Period)]
        self._by_zone: dict[str, _Periods] = {}
        if len(self._hours) > MOST_WEEKLY:
            what = f"there are {len(self._hours)} windows with weekdays; at most {MOST_WEEKLY} are allowed"
            raise InvalidInput(Problem("", what, "write each once, with all its weekdays"))

    def span_at(self, instant: datetime, tz: str) -> CalendarSpan | None:
        """The window that contains the instant; None when none does."""
        if self._periods and (period := self._in(tz).at(instant)) is not None:
            return period
        if not self._hours:
            return None
        zone = zones.find_zone(tz)
        local = zones.reading(zone, instant)
        for day in (local.date(), local.date() - _DAY):
            for window in self._hours:
                if day.isoweekday() in window.weekdays:
                    begin, end = _hours_of(window, day)
                    if begin <= local < end:
                        return CalendarSpan(window.name, reach(zone, instant, local, end))
        return None

    def next_begin(self, instant: datetime, tz: str) -> datetime | None:
        """An instant later than this one and not later than the begin of the next window; None when none follows.
        No window may contain the instant.
        """
        begins = [] if not self._periods or (begin := self._in(tz).after(instant)) is None else [begin]
        if self._hours:
            zone = zones.find_zone(tz)
            local = zones.reading(zone, instant)
            begins.append(reach(zone, instant, local, min(_next_start(window, local) for window in self._hours)))
        return min(begins, default=None)

    def between(self, first: datetime, last: datetime, tz: str) -> list[Period]:
        """The periods that overlap [first, last), as instants and ordered by their start."""
        return self._in(tz).between(first, last) if self._periods else []

    @property
    def weekly(self) -> Sequence[WeeklyHours]:
        """The windows with weekdays."""
        return self._hours

    def _in(self, tz: str) -> _Periods:
        zone, found = zones.find_zone(tz), self._by_zone.get(tz)
        # The zone is another one after its data have changed.
        if found is None or found.zone is not zone:
            found = self._by_zone[tz] = _Periods(self._periods, zone)
        return found


class _Periods:
    """Periods in one zone, ordered by their start. `_last[n]` is the one that ends last of the first n + 1."""

    def __init__(self, periods: Sequence[Period], zone: ZoneInfo) -> None:
        self.zone = zone
        spans = [
            Period(start, end, one.name) for one in periods for start, end in [_instants(one, zone)] if start < end
        ]
        self._spans = sorted(spans, key=lambda span: span.start)
        self._starts = [span.start for span in self._spans]
        self._last: list[Period] = []
        for span in self._spans:
            before = self._last[-1] if self._last else span
            self._last.append(span if span.end > before.end else before)

    def at(self, instant: datetime) -> CalendarSpan | None:
        place = bisect_right(self._starts, instant) - 1
        if place < 0 or self._last[place].end <= instant:
            return None
        return CalendarSpan(self._last[place].name, self._last[place].end)

    def after(self, instant: datetime) -> datetime | None:
        place = bisect_right(self._starts, instant)
        return self._starts[place] if place < len(self._starts) else None

    def between(self, first: datetime, last: datetime) -> list[Period]:
        return [span for span in self._spans if span.start < last and span.end > first]


@lru_cache(maxsize=4096)
def window_set(windows: tuple[Window, ...]) -> WindowSet:
    """The set of a schedule's own windows."""
    return WindowSet(windows)


def reach(zone: ZoneInfo, instant: datetime, local: datetime, target: datetime) -> datetime:
    """When the clocks of the zone, which show `local` at the instant, show a later time; or when they change, if that
    is earlier.
    """
    at = instant + (target - local)
    change = zones.first_change(zone, instant, at)
    return at if change is None else change.at


def check_label(name: str) -> None:
    """Raises InvalidInput for the name of a day or window that is too long to be part of a message."""
    if len(name) > LONGEST_NAME:
        what = f"the name {name[:40]!r}… has {len(name)} characters; at most {LONGEST_NAME} are allowed"
        raise InvalidInput(Problem("", what, "shorten it"))


def _hours_of(window: WeeklyHours, day: date) -> tuple[datetime, datetime]:
    begin = datetime.combine(day, window.start)
    return begin, datetime.combine(day if window.end > window.start else day + _DAY, window.end)


def _next_start(window: WeeklyHours, local: datetime) -> datetime:
    starts = (datetime.combine(local.date() + n * _DAY, window.start) for n in range(8))
    return next(start for start in starts if start > local and start.isoweekday() in window.weekdays)


def _instants(period: Period, zone: ZoneInfo) -> tuple[datetime, datetime]:
    return _instant(period.start, zone), _instant(period.end, zone)


def _instant(at: datetime, zone: ZoneInfo) -> datetime:
    return zones.instant_of(zone, at) if at.tzinfo is None else at.astimezone(UTC)
