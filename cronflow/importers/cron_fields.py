"""Sets of cron values, and the schedule that fires for exactly these values.

Cron dialects give the same text different meanings, so an importer reads its dialect into `CronFields` and never hands
on the text itself. The text of the source is kept only where CronFlow reads the same sets from it. What a dialect does
when the clocks change is decided in `clock_changes`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from cronflow.domain.errors import InvalidInput
from cronflow.domain.schedule.cron_expression import LAST, parse_expression

Weekday = int | tuple[int, int]
"""0 (Sunday) to 6; `(1, 2)` is the second Monday of the month, `(5, LAST_PLACE)` the last Friday."""
LAST_PLACE = LAST
LAST_DAY = LAST
"""As a day of the month: the last one."""

DAYS = frozenset(range(1, 32))
MONTHS = frozenset(range(1, 13))
WEEKDAYS = frozenset(range(7))
HOURS = frozenset(range(24))
MINUTES = frozenset(range(60))
_ON_THE_HOUR = frozenset({0})

_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_WEEKS = tuple(frozenset(range(first, min(first + 7, 32))) for first in range(1, 30, 7))
_SHORTEST_STEPS = 3


@dataclass(frozen=True, slots=True)
class CronFields:
    """A fire is an instant whose local time has a value of each set. `either_day`: a day of one of the two day fields
    is enough, instead of both.
    """

    seconds: frozenset[int] = _ON_THE_HOUR
    minutes: frozenset[int] = MINUTES
    hours: frozenset[int] = HOURS
    days: frozenset[int] = DAYS
    months: frozenset[int] = MONTHS
    weekdays: frozenset[Weekday] = WEEKDAYS
    either_day: bool = False


@dataclass(frozen=True, slots=True)
class CronText:
    """An expression, the keys of a schedule that it needs besides, and why it is written in an unusual way."""

    expr: str
    extra: dict[str, Any]
    notes: tuple[str, ...] = ()


def cron_text(fields: CronFields, *, original: str = "", clock_times: bool = False) -> CronText:
    """The expression for the fields. With `clock_times` neither the minutes nor the hours begin with a star, so that
    CronFlow reads them as times of day and not as an interval.
    """
    if original and _same(fields, original, clock_times):
        return CronText(" ".join(original.split()), {})
    star = not clock_times
    times = [
        _values(fields.minutes, 0, 59, star),
        _values(fields.hours, 0, 23, star),
    ]
    if fields.seconds != _ON_THE_HOUR:
        times.insert(0, _values(fields.seconds, 0, 59, star=True))
    days, weekdays, extra, notes = _day_fields(fields)
    expr = " ".join([*times, days, _values(fields.months, 1, 12, star=True), weekdays])
    return CronText(expr, extra, notes)


def _same(fields: CronFields, text: str, clock_times: bool) -> bool:
    """Whether CronFlow reads these sets from the text."""
    try:
        found = parse_expression(text)
    except InvalidInput:
        return False
    read = CronFields(
        frozenset(found.seconds),
        frozenset(found.minutes),
        frozenset(found.hours),
        frozenset(found.month_days),
        frozenset(found.months),
        frozenset((one[0] % 7, one[1]) if isinstance(one, tuple) else one % 7 for one in found.weekdays),
        not found.needs_both_days,
    )
    return _days_matter(read) == _days_matter(fields) and not (clock_times and found.keeps_interval)


def _days_matter(fields: CronFields) -> CronFields:
    """The fields with a day rule that is the same for all fields that fire on the same days."""
    days, weekdays = fields.days >= DAYS, fields.weekdays >= WEEKDAYS
    if fields.either_day and (days or weekdays):
        return CronFields(fields.seconds, fields.minutes, fields.hours, months=fields.months)
    either = fields.either_day and not days and not weekdays
    return CronFields(fields.seconds, fields.minutes, fields.hours, fields.days, fields.months, fields.weekdays, either)


def _day_fields(fields: CronFields) -> tuple[str, str, dict[str, Any], tuple[str, ...]]:
    fields = _days_matter(fields)
    days, weekdays = fields.days, fields.weekdays
    if days >= DAYS or weekdays >= WEEKDAYS or fields.either_day:
        star = not fields.either_day
        return _values(days, 1, 31, star), _weekdays(weekdays), {}, ()
    plain = [day for day in weekdays if isinstance(day, int)]
    weeks = [place for place, week in enumerate(_WEEKS, 1) if days >= week]
    if len(plain) == len(weekdays) and weeks and frozenset().union(*(_WEEKS[place - 1] for place in weeks)) == days:
        nth: frozenset[Weekday] = frozenset((day, place) for day in plain for place in weeks)
        return "*", _weekdays(nth), {}, ("The days of the month are the weeks of these weekdays.",)
    note = "A day must match both day fields: in CronFlow that is so if one of the two begins with *."
    written = _values(days, 1, 31, star=True)
    if written.startswith("*"):
        return written, _weekdays(weekdays), {}, ()
    if 1 in days:
        return f"*/31,{_values(days - {1}, 1, 31, star=False)}", _weekdays(weekdays), {}, (f"{note} */31 is 1.",)
    if 0 in weekdays:
        rest = weekdays - {0}
        others = f",{_weekdays(rest)}" if rest else ""
        return _values(days, 1, 31, star=False), f"*/7{others}", {}, (f"{note} */7 is Sunday.",)
    if len(plain) < len(weekdays):
        raise InvalidInput("both day fields are restricted, and one of them has n-th weekdays")
    window = {"start": "00:00", "end": "00:00", "days": [_NAMES[day].lower() for day in sorted(plain)]}
    skips = "A day must match both day fields. Days of the month that are another weekday have a skipped run."
    return _values(days, 1, 31, star=False), "*", {"only_in": [window]}, (skips,)


def _values(values: Collection[int], low: int, high: int, star: bool) -> str:
    """One field: a star, steps, or a list of ranges."""
    if LAST_DAY in values and high == max(DAYS):
        rest = [value for value in values if value != LAST_DAY]
        return f"{_values(rest, low, high, star=False)},L" if rest else "L"
    found = sorted(values)
    if len(found) == high - low + 1:
        return "*" if star else f"{low}-{high}"
    steps = {second - first for first, second in pairwise(found)}
    if len(found) >= _SHORTEST_STEPS and len(steps) == 1 and steps != {1}:
        step = steps.pop()
        if found[0] == low and found[-1] + step > high:
            return f"*/{step}" if star else f"{low}-{high}/{step}"
        return f"{found[0]}-{found[-1]}/{step}"
    if star and len(found) > 1 and found == list(range(low, high + 1, found[1] - found[0])):
        return f"*/{found[1] - found[0]}"
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in _ranges(found))


def _weekdays(weekdays: Iterable[Weekday]) -> str:
    days = {day for day in weekdays if isinstance(day, int)}
    if days >= WEEKDAYS:
        return "*"
    nth = sorted(one for one in weekdays if isinstance(one, tuple))
    parts = [
        _NAMES[first % 7] if first == last else f"{_NAMES[first % 7]}-{_NAMES[last % 7]}"
        for first, last in _ranges(sorted(day for day in days if day))
    ]
    parts += ["SUN"] if 0 in days else []
    parts += [f"{day}L" if place == LAST_PLACE else f"{_NAMES[day]}#{place}" for day, place in nth]
    return ",".join(parts)


def _ranges(values: list[int]) -> list[tuple[int, int]]:
    """Two values stay two values: `1,2` is shorter to read than `1-2`."""
    found: list[tuple[int, int]] = []
    for value in values:
        if found and value == found[-1][1] + 1:
            found[-1] = (found[-1][0], value)
        else:
            found.append((value, value))
    split: list[tuple[int, int]] = []
    for first, last in found:
        split += [(first, first), (last, last)] if last == first + 1 else [(first, last)]
    return split
