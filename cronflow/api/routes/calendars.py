"""Calendars: named days and windows of time that the schedules of several jobs share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import Path, Query, Response

from cronflow.api.access import Editor, Viewer
from cronflow.api.bodies import Body, Uses, takes
from cronflow.api.pagination import Cursor, Limit, first_of, name_key
from cronflow.api.responses import may, new_router
from cronflow.documents.calendars import parse_calendar
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.schedule.calendar import Calendar
from cronflow.schemas import Schema
from cronflow.schemas.calendars import (
    AppliedCalendarSchema,
    CalendarPlanSchema,
    CalendarSchema,
    CalendarSummarySchema,
    applied_calendar,
    calendar_schema,
    calendar_summary,
    plan_schema,
)
from cronflow.usecases.calendars import DAYS, MOST_DAYS

router = new_router("calendars")

EXAMPLE = {
    "tz": "Europe/Berlin",
    "days": [{"day": "12-25", "name": "Christmas Day"}, {"first": "2026-12-28", "last": "2026-12-30"}],
    "description": "When nobody is in the office",
}

CalendarName = Annotated[str, Path(description="The calendar.")]
Days = Annotated[int, Query(ge=1, le=MOST_DAYS, description="How many days ahead fires are compared.")]


class CalendarPage(Schema):
    """Calendars, by name."""

    items: list[CalendarSummarySchema]
    """The calendars."""
    next_cursor: str | None
    """For the next page; null: this is the last page."""


@router.get("/calendars")
async def list_calendars(service: Uses, _: Viewer, cursor: Cursor = None, limit: Limit = 50) -> CalendarPage:
    """Calendars, by name, without their days and windows."""
    found = await service.calendars.find(after=name_key(cursor), limit=limit + 1)
    shown, after = first_of(found, limit, lambda use: use.record.name)
    return {"items": [calendar_summary(use) for use in shown], "next_cursor": after}


@router.get("/calendars/{name}", responses=may(404))
async def show_calendar(service: Uses, _: Viewer, name: CalendarName) -> CalendarSchema:
    """A calendar, its coming days and windows, and the jobs that use it."""
    return calendar_schema(await service.calendars.get(name), service.calendars.now())


@router.put("/calendars/{name}", responses=may(201, 409), openapi_extra=takes("CalendarReplacement", EXAMPLE))
async def put_calendar(
    service: Uses, by: Editor, name: CalendarName, body: Body, response: Response, days: Days = DAYS
) -> AppliedCalendarSchema:
    """Create or change a calendar, and edit each job that uses it. The body may omit the name."""
    use, result, plan = await service.calendars.define(_read(name, body), by=by.name, days=days)
    response.status_code = 201 if result == "created" else 200
    return applied_calendar(use, plan, service.calendars.now())


@router.post("/calendars/{name}/plan", openapi_extra=takes("CalendarReplacement", EXAMPLE))
async def plan_calendar(
    service: Uses, _: Viewer, name: CalendarName, body: Body, days: Days = DAYS
) -> CalendarPlanSchema:
    """What putting this calendar would change: the jobs, and their fires that are skipped or no longer skipped."""
    return plan_schema(name, await service.calendars.plan(_read(name, body), days))


@router.delete("/calendars/{name}", status_code=204, response_class=Response, responses=may(404, 409))
async def delete_calendar(service: Uses, by: Editor, name: CalendarName) -> None:
    """Delete a calendar. 409 while jobs use it."""
    await service.calendars.delete(name, by=by.name)


def _read(name: str, body: object) -> Calendar:
    calendar = parse_calendar({"name": name, **body} if isinstance(body, Mapping) else body)
    if calendar.name != name:
        raise InvalidInput(Problem("name", f"is {calendar.name!r}, but the path has {name!r}", "leave it out"))
    return calendar
