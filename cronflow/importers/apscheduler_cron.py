"""The `cron` trigger of APScheduler 3 as a schedule.

Fields that are not given are `*` before the least significant one that is given, and their minimum after it. Weekdays
begin with Monday as 0. A day must match all day fields.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from cronflow.domain.schedule.zones import find_zone
from cronflow.importers.clock_changes import ClockRules, SkippedTimes, clock_changes, cron_schedule
from cronflow.importers.cron_fields import DAYS, LAST_DAY, LAST_PLACE, WEEKDAYS, CronFields, Weekday
from cronflow.importers.job_draft import Refused

_RULES = ClockRules("APScheduler", SkippedTimes.SHIFT_FIRST, repeats=True)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_PLACES = {"1st": 1, "2nd": 2, "3rd": 3, "4th": 4, "5th": 5, "last": LAST_PLACE}
_PLACE = re.compile(r"(1st|2nd|3rd|4th|5th|last) +(\w+)")
_LAST_YEAR = 9999


@dataclass(frozen=True, slots=True)
class _TriggerField:
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    minimum: str = "*"
    """The value after the least significant field that is given."""


FIELDS = (
    _TriggerField("year", 1970, _LAST_YEAR),
    _TriggerField("month", 1, 12, _MONTHS, "1"),
    _TriggerField("day", 1, 31, (), "1"),
    _TriggerField("week", 1, 53),
    _TriggerField("day_of_week", 0, 6, _WEEKDAYS),
    _TriggerField("hour", 0, 23, (), "0"),
    _TriggerField("minute", 0, 59, (), "0"),
    _TriggerField("second", 0, 59, (), "0"),
)
NAMES = tuple(one.name for one in FIELDS)


def cron_trigger(values: Mapping[str, Any], tz: str | None) -> tuple[dict[str, Any], list[str]]:
    """The keys of the schedule of a trigger with these fields, and notes. Raises Refused."""
    texts = _with_defaults(values)
    if texts["week"] != "*":
        remedy = "for every n-th week write every: 2w with a time, otherwise days of the month"
        raise Refused(f"week={texts['week']} chooses weeks of the year, and CronFlow has none", remedy)
    bounds = {one.name: one for one in FIELDS}
    sets = {name: _values(texts[name], bounds[name]) for name in ("month", "day_of_week", "hour", "minute", "second")}
    weekdays: frozenset[Weekday] = frozenset((day + 1) % 7 for day in sets["day_of_week"])
    days, nth = _days(texts["day"], bounds["day"])
    either = False
    if nth:
        if weekdays < WEEKDAYS:
            raise Refused(f"day={texts['day']!r} and day_of_week are both restricted", "write one of them")
        weekdays, either = nth, bool(days)
        days = days or DAYS
    fields = CronFields(sets["second"], sets["minute"], sets["hour"], days, sets["month"], weekdays, either)
    schedule, notes = cron_schedule(fields, tz, _RULES)
    schedule |= _years(texts["year"], bounds["year"], tz)
    if 0 in fields.hours and next(clock_changes(tz), None) is not None:
        what = "APScheduler can lose a run in the first hour of a day after the clocks went forward; CronFlow does not."
        notes.append(what)
    return schedule, notes


def crontab_fields(text: str) -> dict[str, str]:
    """The fields of `CronTrigger.from_crontab`. Its numbers of weekdays begin with Monday, too. Raises Refused."""
    parts = text.split()
    if len(parts) != 5:
        raise Refused(f"from_crontab has {len(parts)} fields", "write five")
    return dict(zip(("minute", "hour", "day", "month", "day_of_week"), parts, strict=True))


def _with_defaults(values: Mapping[str, Any]) -> dict[str, str]:
    given = [place for place, name in enumerate(NAMES) if values.get(name) is not None]
    last = max(given, default=len(NAMES))
    return {
        one.name: str(values[one.name]).strip().lower() if place in given else "*" if place < last else one.minimum
        for place, one in enumerate(FIELDS)
    }


def _values(text: str, bounds: _TriggerField) -> frozenset[int]:
    found: set[int] = set()
    for part in re.split(" *, *", text):
        found.update(_range(part, bounds))
    return frozenset(found)


def _days(text: str, bounds: _TriggerField) -> tuple[frozenset[int], frozenset[Weekday]]:
    """Days of the month, and n-th weekdays."""
    days: set[int] = set()
    nth: set[Weekday] = set()
    for part in re.split(" *, *", text):
        place = _PLACE.fullmatch(part)
        if place is not None and place[2] in _WEEKDAYS:
            nth.add(((_WEEKDAYS.index(place[2]) + 1) % 7, _PLACES[place[1]]))
        elif part == "last":
            days.add(LAST_DAY)
        else:
            days.update(_range(part, bounds))
    return frozenset(days), frozenset(nth)


def _range(text: str, bounds: _TriggerField) -> range:
    span, slash, step_text = text.partition("/")
    first, dash, last = span.partition("-")
    low = bounds.low if span == "*" else _number(first, bounds)
    single = slash and not dash
    high = bounds.high if span == "*" or single else _number(last if dash else first, bounds)
    step = int(step_text) if step_text.isdigit() else 0
    named = first in bounds.names
    if slash and (not step or named or step > high - low):
        raise _refused(text, bounds)
    if not bounds.low <= low <= high <= bounds.high:
        raise _refused(text, bounds)
    return range(low, high + 1, step or 1)


def _number(text: str, bounds: _TriggerField) -> int:
    if text in bounds.names:
        return bounds.names.index(text) + bounds.low
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1


def _refused(text: str, bounds: _TriggerField) -> Refused:
    remedy = "write sun, since APScheduler counts from Monday as 0" if text == "7" else "correct the schedule"
    return Refused(f"APScheduler does not accept {bounds.name}={text!r}", remedy)


def _years(text: str, bounds: _TriggerField, tz: str | None) -> dict[str, str]:
    """The years as `start` and `end`."""
    if text == "*":
        return {}
    years = _values(text, bounds) if re.fullmatch(r"\d{4}(-\d{4})?", text) else frozenset[int]()
    if not years:
        raise Refused(f"year={text} has gaps, and CronFlow has only a start and an end", "write a job for each year")
    zone = find_zone(tz or "UTC")
    start, end = datetime(min(years), 1, 1, tzinfo=zone), datetime(max(years) + 1, 1, 1, tzinfo=zone)
    return {"start": start.isoformat(), "end": end.isoformat()}


def after(instant: datetime) -> datetime:
    """APScheduler runs at its end, too, and CronFlow does not."""
    return instant.replace(microsecond=0) + timedelta(seconds=1)
