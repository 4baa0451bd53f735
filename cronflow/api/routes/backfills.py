"""Backfills: request runs for past instants, follow their progress, and cancel them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Path, Response
from pydantic import Field

from cronflow.api.access import Operator, Viewer
from cronflow.api.bodies import Input, JobName, Note, Uses, body, reads
from cronflow.api.pagination import Cursor, Limit, cursor_of, time_key
from cronflow.api.responses import may, new_router
from cronflow.api.routes.runs import OfJob
from cronflow.documents.values import choice, instant, optional, text
from cronflow.domain.backfill import BackfillRate, BackfillScope, parse_rate
from cronflow.schemas import Schema
from cronflow.schemas.backfills import BackfillSchema, backfill_schema
from cronflow.usecases.backfills import BackfillProgress

router = new_router("backfills")

BackfillId = Annotated[str, Path(description="The backfill.")]
EXAMPLE = {"first": "2026-11-01T00:00:00Z", "last": "2026-11-21T00:00:00Z", "only": "missing", "rate": "10/m"}
_scope = choice(BackfillScope)
_rate = optional(lambda value: parse_rate(text(value)))


class BackfillInput(Input, json_schema_extra={"examples": [EXAMPLE]}):
    """Which instants, and how fast."""

    first: Annotated[datetime, reads(instant, str)]
    """Instants from here on."""
    last: Annotated[datetime, reads(instant, str)]
    """Instants until here; not in the future."""
    only: Annotated[BackfillScope, reads(_scope, BackfillScope)] = BackfillScope.MISSING
    """`missing`: instants without a run that succeeded or is open; `failed`: those of them whose run failed or was
    lost; `all`.
    """
    rate: Annotated[BackfillRate | None, reads(_rate, Annotated[str | None, Field(examples=["10/m"])])] = None
    """The maximum number of runs per s, m, h or d."""
    excluded: bool = False
    """Also the instants that calendars or windows of the schedule exclude."""
    dry_run: bool = False
    """Only return what would be done."""


class BackfillCancelInput(Input, json_schema_extra={"examples": [{"reason": "wrong range"}]}):
    """Why to cancel."""

    reason: Note = ""
    """Stored with the backfill and its open runs."""


class BackfillPage(Schema):
    """Backfills, newest first."""

    items: list[BackfillSchema]
    """The backfills."""
    next_cursor: str | None
    """For the next page; null: this is the last page."""


@router.post(
    "/jobs/{name}/backfill",
    status_code=202,
    responses={200: {"model": BackfillSchema, "description": "Nothing was started."}, **may(404, 409)},
)
async def backfill_job(
    service: Uses,
    by: Operator,
    name: JobName,
    asked: Annotated[BackfillInput, body(BackfillInput)],
    response: Response,
) -> BackfillSchema:
    """Run a job for instants that have passed, in order. Each run has its instant as `fire_at`, and gives way to the
    schedule. At most 10,000 instants at once. 409 while another backfill of the job is running, so repeating the
    request starts no second one.
    """
    if asked.dry_run:
        response.status_code = 200
        planned = await service.backfills.plan(
            name, asked.first, asked.last, asked.only, asked.rate, with_excluded=asked.excluded
        )
        return backfill_schema(planned, planned=True)
    found, started = await service.backfills.request(
        name, asked.first, asked.last, asked.only, asked.rate, with_excluded=asked.excluded, by=by.name
    )
    response.status_code = 202 if started else 200
    return backfill_schema(BackfillProgress(found), planned=not started)


@router.get("/backfills")
async def list_backfills(
    service: Uses, _: Viewer, job: OfJob = None, cursor: Cursor = None, limit: Limit = 50
) -> BackfillPage:
    """Backfills with their progress, newest first."""
    found = await service.backfills.find(job=job, before=time_key(cursor), limit=limit + 1)
    shown = found[:limit]
    last = shown[-1].backfill if len(found) > limit else None
    items = [backfill_schema(one) for one in shown]
    return {"items": items, "next_cursor": None if last is None else cursor_of(last.created_at, last.id)}


@router.get("/backfills/{id}", responses=may(404))
async def show_backfill(
    service: Uses,
    _: Viewer,
    id: BackfillId,  # noqa: A002  the public name
) -> BackfillSchema:
    """A backfill and its progress. `GET /runs?backfill=` has its runs."""
    return backfill_schema(await service.backfills.get(id))


@router.post("/backfills/{id}/cancel", responses=may(404, 409))
async def cancel_backfill(
    service: Uses,
    by: Operator,
    id: BackfillId,  # noqa: A002  the public name
    asked: Annotated[BackfillCancelInput, body(BackfillCancelInput)],
) -> BackfillSchema:
    """Start no more runs of a backfill, and cancel its open runs. Repeating it is safe; 409 when it is done."""
    return backfill_schema(await service.backfills.cancel(id, asked.reason, by=by.name))
