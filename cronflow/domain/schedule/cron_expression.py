"""Cron expressions as text and as sets of local times; no zones, no instants.

Every expression is validated here, field by field, so that an error names the field, the value and the allowed values,
and an expression that never fires is rejected. cronsim then reads the sets of values; times are found here, because its
own search handles daylight saving for five fields only, and takes several times as long. Day-of-month and day-of-week
combine as in Debian cron: both must match when either of the two fields begins with `*`, otherwise one is enough.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from calendar import monthrange
from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import cast

from cronsim import CronSim, CronSimError

from cronflow.domain.errors import InvalidInput, Problem

NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

# The calendar repeats every 28 years between two skipped leap days, so the 50 years that are searched from here contain
# every combination of date and weekday: an expression that does not fire in them never does.
REFERENCE = datetime(2040, 1, 1)  # noqa: DTZ001 - local times are naive

LAST, LAST_WEEKDAY = CronSim.LAST, CronSim.LAST_WEEKDAY

_EVERY_DAY = ["*", "*", "*"]
_MOST_MONTHS = 50 * 12 + 2
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    allowed: str
    names: tuple[str, ...] = ()


_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_FIELDS = (
    _Field("second", 0, 59, "0 to 59"),
    _Field("minute", 0, 59, "0 to 59"),
    _Field("hour", 0, 23, "0 to 23"),
    _Field("day-of-month", 1, 31, "1 to 31, L for the last day or LW for the last working day"),
    _Field("month", 1, 12, "1 to 12 or JAN to DEC", _MONTHS),
    _Field(
        "day-of-week",
        0,
        7,
        "0 to 7 (0 and 7 are Sunday), SUN to SAT, MON#2 for the second Monday or 5L for the last Friday",
        _WEEKDAYS,
    ),
)


class Expression:
    """A cron expression that is valid and fires at least once.

    Days are found by looking at one month after the other: at most 50 years of months.
    """

    __slots__ = (
        "_clocks_per_day",
        "_month_shapes",
        "_walk",
        "_weekdays",
        "every_day",
        "hours",
        "keeps_interval",
        "minutes",
        "seconds",
    )

    def __init__(self, walk: CronSim) -> None:
        self._walk = walk
        self.seconds, self.minutes, self.hours = sorted(walk.seconds), sorted(walk.minutes), sorted(walk.hours)
        self._clocks_per_day = len(self.seconds) * len(self.minutes) * len(self.hours)
        self._month_shapes = _shared_month_shapes(walk.parts[3], walk.parts[5])
        self._weekdays = {_from_sunday(one) for one in walk.weekdays}
        # As in Debian cron: a minute or hour field that begins with a star is an interval, all else times of the day.
        self.keeps_interval: bool = walk.parts[1].startswith("*") or walk.parts[2].startswith("*")
        self.every_day: bool = walk.parts[3:] == _EVERY_DAY

    @property
    def every_day_of_months(self) -> bool:
        """Whether every day of its months matches."""
        return self._walk.parts[3] == self._walk.parts[5] == "*"

    @property
    def month_days(self) -> Collection[int]:
        """The days of the month: 1 to 31, LAST and LAST_WEEKDAY."""
        return cast("Collection[int]", self._walk.days)

    @property
    def months(self) -> Collection[int]:
        return cast("Collection[int]", self._walk.months)

    @property
    def weekdays(self) -> Collection[int | tuple[int, int]]:
        """0 to 7, 0 and 7 for Sunday; `(1, 2)` is the second Monday of the month, `(5, LAST)` the last Friday."""
        return self._walk.weekdays

    @property
    def needs_both_days(self) -> bool:
        """Whether a day must match both day fields; otherwise one of them is enough."""
        return self._walk.day_and

    def at_or_after(self, local: datetime) -> datetime | None:
        """The first matching local time at or after this one; None when there is none within 50 years."""
        day = local.date()
        if self._has_day(day) and (clock := self.clock_at_or_after(local.time())) is not None:
            return datetime.combine(day, clock)
        following = self._next_day(day, 1)
        return None if following is None else datetime.combine(following, self.first_clock)

    def at_or_before(self, local: datetime) -> datetime | None:
        """The last matching local time at or before this one; None when there is none within 50 years."""
        day = local.date()
        if self._has_day(day) and (clock := self.clock_at_or_before(local.time())) is not None:
            return datetime.combine(day, clock)
        previous = self._next_day(day, -1)
        return None if previous is None else datetime.combine(previous, self.last_clock)

    def count(self, first: datetime, last: datetime, limit: int) -> int:
        """How many local times in [first, last] match; any number above `limit` when there are more.

        It takes one step per matching day, or one in all when every day matches.
        """
        if first > last:
            return 0
        if self.every_day:
            days = (last.date() - first.date()).days
            before, until = self._clocks_before(first.time()), self._clocks_until(last.time())
            return days * self._clocks_per_day + until - before
        total = 0
        while first <= last and total <= limit:
            found = self.at_or_after(first)
            if found is None or found > last:
                break
            tomorrow = datetime.combine(found.date(), time()) + _DAY
            total += self.count_clocks(found.time(), min(last, tomorrow - _SECOND).time())
            first = tomorrow
        return total

    def days(self, first: datetime, count: int) -> list[datetime]:
        """The midnights of the matching days among `count` days, beginning with the day of `first`."""
        start = first.date()
        days = (start + number * _DAY for number in range(count))
        return [datetime.combine(day, time()) for day in days if self._has_day(day)]

    # ------------------------------------------------------------------------------------------------- times of a day

    @property
    def first_clock(self) -> time:
        """The first matching time of a day."""
        return time(self.hours[0], self.minutes[0], self.seconds[0])

    @property
    def last_clock(self) -> time:
        """The last matching time of a day."""
        return time(self.hours[-1], self.minutes[-1], self.seconds[-1])

    def clock_at_or_after(self, clock: time) -> time | None:
        """The first matching time of the same day at or after this one."""
        hours, minutes, seconds = self.hours, self.minutes, self.seconds
        hour = bisect_left(hours, clock.hour)
        if hour == len(hours):
            return None
        if hours[hour] > clock.hour:
            return time(hours[hour], minutes[0], seconds[0])
        minute = bisect_left(minutes, clock.minute)
        if minute < len(minutes):
            if minutes[minute] > clock.minute:
                return time(hours[hour], minutes[minute], seconds[0])
            second = bisect_left(seconds, clock.second)
            if second < len(seconds):
                return time(hours[hour], minutes[minute], seconds[second])
            minute += 1
            if minute < len(minutes):
                return time(hours[hour], minutes[minute], seconds[0])
        hour += 1
        return time(hours[hour], minutes[0], seconds[0]) if hour < len(hours) else None

    def clock_at_or_before(self, clock: time) -> time | None:
        """The last matching time of the same day at or before this one."""
        hours, minutes, seconds = self.hours, self.minutes, self.seconds
        hour = bisect_right(hours, clock.hour) - 1
        if hour < 0:
            return None
        if hours[hour] < clock.hour:
            return time(hours[hour], minutes[-1], seconds[-1])
        minute = bisect_right(minutes, clock.minute) - 1
        if minute >= 0:
            if minutes[minute] < clock.minute:
                return time(hours[hour], minutes[minute], seconds[-1])
            second = bisect_right(seconds, clock.second) - 1
            if second >= 0:
                return time(hours[hour], minutes[minute], seconds[second])
            minute -= 1
            if minute >= 0:
                return time(hours[hour], minutes[minute], seconds[-1])
        hour -= 1
        return time(hours[hour], minutes[-1], seconds[-1]) if hour >= 0 else None

    def count_clocks(self, first: time, last: time) -> int:
        """How many times of a matching day are in [first, last]."""
        return self._clocks_until(last) - self._clocks_before(first)

    def _clocks_before(self, clock: time) -> int:
        exact = clock.hour in self._walk.hours and clock.minute in self._walk.minutes
        return self._clocks_until(clock) - (1 if exact and clock.second in self._walk.seconds else 0)

    def _clocks_until(self, clock: time) -> int:
        """How many of the times of a matching day are at or before this one."""
        total = bisect_left(self.hours, clock.hour) * len(self.minutes) * len(self.seconds)
        if clock.hour not in self._walk.hours:
            return total
        total += bisect_left(self.minutes, clock.minute) * len(self.seconds)
        if clock.minute not in self._walk.minutes:
            return total
        return total + bisect_right(self.seconds, clock.second)

    # ----------------------------------------------------------------------------------------------------------- days

    def _has_day(self, day: date) -> bool:
        return self.every_day or (day.month in self._walk.months and self._day_matches(day))

    def _next_day(self, day: date, direction: int) -> date | None:
        """The next matching day after (1) or before (-1) this one."""
        if self.every_day:
            beyond = date.max if direction > 0 else date.min
            return None if day == beyond else day + direction * _DAY
        month = day.year * 12 + day.month - 1
        for number in range(month, month + direction * _MOST_MONTHS, direction):
            year, place = divmod(number, 12)
            if not date.min.year <= year < date.max.year:
                return None
            if place + 1 not in self._walk.months:
                continue
            days = self._days_of(year, place + 1)
            if number != month:
                found = 0 if direction > 0 else len(days) - 1
            else:
                found = bisect_right(days, day.day) if direction > 0 else bisect_left(days, day.day) - 1
            if 0 <= found < len(days):
                return date(year, place + 1, days[found])
        return None

    def _days_of(self, year: int, month: int) -> list[int]:
        """The matching days of a month. They depend on the weekday on which it begins and on its length alone."""
        shape = monthrange(year, month)
        if shape not in self._month_shapes:
            days = (date(year, month, number) for number in range(1, shape[1] + 1))
            self._month_shapes[shape] = [day.day for day in days if self._day_matches(day)]
        return self._month_shapes[shape]

    def _day_matches(self, day: date) -> bool:
        days, weekdays, weekday = self._walk.days, self._weekdays, day.isoweekday() % 7
        by_date, by_weekday = day.day in days, weekday in weekdays
        if not by_date and (LAST in days or LAST_WEEKDAY in days):
            last = _month_end(day)
            last_weekday = last - max(0, last.isoweekday() - 5) * _DAY
            by_date = (LAST in days and day == last) or (LAST_WEEKDAY in days and day == last_weekday)
        if not by_weekday:
            is_last = (weekday, LAST) in weekdays and (day + 7 * _DAY).month != day.month
            by_weekday = is_last or (weekday, (day.day - 1) // 7 + 1) in weekdays
        return (by_date and by_weekday) if self._walk.day_and else (by_date or by_weekday)


@lru_cache(maxsize=1024)
def _shared_month_shapes(month_days: str, weekdays: str) -> dict[tuple[int, int], list[int]]:
    """The matching days of each kind of month, which are filled in by the expressions with these two fields.

    A fleet has many times of the day, and few pairs of day fields.
    """
    del month_days, weekdays
    return {}


def _from_sunday(weekday: int | tuple[int, int]) -> int | tuple[int, int]:
    """The same with 0 for Sunday, never 7."""
    return (weekday[0] % 7, weekday[1]) if isinstance(weekday, tuple) else weekday % 7


def _month_end(day: date) -> date:
    return (day.replace(day=28) + 4 * _DAY).replace(day=1) - _DAY


@lru_cache(maxsize=4096)
def parse_expression(text: str) -> Expression:
    """Read an expression of five fields, six fields (seconds first) or a nickname such as `@daily`.

    Raises InvalidInput when a field is wrong or when the expression never fires.
    """
    fields = [
        ",".join(_check_term(field, term, text) for term in value.split(","))
        for field, value in zip(_FIELDS, _split(text), strict=True)
    ]
    try:
        walk = CronSim(" ".join(fields), REFERENCE)
    except CronSimError:
        # The fields are valid, so the only error left is a day that none of the months has.
        expression = None
    else:
        expression = Expression(walk)
    if expression is None or expression.at_or_after(REFERENCE) is None:
        raise InvalidInput(
            Problem("", f"cron {text!r} never fires: no date matches it", "correct the day or the month")
        )
    return expression


def _split(text: str) -> list[str]:
    nickname = text.strip().lower()
    if nickname == "@reboot":
        remedy = "write a schedule, or run the job manually when the cluster starts"
        raise InvalidInput(Problem("", "'@reboot' is not supported: a cluster does not boot", remedy))
    if nickname.startswith("@") and nickname not in NICKNAMES:
        raise InvalidInput(Problem("", f"there is no nickname {text!r}", f"write {', '.join(NICKNAMES)}"))
    fields = NICKNAMES.get(nickname, text).upper().split()
    if len(fields) not in (5, 6):
        count = f"{len(fields)} field{'' if len(fields) == 1 else 's'}"
        remedy = "write 5 fields, minute hour day-of-month month day-of-week, or 6 with seconds in front"
        raise InvalidInput(Problem("", f"cron {text!r} has {count}", remedy))
    return fields if len(fields) == 6 else ["0", *fields]


def _check_term(field: _Field, term: str, text: str) -> str:
    """Check one element of a list: a value, a range, a step or a special day. Returns it as cronsim reads it."""

    def refuse(what: str, remedy: str) -> InvalidInput:
        return InvalidInput(Problem("", f"{what} in the {field.name} field of cron {text!r}", remedy))

    span, slash, step = term.partition("/")
    if slash and not (_is_number(step) and 1 <= int(step) <= field.high - field.low + 1):
        raise refuse(f"the step of {term!r} is not allowed", f"write a step from 1 to {field.high - field.low + 1}")
    if span == "*" or (field.name == "day-of-month" and term in ("L", "LW")):
        return term
    if field.name == "day-of-week" and not slash:
        if span.endswith("L") and _is_number(span[:-1]) and int(span[:-1]) <= field.high:
            return term
        day, hash_sign, nth = span.partition("#")
        if hash_sign and _number(field, day) is not None and nth in ("1", "2", "3", "4", "5"):
            return term
    first, dash, last = span.partition("-")
    low, high = _number(field, first), _number(field, last if dash else first)
    if low is None or high is None:
        raise refuse(f"{term!r} is not allowed", "write * for any value" if term == "?" else f"write {field.allowed}")
    if high < low:
        raise refuse(f"the range {term!r} runs backwards", "split it in two, such as 22-23,0-2")
    # cronsim would read 5-5/2, a step within one value, as 5/2, which continues to the end of the field.
    return first if dash and high == low else term


def _is_number(text: str) -> bool:
    # str.isdigit alone accepts digits of other scripts; the length limit keeps int() from raising on huge numbers.
    return text.isascii() and text.isdigit() and len(text) < 10


def _number(field: _Field, text: str) -> int | None:
    """The value of a number or name that may stand in this field, else None."""
    if text in field.names:
        return field.names.index(text) + field.low
    if _is_number(text) and field.low <= int(text) <= field.high:
        return int(text)
    return None
