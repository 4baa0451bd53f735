"""A job, its versions, and what a change would make of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NotRequired

from cronflow.documents import JobForm, job_document
from cronflow.domain.job import JobRecord, PendingRun
from cronflow.domain.run import Run, RunState
from cronflow.domain.version import Version
from cronflow.schemas.base import Schema, iso, optional_iso
from cronflow.schemas.preview import schedule_words
from cronflow.schemas.runs import CoversSchema, MarkSchema, covers_schema, mark_schema
from cronflow.usecases.edit import Result
from cronflow.usecases.jobs import Comparison

JobState = Literal["active", "paused", "disabled", "done", "by_hand"]


class PendingRunSchema(Schema):
    """The run that the last move of the schedule made."""

    fire: str
    """The instant."""
    state: RunState
    """How it began."""
    node: str | None
    """The node that it was given to."""
    fence: int
    """Its fencing token."""
    reason: str | None
    """Why it was skipped."""
    covers: CoversSchema | None
    """The missed instants that it stands for."""
    at: str
    """When it was decided."""


class JobSchema(Schema, JobForm):
    """A job's document with every default, and beside it what the cluster keeps of it."""

    state: JobState
    """`done`: it will not fire again; `by_hand`: it has no schedule."""
    words: str | None
    """Its schedule in words, without the zone; null: it has none."""
    paused: bool
    """Whether somebody has paused it."""
    next_fire: str | None
    """The next instant at which it falls due."""
    due_at: str | None
    """When the planner looks at it again."""
    pending_run: PendingRunSchema | None
    """The run that the last move of the schedule made."""
    version: int
    """Counts the edits; it is the ETag."""
    revision: int
    """Counts all writes."""
    term: int
    """The term of the leader that wrote it last."""
    created_at: str
    """When it was defined."""
    updated_at: str
    """When it was edited last."""


class VersionSchema(Schema):
    """A job as it was from an instant on."""

    version: int
    """Its number."""
    at: str
    """When it began."""
    by: str | None
    """Who made it."""
    state: Literal["active", "paused", "disabled", "deleted"]
    """Whether fires were planned under it."""
    since: str | None
    """The first instant that may fall due under it."""
    job: JobForm
    """The document."""


class DifferenceSchema(Schema):
    """A part of the document that differs."""

    field: str
    """Its path, as `schedule.cron`."""
    before: object
    """Its value now; null: it has none."""
    after: object
    """Its value then; null: it has none."""


class AppliedSchema(Schema):
    """What became, or would become, of a job."""

    name: str
    """The job."""
    result: Result
    """What was, or would be, done."""
    state: JobState
    """As it then is."""
    next_fire: str | None
    """The next instant at which it then falls due."""
    changes: NotRequired[list[DifferenceSchema]]
    """What differs; there for a job that would be changed."""


class RecentSchema(Schema):
    """How a job does."""

    job: str
    """The job."""
    state: JobState
    """As it is."""
    next_fire: str | None
    """The next instant at which it falls due."""
    runs: list[MarkSchema]
    """Its last runs, those that fell due last first."""


class FiresSchema(Schema):
    """The next instants of a job."""

    job: str
    """The job."""
    state: JobState
    """None of them will run while it is paused or disabled."""
    fires: list[str]
    """The instants."""


class DeletedSchema(Schema):
    """A job that was deleted."""

    name: str
    """The job."""
    deleted_at: str | None
    """When."""


def job_state(record: JobRecord) -> JobState:
    """active, paused, disabled, done (it will not fire again) or by_hand."""
    if not record.job.enabled:
        return "disabled"
    if record.paused:
        return "paused"
    if record.job.schedule is None:
        return "by_hand"
    return "done" if record.next_fire is None else "active"


def job_schema(record: JobRecord) -> JobSchema:
    """The job's document with every default, and beside it what the cluster keeps of it."""
    return {
        **job_document(record.job),
        "state": job_state(record),
        "words": None if record.job.schedule is None else schedule_words(record.job.schedule),
        "paused": record.paused,
        "next_fire": optional_iso(record.next_fire),
        "due_at": optional_iso(record.due_at),
        "pending_run": None if record.pending_run is None else _pending_run(record.pending_run),
        "version": record.ver,
        "revision": record.rev,
        "term": record.term,
        "created_at": iso(record.created_at),
        "updated_at": iso(record.updated_at),
    }


def _pending_run(pending_run: PendingRun) -> PendingRunSchema:
    return {
        "fire": iso(pending_run.fire),
        "state": pending_run.state,
        "node": pending_run.node,
        "fence": pending_run.fence,
        "reason": pending_run.reason,
        "covers": covers_schema(pending_run.covers),
        "at": iso(pending_run.at),
    }


def version_schema(version: Version) -> VersionSchema:
    """A version, for scripts."""
    return {
        "version": version.ver,
        "at": iso(version.at),
        "by": version.by or None,
        "state": version.held or "active",
        "since": optional_iso(version.since),
        "job": job_document(version.job),
    }


def comparison_schema(comparison: Comparison) -> AppliedSchema:
    """What became, or would become, of a job."""
    shape: AppliedSchema = {
        "name": comparison.record.name,
        "result": comparison.result,
        "state": job_state(comparison.record),
        "next_fire": optional_iso(comparison.record.next_fire),
    }
    if comparison.differences:
        shape["changes"] = [{"field": path, "before": old, "after": new} for path, old, new in comparison.differences]
    return shape


def recent_schema(record: JobRecord, runs: Sequence[Run]) -> RecentSchema:
    """How a job does."""
    return {
        "job": record.name,
        "state": job_state(record),
        "next_fire": optional_iso(record.next_fire),
        "runs": [mark_schema(run) for run in runs],
    }


def fires_schema(record: JobRecord, fires: Sequence[datetime]) -> FiresSchema:
    """The next instants of a job."""
    return {"job": record.name, "state": job_state(record), "fires": [iso(fire) for fire in fires]}


def deleted_schema(record: JobRecord) -> DeletedSchema:
    """A job that was deleted."""
    return {"name": record.name, "deleted_at": optional_iso(record.deleted_at)}
