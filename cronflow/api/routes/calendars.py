"""Calendars: named days and windows of time that the schedules of several jobs share."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import date
from typing import Annotated

from fastapi import Path, Query, Response

from cronflow.api.access import Editor, Viewer
from cronflow.api.bodies import Body, Input, Uses, body, reads, takes
from cronflow.api.pagination import Cursor, Limit, first_of, name_key
from cronflow.api.responses import may, new_router
from cronflow.documents.calendars import calendar_document, date_of, parse_calendar
from cronflow.documents.values import optional
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.names import check_name
from cronflow.domain.schedule.calendar import Calendar
from cronflow.files.icalendar_file import default_range, parse_icalendar
from cronflow.schemas import Schema
from cronflow.schemas.calendars import (
    COMING,
    AppliedCalendarSchema,
    CalendarPlanSchema,
    CalendarSchema,
    CalendarSummarySchema,
    ReadCalendarSchema,
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

FILE = {"text": "BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n", "last": "2028-12-31"}
MOST_COMING = 800

CalendarName = Annotated[str, Path(description="The calendar.")]
Days = Annotated[int, Query(ge=1, le=MOST_DAYS, description="How many days ahead fires are compared.")]


Coming = Annotated[int, Query(ge=0, le=MOST_COMING, description="How many of the next days to list.")]
_day = optional(date_of)


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
async def show_calendar(service: Uses, _: Viewer, name: CalendarName, coming: Coming = COMING) -> CalendarSchema:
    """A calendar, its coming days and windows, and the jobs that use it."""
    return calendar_schema(await service.calendars.get(name), service.calendars.now(), coming)


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


class FileInput(Input, json_schema_extra={"examples": [FILE]}):
    """An iCalendar file, and the range of days for which its repeating events are expanded."""

    text: str
    """The content of the .ics file."""
    first: Annotated[date | None, reads(_day, str | None)] = None
    """The first day; null: the first one of this year."""
    last: Annotated[date | None, reads(_day, str | None)] = None
    """The last day; null: ten years ahead."""


@router.post("/calendars/{name}/read")
async def read_calendar(
    service: Uses, _: Editor, name: CalendarName, asked: Annotated[FileInput, body(FileInput)]
) -> ReadCalendarSchema:
    """Convert an iCalendar file (.ics) to a calendar of this name, without storing it."""
    first, last = default_range(service.calendars.now().date())
    first, last = asked.first or first, asked.last or last
    content = asked.text.encode()
    # Thousands of repeating events take a second.
    found = await asyncio.to_thread(
        parse_icalendar, content, "text", check_name(name, "calendar"), first, last, ends="last"
    )
    return {
        "calendar": calendar_document(found.calendar),
        "left_out": {reason: count for reason, count in found.left_out.items() if count},
        "first": first.isoformat(),
        "last": last.isoformat(),
    }


@router.delete("/calendars/{name}", status_code=204, response_class=Response, responses=may(404, 409))
async def delete_calendar(service: Uses, by: Editor, name: CalendarName) -> None:
    """Delete a calendar. 409 while jobs use it."""
    await service.calendars.delete(name, by=by.name)


def _read(name: str, body: object) -> Calendar:
    calendar = parse_calendar({"name": name, **body} if isinstance(body, Mapping) else body)
    if calendar.name != name:
        raise InvalidInput(Problem("name", f"is {calendar.name!r}, but the path has {name!r}", "leave it out"))
    return calendar
