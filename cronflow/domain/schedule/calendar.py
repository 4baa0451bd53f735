"""Calendars: named sets of days and windows of time, which schedules share.

A calendar has whole days (a holiday, a range of days, a day of every year) and windows (from one local time to another,
or the same hours on certain weekdays). A schedule names calendars and holds them, see `exclusions`. A calendar is
a value: its content never changes, and an edit makes a new revision. Its times are local: in its own zone, or in the
zone of the schedule that asks when it has none.
"""

from __future__ import annotations

from bisect import bisect_right
from calendar import isleap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta

from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.names import check_name
from cronflow.domain.schedule import zones
from cronflow.domain.schedule.windows import CalendarSpan, WindowSet, check_label, reach
from cronflow.domain.schedule.windows import Period as Period  # the windows of a calendar
from cronflow.domain.schedule.windows import WeeklyHours as WeeklyHours
from cronflow.domain.schedule.windows import Window as Window

MOST_ENTRIES = 5000
MOST_DAYS = 20_000
"""Of a calendar, each day of a range counted. More than fifty years of days."""
MOST_DAYS_AT_ONCE = 400
"""Consecutive days that are one answer."""
MOST_YEARS = 9
"""29 February may be eight years away."""
LONGEST_DESCRIPTION = 1000
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
        check_label(self.name)
        if self.last < self.first:
            raise InvalidInput(Problem("", f"the days end on {self.last}, before they begin", "swap first and last"))
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
        check_label(self.name)
        try:
            date(_LEAP_YEAR, self.month, self.day)
        except ValueError:
            what = f"there is no day {self.day} in month {self.month}"
            raise InvalidInput(Problem("", what, "write MM-DD, such as 12-25")) from None


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
    _dates: Sequence[date] = field(init=False, repr=False, compare=False)
    _windows: WindowSet = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_name(self.name, "calendar")
        if len(self.description) > LONGEST_DESCRIPTION:
            what = f"the description has {len(self.description):,} characters; at most {LONGEST_DESCRIPTION:,}"
            raise InvalidInput(Problem("", what, "shorten it"))
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
        yearly: dict[tuple[int, int], str] = {}
        for day in (one for one in self.days if isinstance(one, YearlyDay)):
            yearly.setdefault((day.month, day.day), day.name)
        object.__setattr__(self, "days", tuple(self.days))
        object.__setattr__(self, "windows", tuple(self.windows))
        object.__setattr__(self, "_windows", WindowSet(self.windows))
        object.__setattr__(self, "_by_date", by_date)
        object.__setattr__(self, "_dates", sorted(by_date))
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
        if name is None:
            return self._windows.span_at(instant, self.tz or tz)
        following = local.date() + _DAY
        for _ in range(MOST_DAYS_AT_ONCE):
            if self.name_of_day(following) is None:
                break
            following += _DAY
        return CalendarSpan(name, reach(zone, instant, local, datetime.combine(following, time())))

    def next_begin(self, instant: datetime, tz: str) -> datetime | None:
        """An instant later than this one and not later than the begin of the next day or window; None when none
        follows. None may contain the instant.
        """
        zone = zones.find_zone(self.tz or tz)
        begin = self._windows.next_begin(instant, self.tz or tz)
        local = zones.reading(zone, instant)
        day = self.next_day(local.date())
        if day is not None:
            midnight = zones.instant_of(zone, datetime.combine(day, time()))
            if midnight <= instant:
                # It has passed, and the clocks were set back after it: they show it again.
                midnight = reach(zone, instant, local, datetime.combine(day, time()))
            begin = midnight if begin is None else min(begin, midnight)
        # Clocks that are set back around midnight show the end of a day again.
        change = zones.first_change(zone, instant, instant + _DAY)
        return begin if change is None else min(begin or change.at, change.at)

    def next_day(self, after: date) -> date | None:
        """The first day of the calendar after this one; None when none follows within nine years."""
        place = bisect_right(self._dates, after)
        found = self._dates[place] if place < len(self._dates) else None
        for month, day in self._by_year:
            for year in range(after.year, after.year + MOST_YEARS):
                if (month, day) == (2, 29) and not isleap(year):
                    continue
                if date(year, month, day) > after:
                    found = min(found or date.max, date(year, month, day))
                    break
        return found

    def named_days(self, first: date, most: int, until: date) -> list[tuple[date, str]]:
        """The next days of the calendar from `first` to `until`, with their names; at most so many."""
        found: list[tuple[date, str]] = []
        day: date | None = first - _DAY
        while day is not None and len(found) < most and (day := self.next_day(day)) is not None and day <= until:
            found.append((day, self.name_of_day(day) or ""))
        return found

    @property
    def window_set(self) -> WindowSet:
        """Its windows, to search in."""
        return self._windows
