"""Sets of local times, without zones: what a schedule means on the clocks of one place.

`LocalTimes` is what a timetable needs. A cron `Expression` is one such set; here are the others: one time every few
days, and the n-th business days of the months at the times of an expression. Local times are naive datetimes of whole
seconds. The cost of every method is bounded, whatever the arguments are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Protocol

from cronflow.domain.schedule.cron_expression import Expression

HORIZON_YEARS = 50
"""A time that no date has within so many years does not exist."""
MOST_BUSINESS_DAYS = 23
"""No month has more."""

_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)


class LocalTimes(Protocol):
    @property
    def keeps_interval(self) -> bool:
        """Whether the times are an interval, which keeps its real distance when the clocks change."""
        ...

    def at_or_after(self, local: datetime) -> datetime | None:
        """The first time at or after this one; None when there is none within 50 years."""
        ...

    def at_or_before(self, local: datetime) -> datetime | None:
        """The last time at or before this one; None when there is none within 50 years."""
        ...

    def count(self, first: datetime, last: datetime, limit: int) -> int:
        """The number of times in [first, last]; any number above `limit` when there are more."""
        ...


@dataclass(frozen=True, slots=True)
class EveryFewDays:
    """One time of day, every `step` days, counted from `origin` in both directions."""

    origin: date
    step: int
    clock: time

    @property
    def keeps_interval(self) -> bool:
        return False

    def at_or_after(self, local: datetime) -> datetime | None:
        return self._at(-(-(self._days_to(local.date()) + (local.time() > self.clock)) // self.step))

    def at_or_before(self, local: datetime) -> datetime | None:
        return self._at((self._days_to(local.date()) - (local.time() < self.clock)) // self.step)

    def count(self, first: datetime, last: datetime, limit: int) -> int:
        del limit
        begin = -(-(self._days_to(first.date()) + (first.time() > self.clock)) // self.step)
        end = (self._days_to(last.date()) - (last.time() < self.clock)) // self.step
        return max(0, end - begin + 1)

    def _days_to(self, day: date) -> int:
        return (day - self.origin).days

    def _at(self, number: int) -> datetime | None:
        try:
            return datetime.combine(self.origin + timedelta(days=number * self.step), self.clock)
        except OverflowError:
            return None


@dataclass(frozen=True, slots=True, eq=False)
class BusinessDayTimes:
    """The times of `expression` on certain business days of each month: 1 for the first, -1 for the last.

    `is_closed` excludes holidays from the business days, which are Monday to Friday. `expression` matches every day of
    its months.
    """

    expression: Expression
    places: Sequence[int]
    is_closed: Callable[[date], bool]

    @property
    def keeps_interval(self) -> bool:
        return self.expression.keeps_interval

    def at_or_after(self, local: datetime) -> datetime | None:
        clock, first = self.expression.clock_at_or_after(local.time()), local.date()
        for year, month in _months_from(first, 1):
            for day in self._days(year, month):
                if day == first and clock is not None:
                    return datetime.combine(day, clock)
                if day > first:
                    return datetime.combine(day, self.expression.first_clock)
        return None

    def at_or_before(self, local: datetime) -> datetime | None:
        clock, last = self.expression.clock_at_or_before(local.time()), local.date()
        for year, month in _months_from(last, -1):
            for day in reversed(self._days(year, month)):
                if day == last and clock is not None:
                    return datetime.combine(day, clock)
                if day < last:
                    return datetime.combine(day, self.expression.last_clock)
        return None

    def count(self, first: datetime, last: datetime, limit: int) -> int:
        total = 0
        while first <= last and total <= limit:
            found = self.at_or_after(first)
            if found is None or found > last:
                break
            midnight = datetime.combine(found.date(), time()) + _DAY
            total += self.expression.count_clocks(found.time(), min(last, midnight - _SECOND).time())
            first = midnight
        return total

    def _days(self, year: int, month: int) -> list[date]:
        if month not in self.expression.months:
            return []
        open_days = business_days(year, month, self.is_closed)
        chosen = {place - 1 if place > 0 else len(open_days) + place for place in self.places}
        return [open_days[index] for index in sorted(chosen) if 0 <= index < len(open_days)]


def business_days(year: int, month: int, is_closed: Callable[[date], bool]) -> list[date]:
    """The days of a month from Monday to Friday that are not closed."""
    day, found = date(year, month, 1), list[date]()
    while day.month == month:
        if day.isoweekday() <= 5 and not is_closed(day):
            found.append(day)
        day += _DAY
    return found


def _months_from(day: date, direction: int) -> list[tuple[int, int]]:
    """The month of `day` and those that follow (1) or precede (-1) it, up to the horizon."""
    first = day.year * 12 + day.month - 1
    numbers = range(first, first + direction * 12 * HORIZON_YEARS, direction)
    return [(number // 12, number % 12 + 1) for number in numbers if date.min.year <= number // 12 <= 9998]
