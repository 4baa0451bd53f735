"""Preview a schedule, and the load of all schedules."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import Field

from cronflow.api.access import Viewer
from cronflow.api.bodies import Input, Instant, Uses, body, reads
from cronflow.api.responses import may, new_router
from cronflow.documents import parse_schedule
from cronflow.documents.jobs import ScheduleForm
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.schedule.kinds import Schedule
from cronflow.schemas.schedules import PreviewSchema, ScheduleLoadSchema, preview_schema, schedule_load_schema

router = new_router("schedules")

PREVIEW = {"schedule": {"cron": "0 9 * * MON#2", "tz": "Europe/Berlin"}, "count": 3}


class PreviewInput(Input, json_schema_extra={"examples": [PREVIEW]}):
    """A schedule, as in a job."""

    schedule: Annotated[Schedule, reads(lambda value: parse_schedule(value, ""), ScheduleForm)]
    """The schedule."""
    count: Annotated[int, Field(ge=1, le=100)] = 10
    """How many fires."""
    start: Instant = None
    """Fires from this instant on; by default from now."""


@router.post("/schedules/preview")
async def preview_schedule(
    service: Uses, _: Viewer, asked: Annotated[PreviewInput, body(PreviewInput)]
) -> PreviewSchema:
    """What a schedule means: in words, its next fires, and warnings."""
    return preview_schema(service.jobs.preview(asked.schedule, asked.count, asked.start))


@router.get("/schedules/herd", responses=may(404))
async def schedule_load(
    service: Uses,
    _: Viewer,
    job: Annotated[str | None, Query(max_length=200, description="Compare this job with the others.")] = None,
    cron: Annotated[str | None, Query(max_length=500, description="Compare this expression with the jobs.")] = None,
    tz: Annotated[str, Query(max_length=100, description="The time zone of `cron`.")] = "UTC",
) -> ScheduleLoadSchema:
    """The fires of all jobs in the coming week, hour by hour; at most 2,000 jobs are read. With `job` or `cron` also
    how many share its minute, and a quieter minute. To move a job, patch its schedule.
    """
    if job is not None and cron is not None:
        raise InvalidInput(Problem("cron", "cannot be combined with job", "use one of the two"))
    schedule = None if cron is None else parse_schedule({"cron": cron, "tz": tz})
    return schedule_load_schema(await service.jobs.schedule_load(job or "", schedule))
