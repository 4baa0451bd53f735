"""Warnings about cron expressions: two day fields, steps that start over, daylight saving.

Each warning states what will happen, by the rules of `cronflow.domain.schedule.timetable`, and what to write instead.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from cronflow.domain.durations import absolute, span
from cronflow.domain.schedule import zones
from cronflow.domain.schedule.cron_expression import NICKNAMES
from cronflow.domain.schedule.dst import GapPolicy, RepeatPolicy
from cronflow.domain.schedule.fires import timetable_of
from cronflow.domain.schedule.kinds import AnyOf, Cron, Every, Schedule
from cronflow.domain.schedule.timetable import Timetable
from cronflow.domain.schedule.zones import SECOND, OffsetChange

_LOOK_AHEAD = timedelta(days=400)
_STEPS = (("second", "minute", 60), ("minute", "hour", 60), ("hour", "day", 24))


def notes_on(schedule: Schedule, after: datetime) -> list[str]:
    """The warnings that apply to the fires after an instant, without duplicates."""
    match schedule:
        case Cron():
            return _on_cron(schedule, after)
        case Every() if schedule.after_completion:
            return ["Later fires depend on when each run ends; those shown are the earliest."]
        case Every() if schedule.time is not None:
            return _clock_changes(timetable_of(schedule), schedule.tz, "", after)
        case AnyOf():
            return list(dict.fromkeys(note for one in schedule.schedules for note in notes_on(one, after)))
    return []


def mistakes_in(schedule: Schedule, after: datetime, *, clock_changes: bool) -> list[str]:
    """The notes about what is likely a mistake; with `clock_changes` also the first one about times that the clocks
    skip or show twice.
    """
    parts = schedule.schedules if isinstance(schedule, AnyOf) else (schedule,)
    found: list[str] = []
    for part in parts:
        hours = ""
        if isinstance(part, Cron):
            fields = NICKNAMES.get(part.plain.lower(), part.plain).upper().split()
            fields = fields if len(fields) == 6 else ["0", *fields]
            hours = fields[2]
            found += [*_days(fields[3], fields[5]), *_steps(fields)]
        if clock_changes and (isinstance(part, Cron) or (isinstance(part, Every) and part.time is not None)):
            found += _clock_changes(timetable_of(part), part.tz, hours, after)[:1]
    return list(dict.fromkeys(found))


def _on_cron(schedule: Cron, after: datetime) -> list[str]:
    plain = schedule.plain
    expr = NICKNAMES.get(plain.lower(), plain)
    fields = expr.upper().split()
    notes = []
    if plain != schedule.expr:
        by = (
            f"the name {schedule.seed.partition('/')[0]}"
            if schedule.seed
            else "the name of the job, which is not given"
        )
        notes.append(f"H in {schedule.expr} is chosen by {by}: {plain}.")
    if expr != plain:
        notes.append(f"{schedule.expr} is short for {expr}.")
    if len(fields) == 6:
        notes.append("This expression has six fields: the first one is seconds.")
    else:
        fields = ["0", *fields]
    notes += _days(fields[3], fields[5])
    notes += _steps(fields)
    notes += _clock_changes(timetable_of(schedule), schedule.tz, fields[2], after)
    return notes


def _days(day_of_month: str, day_of_week: str) -> list[str]:
    if "*" in (day_of_month, day_of_week):
        return []
    both = f"Day-of-month ({day_of_month}) and day-of-week ({day_of_week}) are both set"
    starred = [(field, days) for field, days in ((day_of_month, "1-31"), (day_of_week, "0-6")) if field[0] == "*"]
    if not starred:
        return [f"{both}, so it fires on days that match either one. To use only one of them, set the other to *."]
    begin = "both start" if len(starred) == 2 else "one starts"
    ranges = " and ".join(f"{days}{field[1:]} instead of {field}" for field, days in starred)
    so = f"{both} and {begin} with *, so it fires only on days that match both."
    return [f"{so} To fire on days that match either one, write {ranges}."]


def _steps(fields: list[str]) -> list[str]:
    notes = []
    for place, (unit, whole, size) in enumerate(_STEPS):
        field = fields[place]
        step = field.removeprefix("*/")
        if step != field and step.isdigit() and size % int(step):
            last = size - 1 - (size - 1) % int(step)
            note = f"{field} in the {unit} field starts over every {whole}: the step from {unit} {last} to {unit} 0 is "
            note += f"{size - last}, not {step}."
            if set(fields[place + 1 :]) == {"*"}:
                note += f" For an even interval, use `every: {step}{unit[0]}` instead of cron."
            notes.append(note)
    return notes


def _clock_changes(timetable: Timetable, tz: str, hours: str, after: datetime) -> list[str]:
    """What happens to its times at the next gap and at the next overlap that affect them."""
    until = after + _LOOK_AHEAD
    notes: dict[bool, str] = {}
    while len(notes) < 2 and (change := zones.first_change(timetable.zone, after, until)):
        after = change.at
        note = _at_change(timetable, tz, hours, change)
        if note is not None:
            notes.setdefault(change.after > change.before, note)
    if not notes:
        return []
    remedy = "Set dst to choose what happens then, or choose other hours or a zone without clock changes, such as UTC."
    return [*notes.values(), remedy]


def _at_change(timetable: Timetable, tz: str, hours: str, change: OffsetChange) -> str | None:
    """A sentence, when times of the expression lie in what the clocks skip or show twice."""
    before, now = change.at.replace(tzinfo=None) + change.before, change.at.replace(tzinfo=None) + change.after
    first, end = min(before, now), max(before, now)
    local = timetable.times.at_or_after(first)
    if local is None or local >= end:
        return None
    even = hours == "*" and not (end - first) % timedelta(hours=1)
    if timetable.times.keeps_interval and even:
        return None
    last = timetable.times.at_or_before(end - SECOND)
    several = last is not None and last > local
    times = f"the times from {local:%H:%M} to {last:%H:%M}" if several else f"{local:%H:%M}"
    verb, do = ("occur", "do") if several else ("occurs", "does")
    dst = timetable.dst
    if now > before:
        skip = f"On {before:%Y-%m-%d} clocks in {tz} skip from {first:%H:%M} to {end:%H:%M}, so {times} {do} not exist"
        if dst.gap is GapPolicy.SKIP:
            return f"{skip} and nothing fires for {'them' if several else 'it'}."
        if dst.gap is GapPolicy.SHIFT:
            return f"{skip}; {'they fire' if several else 'the job fires'} {span(end - first)} later on the clocks."
        return f"{skip}; {'one run' if several else 'the job'} fires at {end:%H:%M} instead ({absolute(change.at)})."
    back = f"On {before:%Y-%m-%d} clocks in {tz} go back from {end:%H:%M} to {first:%H:%M}, so {times} {verb} twice"
    if dst.overlap is RepeatPolicy.BOTH:
        return f"{back} and the job fires both times, {span(end - first)} apart."
    return f"{back}; the job fires only the {'first' if dst.overlap is RepeatPolicy.FIRST else 'second'} time."
