"""Pins: which revisions of its calendars a schedule is bound to, as `name@rev`.

A stored job pins revisions, so that it means the same whenever and wherever it is read. A new revision of a calendar
reaches the job by an edit that binds it again.
"""

from __future__ import annotations

from dataclasses import replace

from cronflow.domain.schedule.calendar import Calendar
from cronflow.domain.schedule.kinds import Cron, Every, Rules, Schedule


def pin_of(calendar: Calendar) -> str:
    return f"{calendar.name}@{calendar.rev}"


def name_of_pin(pin: str) -> str:
    """No name contains an @."""
    return pin.partition("@")[0]


def book_of(schedule: Schedule | None) -> tuple[Calendar, ...]:
    """The calendars that the schedule is bound to."""
    return schedule.book if isinstance(schedule, Rules) else ()


def pins_of(schedule: Schedule | None) -> tuple[str, ...]:
    """The revisions from a cluster that the schedule is bound to."""
    return tuple(pin_of(calendar) for calendar in book_of(schedule) if calendar.rev)


def same_fires(one: Schedule | None, other: Schedule | None) -> bool:
    """Whether two schedules fire at the same instants because they differ at most in which of them are excluded."""
    return one == other or _without_exclusions(one) == _without_exclusions(other)


def _without_exclusions(schedule: Schedule | None) -> Schedule | None:
    """A schedule that fires at the same instants and excludes none; the same one if calendars define its fires."""
    if not isinstance(schedule, Rules) or not schedule.has_exclusions:
        return schedule
    members = getattr(schedule, "schedules", ())
    if any(isinstance(one, Cron) and one.business_day for one in (schedule, *members)):
        return schedule
    if isinstance(schedule, Every) and schedule.time is None and not schedule.after_completion:
        # The zone is that of the exclusions alone, and without them one of whole days would be refused.
        schedule = replace(schedule, tz="UTC")
    return replace(schedule, calendars=(), blackout=(), only_in=(), book=())
