"""Schedule previews, and the data of the heat maps: planned load, and runs by day."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from cronflow.domain.run import RunState
from cronflow.domain.schedule.describe import Preview, describe
from cronflow.domain.schedule.kinds import Cron, Schedule
from cronflow.domain.schedule.load import MINUTES, WEEK_MINUTES, Slot
from cronflow.schemas import Schema, iso
from cronflow.usecases.schedule_load import ScheduleLoadReport


class PreviewSchema(Schema):
    """A schedule in words, with its next fires and warnings."""

    expression: str | None
    """The cron expression; null for other schedules."""
    tz: str
    """The time zone of the schedule."""
    words: str
    """The schedule in words, without its time zone."""
    fires: list[str]
    """The next times at which it fires."""
    notes: list[str]
    """Warnings: behaviour that is easy to miss."""


def preview_schema(preview: Preview) -> PreviewSchema:
    return {
        "expression": preview.schedule.expr if isinstance(preview.schedule, Cron) else None,
        "tz": getattr(preview.schedule, "tz", "UTC"),
        "words": schedule_words(preview.schedule),
        "fires": [iso(fire) for fire in preview.fires],
        "notes": list(preview.notes),
    }


def schedule_words(schedule: Schedule) -> str:
    return describe(schedule, zone=False)


class SlotSchema(Schema):
    """The rank of a cron's minute among all jobs."""

    minute: int
    """Minute of the schedule."""
    beside: int
    """Fires of other jobs per week at this minute, in the same hours."""
    quieter: int | None
    """A less busy minute; null: there is none."""
    there: int
    """Fires of other jobs at the quieter minute."""
    cron: str
    """The cron expression at the quieter minute."""


class ScheduleLoadSchema(Schema):
    """Planned fires for one week."""

    first: str
    """Start of the week: the current hour."""
    hours: list[int]
    """Fires in each of the 168 hours."""
    jobs: int
    """Number of scheduled jobs that were counted."""
    more: bool
    """Whether some jobs were not counted."""
    slot: SlotSchema | None
    """Rank of the requested schedule; null: none was requested, or it does not fire at a single minute."""


class DaySchema(Schema):
    """Runs that were due on a day in UTC."""

    day: str
    """The day, such as 2026-11-21."""
    states: dict[str, int]
    """Number of runs by state."""


class DaysSchema(Schema):
    """Runs of a job by day."""

    job: str
    """The job."""
    items: list[DaySchema]
    """Days with due runs, newest first."""
    more: bool
    """Whether older runs were not counted; the oldest day may be incomplete."""


def schedule_load_schema(report: ScheduleLoadReport) -> ScheduleLoadSchema:
    """Planned fires for one week."""
    load = report.schedule_load
    starts = load.minutes()
    return {
        "first": iso(load.first),
        "hours": [sum(starts[at : at + MINUTES]) for at in range(0, WEEK_MINUTES, MINUTES)],
        "jobs": load.jobs,
        "more": report.more,
        "slot": None if report.slot is None else slot_schema(report.slot),
    }


def slot_schema(slot: Slot) -> SlotSchema:
    return {
        "minute": slot.minute,
        "beside": slot.beside,
        "quieter": slot.quieter,
        "there": slot.there,
        "cron": slot.cron,
    }


def days_schema(job: str, days: Mapping[date, Mapping[RunState, int]], *, more: bool) -> DaysSchema:
    items: list[DaySchema] = [
        {"day": day.isoformat(), "states": {state.value: count for state, count in states.items()}}
        for day, states in sorted(days.items(), reverse=True)
    ]
    return {"job": job, "items": items, "more": more}
