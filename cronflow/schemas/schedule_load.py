"""The herd of all jobs, and what became of one day by day: what heat maps are drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from cronflow.domain.run import RunState
from cronflow.domain.schedule.load import Slot
from cronflow.schemas.base import Schema, iso
from cronflow.usecases.search import ScheduleLoadReport


class SlotSchema(Schema):
    """Where a cron with one minute stands among the others."""

    minute: int
    """Its minute."""
    beside: int
    """How many fires of other jobs share it in a week, in the hours in which it fires."""
    quieter: int | None
    """A minute that fewer share; null: there is none."""
    there: int
    """How many share the quietest."""
    cron: str
    """The expression at the quieter minute."""


class ScheduleLoadSchema(Schema):
    """The fires that are planned for a week."""

    first: str
    """The beginning of the week: of this hour."""
    hours: list[int]
    """How many fires, for each of its 168 hours."""
    jobs: int
    """How many jobs that fire by themselves were counted."""
    more: bool
    """Whether there are more jobs than are looked at."""
    slot: SlotSchema | None
    """Of the schedule that was asked for; null: none was, or it has not one minute."""


class DaySchema(Schema):
    """The runs that fell due on a day in UTC."""

    day: str
    """The day, such as 2026-11-21."""
    states: dict[str, int]
    """How many, by state."""


class DaysSchema(Schema):
    """The runs of a job, day by day."""

    job: str
    """The job."""
    items: list[DaySchema]
    """The days on which any fell due, the newest first."""
    more: bool
    """Whether there are older ones than were counted; then the oldest day may lack some."""


def schedule_load_schema(schedule_load_report: ScheduleLoadReport) -> ScheduleLoadSchema:
    """The fires that are planned for a week."""
    return {
        "first": iso(schedule_load_report.schedule_load.first),
        "hours": schedule_load_report.schedule_load.hours,
        "jobs": schedule_load_report.schedule_load.jobs,
        "more": schedule_load_report.more,
        "slot": None if schedule_load_report.slot is None else slot_schema(schedule_load_report.slot),
    }


def slot_schema(slot: Slot) -> SlotSchema:
    """Where a cron stands."""
    return {
        "minute": slot.minute,
        "beside": slot.beside,
        "quieter": slot.quieter,
        "there": slot.there,
        "cron": slot.cron,
    }


def days_schema(job: str, days: Mapping[date, Mapping[RunState, int]], *, more: bool) -> DaysSchema:
    """The runs of a job, day by day."""
    items: list[DaySchema] = [
        {"day": day.isoformat(), "states": {state.value: count for state, count in states.items()}}
        for day, states in sorted(days.items(), reverse=True)
    ]
    return {"job": job, "items": items, "more": more}
