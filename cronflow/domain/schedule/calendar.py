"""Calendars: named sets of days and windows of time, which schedules share.

A calendar has whole days (a holiday, a range of days, a day of every year) and windows (from one local time to another,
or the same hours on certain weekdays). A schedule names calendars and holds them, see `exclusions`. A calendar is
a value: its content never changes, and an edit makes a new revision. Its times are local: in its own zone, or in the
zone of the schedule that asks when it has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.schedule import zones
from cronflow.domain.schedule.zones import SECOND

MOST_ENTRIES = 5000
MOST_DAYS = 20_000
"""Of a calendar, each day of a range counted. More than fifty years of days."""
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_DAY = timedelta(days=1)
_LEAP_YEAR = 2000


@dataclass(frozen=True, slots=True)
class DaySpan:
    """Whole days, from `first` to `last`, both included."""

    first: date
    last: date
    name: str = ""

    def __post_init__(self) -> None:
        if self.last < self.first:
            raise InvalidInput(Problem("", f"the days end on {self.last}, before they begin", "swap from and to"))
        if (self.last - self.first).days >= MOST_DAYS:
            what = f"the days from {self.first} to {self.last} are more than {MOST_DAYS:,}"
            raise InvalidInput(Problem("", what, "shorten the range"))


@dataclass(frozen=True, slots=True)
class YearlyDay:
    """The same day of every year. 29 February exists in leap years alone."""

    month: int
    day: int
    name: str = ""

    def __post_init__(self) -> None:
        try:
            date(_LEAP_YEAR, self.month, self.day)
        except ValueError:
            what = f"there is no day {self.day} in month {self.month}"
            raise InvalidInput(Problem("", what, "write MM-DD, such as 12-25")) from None


@dataclass(frozen=True, slots=True)
class Period:
    """From one time to another, the end not included. Times without an offset are local."""

    start: datetime
    end: datetime
    name: str = ""

    def __post_init__(self) -> None:
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
        if not self.weekdays or any(not 1 <= day <= 7 for day in self.weekdays):
            raise InvalidInput(Problem("", "the window has no weekdays", "write days such as mon-fri"))
        object.__setattr__(self, "weekdays", tuple(sorted(set(self.weekdays))))


Window = Period | WeeklyHours


@dataclass(frozen=True, slots=True)
class CalendarSpan:
    """A day or window that contains an instant: what it is called, and the instant at which it ends."""

    name: str
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """The content of a calendar under a name. `tz` None: the zone of each schedule that uses it.

    `rev` counts the changes in a cluster; 0 when it is not from one. Calendars with the same name and content are
    equal. Raises InvalidInput.
    """

    name: str
    description: str = ""
    tz: str | None = None
    days: tuple[DaySpan | YearlyDay, ...] = ()
    windows: tuple[Window, ...] = ()
    rev: int = field(default=0, compare=False)
    _by_date: Mapping[date, str] = field(init=False, repr=False, compare=False)
    _by_year: Mapping[tuple[int, int], str] = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.tz is not None:
            zones.find_zone(self.tz)
        if len(self.days) + len(self.windows) > MOST_ENTRIES:
            what = (
                f"the calendar has {len(self.days) + len(self.windows):,} entries; at most {MOST_ENTRIES:,} are allowed"
            )
            raise InvalidInput(Problem("", what, "split it into several calendars, or leave out past years"))
        by_date: dict[date, str] = {}
        for span in (one for one in self.days if isinstance(one, DaySpan)):
            for number in range((span.last - span.first).days + 1):
                by_date.setdefault(span.first + number * _DAY, span.name)
            if len(by_date) > MOST_DAYS:
                what = f"the calendar has more than {MOST_DAYS:,} days"
                raise InvalidInput(Problem("", what, "leave out past years"))
        yearly = {(one.month, one.day): one.name for one in self.days if isinstance(one, YearlyDay)}
        object.__setattr__(self, "_by_date", by_date)
        object.__setattr__(self, "_by_year", yearly)
        object.__setattr__(self, "_hash", hash((self.name, self.tz, self.days, self.windows)))

    def __hash__(self) -> int:
        return self._hash

    def name_of_day(self, day: date) -> str | None:
        """The name of a day of this calendar, which may be empty; None when the day is not in it."""
        found = self._by_date.get(day)
        return self._by_year.get((day.month, day.day)) if found is None else found

    def span_at(self, instant: datetime, tz: str) -> CalendarSpan | None:
        """The day or window that contains the instant; None when none does. `tz` is the zone of the schedule."""
        zone = zones.find_zone(self.tz or tz)
        local = zones.reading(zone, instant)
        name = self.name_of_day(local.date())
        if name is not None:
            midnight = zones.instant_of(zone, datetime.combine(local.date() + _DAY, time()))
            return CalendarSpan(name, _until(zone, instant, midnight))
        return span_of(self.windows, instant, self.tz or tz)

    def next_begin(self, instant: datetime, tz: str) -> datetime:
        """An instant later than this one, and not later than the next begin of a day or window of the calendar."""
        zone = zones.find_zone(self.tz or tz)
        midnight = zones.instant_of(zone, datetime.combine(zones.reading(zone, instant).date() + _DAY, time()))
        return begin_after(self.windows, instant, self.tz or tz, _until(zone, instant, midnight))


def span_of(windows: Sequence[Window], instant: datetime, tz: str) -> CalendarSpan | None:
    """The window that contains the instant, and the end of that window; None when none does."""
    zone = zones.find_zone(tz)
    local = zones.reading(zone, instant)
    for window in windows:
        if isinstance(window, Period):
            start, end = _instant(window.start, tz), _instant(window.end, tz)
            if start <= instant < end:
                return CalendarSpan(window.name, end)
            continue
        for day in (local.date(), local.date() - _DAY):
            if day.isoweekday() not in window.weekdays:
                continue
            begin, finish = _hours(window, day)
            if begin <= local < finish:
                return CalendarSpan(window.name, _until(zone, instant, zones.instant_of(zone, finish)))
    return None


def begin_after(windows: Sequence[Window], instant: datetime, tz: str, latest: datetime) -> datetime:
    """The first begin of a window after the instant, or `latest` if that is earlier, or a clock change before both.

    `latest` is after the instant and within two days.
    """
    zone = zones.find_zone(tz)
    found = [_until(zone, instant, latest)]
    for window in windows:
        if isinstance(window, Period):
            found.append(_instant(window.start, tz))
            continue
        today = zones.reading(zone, instant).date()
        begins = [datetime.combine(today + n * _DAY, window.start) for n in range(3)]
        # Hours that the clocks show twice begin twice.
        found += [local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for local in begins for fold in (0, 1)]
    return min(begin for begin in found if begin > instant)


def _until(zone: ZoneInfo, instant: datetime, end: datetime) -> datetime:
    """`end`, or the first clock change after the instant: beyond it, other local times may follow than the next ones.

    An end that is not after the instant, because clocks went back, becomes the next second.
    """
    end = max(end, instant + SECOND)
    change = zones.first_change(zone, instant, end)
    return end if change is None else change.at


def _hours(window: WeeklyHours, day: date) -> tuple[datetime, datetime]:
    begin = datetime.combine(day, window.start)
    return begin, datetime.combine(day if window.end > window.start else day + _DAY, window.end)


def _instant(at: datetime, tz: str) -> datetime:
    return zones.instant_of(zones.find_zone(tz), at) if at.tzinfo is None else at.astimezone(UTC)
