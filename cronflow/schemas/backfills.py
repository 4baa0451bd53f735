"""Backfills and their progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NotRequired

from cronflow.domain.backfill import Backfill, BackfillScope
from cronflow.domain.run import OPEN
from cronflow.schemas import Schema, iso, optional_iso, optional_milliseconds

if TYPE_CHECKING:
    from cronflow.usecases.backfills import BackfillProgress

MOST_EXCLUDED = 100


class ExcludedInstantSchema(Schema):
    """An instant that gets no run."""

    at: str
    """The instant."""
    reason: str
    """The calendar or window that excludes it."""


class ExcludedInstantsSchema(Schema):
    """The instants that get no run, because calendars or windows of the schedule exclude them."""

    count: int
    """How many."""
    first: list[ExcludedInstantSchema]
    """The first hundred."""


class BackfillSchema(Schema):
    """A backfill, or what one would do."""

    id: str | None
    """`<job>~b<number>`; null: nothing was started."""
    job: str
    """The job."""
    state: Literal["planned", "running", "done", "cancelled"]
    """`planned`: nothing was started."""
    only: BackfillScope
    """Which instants get a run."""
    first: str
    """Instants from here on."""
    last: str
    """Instants until here."""
    rate: str | None
    """The maximum number of runs per unit of time, such as `10/m`."""
    total: int
    """Number of its runs."""
    first_instant: str | None
    """The first instant with a run."""
    last_instant: str | None
    """The last instant with a run."""
    least_ms: int | None
    """How long it takes at least at this rate; null: no rate."""
    started: int
    """Number of runs so far, open or ended."""
    open: int
    """Number of open runs."""
    runs: dict[str, int]
    """Number of runs by state."""
    waiting: str | None
    """Why no run starts now, such as a paused job."""
    by: str | None
    """Who requested it."""
    created_at: str
    """When it was requested."""
    ended_at: str | None
    """When all its runs had ended, or when it was cancelled."""
    cancelled_by: str | None
    """Who cancelled it."""
    reason: str | None
    """Why it was cancelled."""
    excluded: NotRequired[ExcludedInstantsSchema]
    """Only in a dry run, if there are any."""


def backfill_schema(progress: BackfillProgress, *, planned: bool = False) -> BackfillSchema:
    one: Backfill = progress.backfill
    schema: BackfillSchema = {
        "id": None if planned else one.id,
        "job": one.job,
        "state": "planned" if planned else one.state.value,
        "only": one.scope,
        "first": iso(one.first),
        "last": iso(one.last),
        "rate": None if one.rate is None else str(one.rate),
        "total": one.total,
        "first_instant": optional_iso(one.first_instant),
        "last_instant": optional_iso(one.last_instant),
        "least_ms": optional_milliseconds(one.least_duration),
        "started": sum(progress.counts.values()),
        "open": sum(count for state, count in progress.counts.items() if state in OPEN),
        "runs": {state.value: count for state, count in sorted(progress.counts.items())},
        "waiting": progress.waiting,
        "by": one.by or None,
        "created_at": iso(one.created_at),
        "ended_at": optional_iso(one.ended_at),
        "cancelled_by": one.cancelled_by or None,
        "reason": one.reason or None,
    }
    if progress.excluded:
        first: list[ExcludedInstantSchema] = [
            {"at": iso(at), "reason": reason} for at, reason in list(progress.excluded.items())[:MOST_EXCLUDED]
        ]
        schema["excluded"] = {"count": len(progress.excluded), "first": first}
    return schema
