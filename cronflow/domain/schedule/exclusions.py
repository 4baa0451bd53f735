"""Exclusions: which fires of a schedule are skipped, by which calendar, and which fire comes next after them.

A fire on a day of one of its `calendars` is skipped, and so is one in its `blackout` or outside of `only_in`. An
excluded fire stays a fire: the planner records a skipped run for it, with the reason, so that each instant has an
outcome.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from cronflow.domain.schedule.calendar import Calendar
from cronflow.domain.schedule.fires import next_after
from cronflow.domain.schedule.kinds import Every, Once, Repeating, Schedule, find_calendar
from cronflow.domain.schedule.windows import Period, Window, WindowSet, window_set
from cronflow.domain.schedule.zones import LATEST, SECOND

MOST_STEPS = 1000
"""Excluded stretches that a search passes over: a schedule whose calendars exclude nearly everything has no next fire
within so many days.
"""
_NO_TIME = timedelta(0)


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Why a fire is skipped, and an instant up to which every other fire is skipped too, not included."""

    reason: str
    until: datetime


def exclusion(schedule: Schedule | None, fire: datetime) -> Exclusion | None:
    """Why a fire is skipped; None when it is not. Raises InvalidInput when a calendar of the schedule is missing."""
    if schedule is None or isinstance(schedule, Once) or not schedule.has_exclusions:
        return None
    for name in schedule.calendars:
        if found := find_calendar(schedule, name).span_at(fire, schedule.tz):
            return Exclusion(_reason(f"calendar {name}", found.name), found.end)
    for entry in schedule.blackout:
        if isinstance(entry, str):
            found = find_calendar(schedule, entry).span_at(fire, schedule.tz)
            source = f"blackout {entry}"
        else:
            found, source = window_set((entry,)).span_at(fire, schedule.tz), "blackout"
        if found:
            name = found.name or ("" if isinstance(entry, str) else _window_text(entry))
            return Exclusion(_reason(source, name), found.end)
    return _outside(schedule, fire) if schedule.only_in else None


def next_allowed(schedule: Schedule, after: datetime) -> datetime | None:
    """The first fire after an instant that is not excluded; None when there is none, or none after MOST_STEPS excluded
    stretches.
    """
    for _ in range(MOST_STEPS):
        fire = next_after(schedule, after)
        if fire is None:
            return None
        excluded = exclusion(schedule, fire)
        if excluded is None:
            return fire
        after = _last_excluded(schedule, fire, excluded.until)
    return None


def allowed_from(schedule: Schedule | None, fire: datetime | None) -> datetime | None:
    """This fire, or the next one that is not excluded: when a job whose cursor is here runs next."""
    if schedule is None or fire is None or exclusion(schedule, fire) is None:
        return fire
    return next_allowed(schedule, fire)


def allowed_until(schedule: Schedule | None, instant: datetime) -> datetime:
    """An instant later than this one, which is not excluded, up to which none is, not included."""
    if schedule is None or isinstance(schedule, Once) or not schedule.has_exclusions:
        return LATEST
    excluding = [_source(schedule, entry) for entry in (*schedule.calendars, *schedule.blackout)]
    ends = [begin for one in excluding if (begin := one.next_begin(instant, schedule.tz)) is not None]
    allowing = [_source(schedule, entry).span_at(instant, schedule.tz) for entry in schedule.only_in]
    if allowing:
        ends.append(max(span.end for span in allowing if span is not None))
    return min(ends, default=LATEST)


def _source(schedule: Repeating, entry: str | Window) -> WindowSet | Calendar:
    return find_calendar(schedule, entry) if isinstance(entry, str) else window_set((entry,))


def _last_excluded(schedule: Schedule, fire: datetime, until: datetime) -> datetime:
    """An instant from which the next fire is the first one at or after `until`, if that one is later than `fire`."""
    if isinstance(schedule, Every) and schedule.after_completion:
        # Each fire counts from the one before.
        return fire + max(until - SECOND - fire, _NO_TIME) // schedule.interval * schedule.interval
    return max(fire, until - SECOND)


def _outside(schedule: Repeating, fire: datetime) -> Exclusion | None:
    """Nothing when one of `only_in` contains the fire; else the exclusion up to where the next one may begin."""
    windows = window_set(tuple(entry for entry in schedule.only_in if not isinstance(entry, str)))
    calendars = [find_calendar(schedule, entry) for entry in schedule.only_in if isinstance(entry, str)]
    sources: list[WindowSet | Calendar] = [windows, *calendars]
    if any(one.span_at(fire, schedule.tz) for one in sources):
        return None
    begins = [begin for one in sources if (begin := one.next_begin(fire, schedule.tz)) is not None]
    names = [entry if isinstance(entry, str) else entry.name or _window_text(entry) for entry in schedule.only_in]
    return Exclusion(f"outside of {' and '.join(names)}", min(begins, default=LATEST))


def _reason(source: str, name: str) -> str:
    return f"{source}: {name}" if name else source


def _window_text(window: Window) -> str:
    if isinstance(window, Period):
        return f"{window.start:%Y-%m-%d %H:%M} to {window.end:%Y-%m-%d %H:%M}"
    return f"{window.start:%H:%M} to {window.end:%H:%M}"
