"""Calendars with the jobs that use them, and what a change of one means for these jobs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cronflow.documents.calendars import CalendarForm, calendar_document
from cronflow.domain.applied import Result
from cronflow.domain.schedule import zones
from cronflow.domain.schedule.calendar import WEEKDAYS, Calendar
from cronflow.ports import CalendarRecord
from cronflow.schemas import Schema, iso, optional_iso

if TYPE_CHECKING:
    from cronflow.usecases.calendars import CalendarPlan, CalendarUse, JobEffect

COMING = 20
COMING_DAYS = 2 * 366


class ComingDaySchema(Schema):
    """A day of a calendar that is today or later."""

    day: str
    """Such as `2026-12-25`."""
    weekday: str
    """`mon` to `sun`."""
    name: str
    """Name; may be empty."""


class ComingWindowSchema(Schema):
    """A window between two dates that has not ended yet."""

    start: str
    """Its first instant."""
    end: str
    """When it ends."""
    name: str
    """Name; may be empty."""


class CalendarSummarySchema(Schema):
    """A calendar without its content."""

    name: str
    """Its name."""
    description: str
    """Free text."""
    tz: str | None
    """The zone of its days and times; null: that of the schedule that uses it."""
    revision: int
    """The number of its current revision."""
    day_count: int
    """How many entries of days it has."""
    window_count: int
    """How many windows it has."""
    job_count: int
    """How many jobs use it."""
    updated_at: str
    """When it was last changed."""
    updated_by: str | None
    """Who last changed it."""


class CalendarSchema(Schema, CalendarForm):
    """A calendar, its coming days and windows, and the jobs that use it."""

    revision: int
    """The number of its current revision."""
    coming_days: list[ComingDaySchema]
    """The next days within two years, at most as many as were asked for."""
    coming_windows: list[ComingWindowSchema]
    """The next windows between two dates, at most 20 and within two years. Those with weekdays are not among them."""
    jobs: list[str]
    """The first 100 jobs that use it, by name."""
    job_count: int
    """How many jobs use it."""
    updated_at: str
    """When it was last changed."""
    updated_by: str | None
    """Who last changed it."""


class SkippedFireSchema(Schema):
    """A fire that is skipped from now on."""

    fire: str
    """The instant."""
    reason: str
    """Why."""


class JobEffectSchema(Schema):
    """What a change of a calendar means for a job."""

    job: str
    """The job."""
    next_before: str | None
    """When it would run next without the change."""
    next_after: str | None
    """When it runs next with it."""
    skipped: list[SkippedFireSchema]
    """The fires that are skipped from now on; at most 50."""
    allowed: list[str]
    """The fires that are no longer skipped; at most 50."""
    more: bool
    """Whether there may be others."""


class CalendarPlanSchema(Schema):
    """What a change of a calendar does."""

    name: str
    """The calendar."""
    result: Result
    """What happens to the calendar."""
    job_count: int
    """How many jobs use it. Each that is bound to an earlier revision gets a new version."""
    compared: int
    """How many of these jobs were looked at, in the order of their names; at most 50."""
    days: int
    """How many days ahead."""
    effects: list[JobEffectSchema]
    """The jobs that were looked at and of which some fire is skipped, or no longer skipped."""


class ReadCalendarSchema(Schema):
    """A calendar that was read from an iCalendar file. Nothing was stored."""

    calendar: CalendarForm
    """The calendar."""
    left_out: dict[str, int]
    """How many events were left out, by reason."""
    first: str
    """The first day of the range."""
    last: str
    """The last day of the range."""


class AppliedCalendarSchema(CalendarSchema):
    """A calendar after a change, and what the change did."""

    change: CalendarPlanSchema
    """What the change did."""


def calendar_summary(use: CalendarUse) -> CalendarSummarySchema:
    """A calendar without its content."""
    calendar = use.record.calendar
    return {
        "name": calendar.name,
        "description": calendar.description,
        "tz": calendar.tz,
        "revision": calendar.rev,
        "day_count": len(calendar.days),
        "window_count": len(calendar.windows),
        "job_count": use.job_count,
        "updated_at": iso(use.record.updated_at),
        "updated_by": use.record.updated_by or None,
    }


def calendar_schema(use: CalendarUse, now: datetime, coming: int = COMING) -> CalendarSchema:
    """A calendar with its `coming` next days."""
    record = use.record
    return {
        **calendar_document(record.calendar),
        "revision": record.calendar.rev,
        "coming_days": _coming_days(record.calendar, now, coming),
        "coming_windows": _coming_windows(record, now),
        "jobs": list(use.jobs),
        "job_count": use.job_count,
        "updated_at": iso(record.updated_at),
        "updated_by": record.updated_by or None,
    }


def applied_calendar(use: CalendarUse, plan: CalendarPlan, now: datetime) -> AppliedCalendarSchema:
    """A calendar after a change."""
    return {**calendar_schema(use, now), "change": plan_schema(use.record.name, plan)}


def plan_schema(name: str, plan: CalendarPlan) -> CalendarPlanSchema:
    """What a change does."""
    return {
        "name": name,
        "result": plan.result,
        "job_count": plan.jobs,
        "compared": plan.compared,
        "days": plan.days,
        "effects": [_effect(effect) for effect in plan.effects],
    }


def _effect(effect: JobEffect) -> JobEffectSchema:
    return {
        "job": effect.job,
        "next_before": optional_iso(effect.before),
        "next_after": optional_iso(effect.after),
        "skipped": [{"fire": iso(one.fire), "reason": one.reason} for one in effect.changes.skipped],
        "allowed": [iso(fire) for fire in effect.changes.allowed],
        "more": effect.changes.more,
    }


def _coming_days(calendar: Calendar, now: datetime, most: int) -> list[ComingDaySchema]:
    today = zones.reading(zones.find_zone(calendar.tz or "UTC"), now.astimezone(UTC)).date()
    found = calendar.named_days(today, most, today + timedelta(days=COMING_DAYS))
    return [{"day": day.isoformat(), "weekday": WEEKDAYS[day.weekday()], "name": name} for day, name in found]


def _coming_windows(record: CalendarRecord, now: datetime) -> list[ComingWindowSchema]:
    calendar = record.calendar
    found = calendar.window_set.between(now, now + timedelta(days=COMING_DAYS), calendar.tz or "UTC")
    return [{"start": iso(one.start), "end": iso(one.end), "name": one.name} for one in found[:COMING]]
