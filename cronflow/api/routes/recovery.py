"""The recovery after an outage: show it, and decide about the missed runs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cronflow.api.access import Operator, Viewer
from cronflow.api.bodies import Input, Note, Text, Uses, body, reads
from cronflow.api.responses import may, new_router
from cronflow.documents.values import optional, text
from cronflow.domain.backfill import BackfillRate, parse_rate
from cronflow.schemas.recovery import RecoverySchema, recovery_schema

router = new_router("cluster")

_rate = optional(lambda value: parse_rate(text(value)))


class ApproveInput(Input, json_schema_extra={"examples": [{"rate": "100/s"}]}):
    """Which missed runs may start, and how fast."""

    rate: Annotated[BackfillRate | None, reads(_rate, Annotated[str | None, Field(examples=["100/s"])])] = None
    """The maximum number of runs per s, m, h or d; null: as before."""
    by_job: Text = None
    """Only runs of jobs that match this pattern, such as `billing-*`; the others keep waiting. null: all."""


class SkipInput(Input, json_schema_extra={"examples": [{"note": "reports of last night are not needed"}]}):
    """Which missed runs to skip, and why."""

    note: Note = ""
    """Stored as the reason of the skipped runs."""
    by_job: Text = None
    """Only runs of jobs that match this pattern; the others keep waiting. null: all."""


@router.get("/cluster/recovery")
async def show_recovery(service: Uses, _: Viewer) -> RecoverySchema:
    """The runs that were missed in an outage, and how many of them are held back."""
    return recovery_schema(await service.catch_up.show(), service.catch_up.now())


@router.post("/cluster/recovery/approve", responses=may(404, 409))
async def approve_recovery(
    service: Uses, by: Operator, asked: Annotated[ApproveInput, body(ApproveInput)]
) -> RecoverySchema:
    """Let missed runs start, by priority and age. Repeating it is safe; it may change the rate. 404 when nothing is
    held back, 409 while the leader counts what was missed, or skips it.
    """
    found = await service.catch_up.approve(rate=asked.rate, only=asked.by_job or "", by=by.name)
    return recovery_schema(found, service.catch_up.now())


@router.post("/cluster/recovery/skip", responses=may(404, 409))
async def skip_recovery(service: Uses, by: Operator, asked: Annotated[SkipInput, body(SkipInput)]) -> RecoverySchema:
    """Record the missed runs that have not started as skipped; later fires run. Repeating it is safe. 404 when nothing
    is held back, 409 while the leader counts what was missed.
    """
    found = await service.catch_up.skip(note=asked.note, only=asked.by_job or "", by=by.name)
    return recovery_schema(found, service.catch_up.now())
