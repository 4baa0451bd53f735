"""Whether a local time matches a cron expression: an independent reading of the fields, for the oracles.

It shares nothing with `domain.schedule` and validates nothing. It does not know zones or clock changes.
"""

from __future__ import annotations

import calendar
import re
from datetime import date, datetime, timedelta
from functools import lru_cache
from hashlib import blake2b

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


# The name of each field and the values that H means without a range.
_FIELDS = (
    ("second", 0, 59),
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day-of-month", 1, 28),
    ("month", 1, 12),
    ("day-of-week", 0, 6),
)


class CronMatcher:
    """The fields of one expression, of five or six fields or a nickname. The job's name `seed` chooses each `H`."""

    def __init__(self, expr: str, seed: str = "") -> None:
        text = _NICKNAMES.get(expr.upper(), expr.upper())
        fields = text.split() if len(text.split()) == 6 else ["0", *text.split()]
        fields = [
            ",".join(_chosen(term, *limits, seed) for term in value.split(","))
            for value, limits in zip(fields, _FIELDS, strict=True)
        ]
        self.seconds, self.minutes, self.hours = (
            sorted(_numbers(field, 0, high)) for field, high in zip(fields, (59, 59, 23), strict=False)
        )
        self.asks_the_clocks = fields[1][0] == "*" or fields[2][0] == "*"
        """Whether it fires whenever the clocks match; otherwise its times are times of the day."""
        self._days, self._months, self._weekdays = fields[3:]

    def matches(self, local: datetime) -> bool:
        """Whether it matches this second."""
        return (
            local.second in self.seconds
            and local.minute in self.minutes
            and local.hour in self.hours
            and self.matches_day(local.date())
        )

    def matches_day(self, day: date) -> bool:
        """Whether it matches some second of this day."""
        return _day_matches(day, self._days, self._months, self._weekdays)


def _chosen(term: str, field: str, low: int, high: int, seed: str) -> str:
    """The values that a term with `H` has: `H`, `H(3-9)`, `H/15` or `H(3-9)/2`."""
    if term[:1] != "H":
        return term
    if limits := re.search(r"\((\d+)-(\d+)\)", term):
        low, high = int(limits[1]), int(limits[2])
    choice = int.from_bytes(blake2b(f"{seed}\0{field}".encode(), digest_size=8).digest(), "big")
    if "/" not in term:
        return str(range(low, high + 1)[choice % (high - low + 1)])
    step = int(term.split("/")[1])
    return ",".join(str(value) for value in range(low, high + 1) if (value - low) % step == choice % step)


@lru_cache(maxsize=10_000)
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
