"""Celery's `crontab` as a schedule.

A day must match all day fields, ranges may run over the end of a field, and names are known by their first three
letters. Of times that the clocks skip, the first fires later; times that occur twice fire once, also those of an
interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cronflow.importers.clock_changes import ClockRules, SkippedTimes, cron_schedule
from cronflow.importers.cron_fields import CronFields
from cronflow.importers.job_draft import Refused

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_RULES = ClockRules("Celery", SkippedTimes.SHIFT_FIRST, repeats=False)


@dataclass(frozen=True, slots=True)
class _CrontabField:
    name: str
    low: int
    high: int


FIELDS = (
    _CrontabField("minute", 0, 59),
    _CrontabField("hour", 0, 23),
    _CrontabField("day_of_week", 0, 6),
    _CrontabField("day_of_month", 1, 31),
    _CrontabField("month_of_year", 1, 12),
)
NAMES = tuple(one.name for one in FIELDS)
"""The arguments of `crontab`, in order."""


def crontab_schedule(values: Mapping[str, Any], tz: str | None) -> tuple[dict[str, Any], list[str]]:
    """The keys of the schedule of a crontab with these arguments, and notes. Raises Refused."""
    given = {name: "*" if values.get(name) is None else values[name] for name in NAMES}
    sets = {one.name: _field(given[one.name], one) for one in FIELDS}
    fields = CronFields(
        minutes=sets["minute"],
        hours=sets["hour"],
        days=sets["day_of_month"],
        months=sets["month_of_year"],
        weekdays=frozenset(sets["day_of_week"]),
    )
    order = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
    plain = all(isinstance(given[name], int | str) for name in order)
    original = " ".join(str(given[name]).replace(" ", "") for name in order) if plain else ""
    return cron_schedule(fields, tz, _RULES, original)


def _field(value: Any, bounds: _CrontabField) -> frozenset[int]:
    found: set[int] = set()
    if isinstance(value, str):
        for part in value.split(","):
            found.update(_part(part.strip(), bounds))
    elif isinstance(value, int) and not isinstance(value, bool):
        found = {value}
    elif isinstance(value, Iterable) and all(isinstance(one, int) for one in value):
        found = set(value)
    if not found or min(found) < bounds.low or max(found) > bounds.high:
        raise Refused(f"crontab does not accept {bounds.name}={value!r}", "correct the schedule")
    return frozenset(found)


def _part(text: str, bounds: _CrontabField) -> list[int]:
    span, slash, step = text.partition("/")
    every = list(range(bounds.low, bounds.high + 1))
    if span == "*":
        values = every
    else:
        first, dash, last = span.partition("-")
        low, high = _number(first, bounds), _number(last if dash else first, bounds)
        values = (
            every[low - bounds.low :] + every[: high - bounds.low + 1] if high < low else list(range(low, high + 1))
        )
        if slash and not dash:
            # Celery ignores a step behind a single value, or fails.
            raise Refused(f"crontab does not accept {text!r} in {bounds.name}", "write a range, such as 5-59/10")
    if slash and not (step.isdigit() and int(step) > 0):
        raise Refused(f"crontab does not accept {text!r} in {bounds.name}", "correct the schedule")
    return values[:: int(step)] if slash else values


def _number(text: str, bounds: _CrontabField) -> int:
    name = text.strip()[:3].lower()
    if text.isdigit():
        number = int(text)
    elif name in _MONTHS:
        number = _MONTHS.index(name) + 1
    elif name in _WEEKDAYS:
        number = _WEEKDAYS.index(name)
    else:
        number = -1
    if not bounds.low <= number <= bounds.high:
        raise Refused(f"crontab does not accept {text!r} in {bounds.name}", "correct the schedule")
    return number
