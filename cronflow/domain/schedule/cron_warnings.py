"""What may surprise about a cron expression: the two day fields, steps that restart, daylight saving.

Each note is a sentence with what will happen; none is a guess, the timetable's own rules are asked (see
`cronflow.domain.schedule.timetable`).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from cronflow.domain.formatting import absolute, span
from cronflow.domain.schedule import zones
from cronflow.domain.schedule.cron_expression import NICKNAMES
from cronflow.domain.schedule.kinds import Cron
from cronflow.domain.schedule.timetable import Timetable, find_timetable
from cronflow.domain.schedule.zones import SECOND, OffsetChange

_LOOK_AHEAD = timedelta(days=400)
_STEPS = (("second", "minute", 60), ("minute", "hour", 60), ("hour", "day", 24))


def notes_on(schedule: Cron, after: datetime) -> list[str]:
    """The notes, for somebody who looks at the fires after an instant."""
    expr = NICKNAMES.get(schedule.expr.lower(), schedule.expr)
    fields = expr.upper().split()
    notes = []
    if expr != schedule.expr:
        notes.append(f"{schedule.expr} is short for {expr}.")
    if len(fields) == 6:
        notes.append("It has six fields: the first is the second.")
    else:
        fields = ["0", *fields]
    notes += _days(fields[3], fields[5])
    notes += _steps(fields)
    notes += _clock_changes(find_timetable(schedule.expr, schedule.tz), schedule.tz, fields[2], after)
    return notes


def _days(day_of_month: str, day_of_week: str) -> list[str]:
    if "*" in (day_of_month, day_of_week):
        return []
    both = f"Both day-of-month ({day_of_month}) and day-of-week ({day_of_week}) are given"
    if day_of_month.startswith("*") or day_of_week.startswith("*"):
        return [f"{both}, and one of them begins with *: it fires on days that match both, as in Debian's cron."]
    return [f"{both}: it fires on days that match either of them, as in Debian's cron."]


def _steps(fields: list[str]) -> list[str]:
    notes = []
    for field, (unit, whole, size) in zip(fields, _STEPS, strict=False):
        step = field.removeprefix("*/")
        if step != field and step.isdigit() and size % int(step):
            last = size - 1 - (size - 1) % int(step)
            notes.append(
                f"{field} in the {unit} field begins anew with each {whole}: from {unit} {last} to {unit} 0 the step "
                f"is {size - last}, not {step}. For an even interval use a schedule with `every`."
            )
    return notes


def _clock_changes(timetable: Timetable, tz: str, hours: str, after: datetime) -> list[str]:
    """What becomes of its times at the next gap and at the next overlap that touch them."""
    until = after + _LOOK_AHEAD
    notes: dict[bool, str] = {}
    while len(notes) < 2 and (change := zones.first_change(timetable.zone, after, until)):
        after = change.at
        note = _at_change(timetable, tz, hours, change)
        if note is not None:
            notes.setdefault(change.after > change.before, note)
    return list(notes.values())


def _at_change(timetable: Timetable, tz: str, hours: str, change: OffsetChange) -> str | None:
    """A sentence, when times of the expression lie in what the clocks skip or show twice."""
    before, now = change.at.replace(tzinfo=None) + change.before, change.at.replace(tzinfo=None) + change.after
    first, end = min(before, now), max(before, now)
    local = timetable.expression.at_or_after(first)
    if local is None or local >= end:
        return None
    even = hours == "*" and not (end - first) % timedelta(hours=1)
    if timetable.expression.keeps_interval and even:
        return None
    last = timetable.expression.at_or_before(end - SECOND)
    several = last is not None and last > local
    its = f"its times from {local:%H:%M} to {last:%H:%M}" if several else f"{local:%H:%M}"
    verb, do, their = ("fire", "do", "their") if several else ("fires", "does", "its")
    kept = timetable.expression.keeps_interval
    if now > before:
        said = f"On {before:%Y-%m-%d} the clocks of {tz} skip {first:%H:%M} to {end:%H:%M}: {its} {do} not exist"
        if kept:
            return f"{said}, and nothing fires in {their} place."
        return f"{said}; {'one run' if several else 'it'} fires at {end:%H:%M} instead ({absolute(change.at)})."
    said = f"On {before:%Y-%m-%d} the clocks of {tz} show {first:%H:%M} to {end:%H:%M} twice: {its} {verb}"
    return f"{said} both times, {span(end - first)} apart." if kept else f"{said} the first time only."
