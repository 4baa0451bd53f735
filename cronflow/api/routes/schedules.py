"""Schedules that no job has yet: what they mean, and how they stand among those of all jobs."""

from __future__ import annotations

from typing import Annotated, NotRequired

from fastapi import Query

from cronflow.api.access import Viewer
from cronflow.api.bodies import Body, Uses, fields_of, takes
from cronflow.api.responses import may, new_router
from cronflow.documents import parse_schedule
from cronflow.documents.forms import ScheduleForm
from cronflow.documents.values import instant, whole
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.schemas import Schema
from cronflow.schemas.schedules import PreviewSchema, ScheduleLoadSchema, preview_schema, schedule_load_schema

router = new_router("schedules")

MOST = 100


class PreviewInput(Schema):
    """A schedule, as a job has it."""

    schedule: ScheduleForm
    """The schedule."""
    count: NotRequired[int]
    """How many fires, 1 to 100; 10 unless it is given."""
    start: NotRequired[str]
    """Fires from this instant on; from now on unless it is given."""


@router.post(
    "/schedules/preview",
    openapi_extra=takes("PreviewInput", {"schedule": {"cron": "0 9 * * MON#2", "tz": "Europe/Berlin"}, "count": 3}),
)
async def preview_schedule(service: Uses, _: Viewer, body: Body) -> PreviewSchema:
    """What a schedule means: in words, as its next fires, and with what may surprise."""
    asked = fields_of(body, {"schedule": lambda value: value, "count": _count, "start": instant}, ["schedule"])
    schedule = parse_schedule(asked["schedule"])
    return preview_schema(service.jobs.preview(schedule, asked.get("count", 10), asked.get("start")))


@router.get("/schedules/herd", responses=may(404))
async def schedule_load(
    service: Uses,
    _: Viewer,
    job: Annotated[str | None, Query(max_length=200, description="Where this job stands among the others.")] = None,
    cron: Annotated[str | None, Query(max_length=500, description="Where this expression would stand.")] = None,
    tz: Annotated[str, Query(max_length=100, description="The zone of `cron`.")] = "UTC",
) -> ScheduleLoadSchema:
    """The fires that all jobs have planned for the coming week, hour by hour; 2,000 jobs are looked at. With `job` or
    `cron` also how many of them share its minute, and a quieter one. Whoever moves a job patches its schedule.
    """
    if job is not None and cron is not None:
        raise InvalidInput(Problem("cron", "a job is given too", "give one of the two"))
    schedule = None if cron is None else parse_schedule({"cron": cron, "tz": tz})
    return schedule_load_schema(await service.jobs.schedule_load(job or "", schedule))


def _count(value: object) -> int:
    read = whole(value)
    if not 1 <= read <= MOST:
        raise InvalidInput(f"is {read}; it must be 1 to {MOST}")
    return read
