"""The past: incidents, the onset of failures, the jobs of an instant, and what a timeline shows besides its runs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Query

from cronflow.api.access import Viewer
from cronflow.api.bodies import INSTANT, JobName, Uses
from cronflow.api.pagination import Cursor, cursor_of, name_key
from cronflow.api.responses import may, new_router
from cronflow.schemas import Schema
from cronflow.schemas.post_mortem import (
    IncidentSchema,
    OnsetAnswerSchema,
    PastJobSchema,
    TimelineSchema,
    incident_schema,
    onset_schema,
    past_job_schema,
    timeline_schema,
)

router = new_router("post-mortem")

Begin = Annotated[datetime, INSTANT, Query(description="The beginning, for example 2026-11-21T15:40:00Z.")]
End = Annotated[datetime, INSTANT, Query(description="The end.")]
EndOrNow = Annotated[datetime | None, INSTANT, Query(description="The end; by default now.")]
Instant = Annotated[datetime, INSTANT, Query(description="The instant, for example 2026-11-21T15:54:41Z.")]


class PastJobPage(Schema):
    """Jobs as they were at an instant, by name."""

    items: list[PastJobSchema]
    """The jobs. Those that were deleted since are left out."""
    next_cursor: str | None
    """For the next page; null: this is the last page."""


@router.get("/incident")
async def incident(service: Uses, _: Viewer, since: Begin, until: EndOrNow = None) -> IncidentSchema:
    """The summary of an incident: what failed, was lost or was late within a time range, what happened to the cluster
    then, and what is not recorded. Also as Markdown.
    """
    return incident_schema(await service.post_mortem.incident(since, until))


@router.get("/timeline")
async def timeline(
    service: Uses,
    _: Viewer,
    since: Begin,
    until: End,
    job: Annotated[str | None, Query(max_length=200, description="Only runs and fires of this job.")] = None,
    node: Annotated[str | None, Query(max_length=300, description="Only runs on this node.")] = None,
    fires_until: Annotated[
        datetime | None, INSTANT, Query(description="Also return the next fires until this instant.")
    ] = None,
) -> TimelineSchema:
    """What a timeline shows besides its runs: how many there are, leader changes, deployments and lost nodes, and the
    next fires.
    """
    return timeline_schema(await service.post_mortem.timeline(since, until, job, node, fires_until))


@router.get("/past/jobs")
async def past_jobs(service: Uses, _: Viewer, at: Instant, cursor: Cursor = None) -> PastJobPage:
    """The jobs as they were at an instant, from their stored versions, each with its last run before."""
    found, after = await service.post_mortem.jobs_at(at, name_key(cursor))
    return {
        "items": [past_job_schema(one) for one in found],
        "next_cursor": None if after is None else cursor_of(after),
    }


@router.get("/jobs/{name}/onset", responses=may(404))
async def onset(service: Uses, _: Viewer, name: JobName) -> OnsetAnswerSchema:
    """When the job began to fail, and what changed then: its version, its node, the leader or the deployed code."""
    found = await service.post_mortem.onset(name)
    return {"onset": None if found is None else onset_schema(found)}
