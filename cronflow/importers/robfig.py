"""Reads the schedules of Go's robfig/cron, the library that Kubernetes and Dkron use.

Differences from crontab lines: `*/2` in a day field does not count as a star, so the other day field is an alternative;
7 is not a weekday; `@every` counts from the start of the process; skipped times of day are lost, and repeated ones fire
twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import time, timedelta
from typing import Any

from cronflow.domain.durations import format_duration
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.importers.clock_changes import ClockRules, SkippedTimes, clock_changes, cron_schedule
from cronflow.importers.cron_fields import DAYS, WEEKDAYS, CronFields

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_ZONE = re.compile(r"(?:CRON_)?TZ=(\S+)\s+(.*)", re.DOTALL)
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)")
DESCRIPTORS = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}


@dataclass(frozen=True, slots=True)
class _GoField:
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()


_BOUNDS = (
    _GoField("second", 0, 59),
    _GoField("minute", 0, 59),
    _GoField("hour", 0, 23),
    _GoField("day-of-month", 1, 31),
    _GoField("month", 1, 12, _MONTHS),
    _GoField("day-of-week", 0, 6, _WEEKDAYS),
)


def robfig_schedule(text: str, tz: str | None, source: str, *, seconds: bool) -> tuple[dict[str, Any], list[str]]:
    """The keys of the schedule that a spec describes, and notes. `seconds`: its first field is the seconds.

    Raises InvalidInput for a spec that the library refuses.
    """
    text = text.strip()
    if (zone := _ZONE.fullmatch(text)) is not None:
        tz, text = zone[1], zone[2].strip()
    if text.startswith("@every "):
        interval = go_duration(text.removeprefix("@every "))
        whole = timedelta(seconds=max(1, int(interval.total_seconds())))
        note = f"{source} counts from its own start; CronFlow from a fixed time, the same on every node."
        return {"every": format_duration(whole)}, [note]
    spec = text
    if text.startswith("@"):
        if text not in DESCRIPTORS:
            raise InvalidInput(Problem("", f"{source} has no descriptor {text!r}", "write a cron expression"))
        spec = DESCRIPTORS[text]
    elif not seconds:
        spec = f"0 {text}"
    values = spec.split()
    if len(values) != len(_BOUNDS):
        expected = len(_BOUNDS) - (not seconds)
        what = f"{text!r} has {len(text.split())} fields; {source} expects {expected}"
        raise InvalidInput(Problem("", what, "correct the schedule"))
    read = [_field(value, bounds, source) for value, bounds in zip(values, _BOUNDS, strict=True)]
    second, minute, hour, day, month, weekday = (found for found, _ in read)
    either = not (read[3][1] or read[5][1])
    fields = CronFields(second, minute, hour, day, month, frozenset(weekday), either)
    rules = ClockRules(source, SkippedTimes.LOST, repeats=True)
    original = " ".join(values[1:] if second == {0} else values).replace("?", "*")
    schedule, notes = cron_schedule(fields, tz, rules, original)
    return schedule, [*notes, *_losses(fields, tz, source)]


def _losses(fields: CronFields, tz: str | None, source: str) -> list[str]:
    """What the library loses because it searches in whole hours and from midnight to midnight."""
    changes = list(clock_changes(tz))
    if any((change.after - change.before) % timedelta(hours=1) for change in changes):
        return [f"{source} loses runs after a change of the clocks by half an hour; CronFlow does not."]
    midnight = any(
        change.after > change.before
        and (change.at + change.before).time() <= time.min < (change.at + change.after).time()
        for change in changes
    )
    if midnight and not (fields.days >= DAYS and fields.weekdays >= WEEKDAYS):
        return [f"{source} can lose a run on the day that begins without midnight; CronFlow does not."]
    return []


def go_duration(text: str) -> timedelta:
    """As Go's time.ParseDuration reads it. Raises InvalidInput."""
    text = text.strip()
    parts = list(_PART.finditer(text))
    if not parts or "".join(part[0] for part in parts) != text:
        raise InvalidInput(Problem("", f"{text!r} is not a duration of Go", "write it like 1h30m"))
    return timedelta(seconds=sum(float(part[1]) * _UNITS[part[2]] for part in parts))


def _field(text: str, bounds: _GoField, source: str) -> tuple[frozenset[int], bool]:
    """The values, and whether the field counts as a star."""
    values: set[int] = set()
    star = False
    for part in filter(None, text.split(",")):
        found, is_star = _range(part, bounds, source)
        values |= found
        star = star or is_star
    if not values:
        raise _refused(text, bounds, source)
    return frozenset(values), star


def _range(text: str, bounds: _GoField, source: str) -> tuple[set[int], bool]:
    span, slash, step_text = text.partition("/")
    first, dash, last = span.partition("-")
    star = first in ("*", "?")
    low = bounds.low if star else _number(first, bounds)
    high = bounds.high if star else _number(last, bounds) if dash else low
    step = _number(step_text, None) if slash else 1
    if slash and not dash and not star:
        high = bounds.high
    if low is None or high is None or not step or not bounds.low <= low <= high <= bounds.high:
        raise _refused(text, bounds, source)
    return set(range(low, high + 1, step)), star and step == 1


def _number(text: str, bounds: _GoField | None) -> int | None:
    if bounds is not None and text.lower() in bounds.names:
        return bounds.names.index(text.lower()) + bounds.low
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _refused(text: str, bounds: _GoField, source: str) -> InvalidInput:
    remedy = "write 0 for Sunday" if text == "7" and bounds.name == "day-of-week" else "correct the schedule"
    return InvalidInput(Problem("", f"{source} does not accept {text!r} in the {bounds.name} field", remedy))
