"""A job, its versions, and what a change would make of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NotRequired

from cronflow.comparing import Comparison
from cronflow.documents import JobForm, job_document
from cronflow.domain.job import JobRecord, Pend
from cronflow.domain.run import Run, RunState
from cronflow.domain.version import Version
from cronflow.editing import Result
from cronflow.shapes.plain import Shape, iso, optional_iso
from cronflow.shapes.preview import schedule_words
from cronflow.shapes.runs import CoversShape, MarkShape, covers_shape, mark_shape

JobState = Literal["active", "paused", "disabled", "done", "by_hand"]


class PendShape(Shape):
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
    covers: CoversShape | None
    """The missed instants that it stands for."""
    at: str
    """When it was decided."""


class JobShape(Shape, JobForm):
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
    pend: PendShape | None
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


class VersionShape(Shape):
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


class DifferenceShape(Shape):
    """A part of the document that differs."""

    field: str
    """Its path, as `schedule.cron`."""
    before: object
    """Its value now; null: it has none."""
    after: object
    """Its value then; null: it has none."""


class AppliedShape(Shape):
    """What became, or would become, of a job."""

    name: str
    """The job."""
    result: Result
    """What was, or would be, done."""
    state: JobState
    """As it then is."""
    next_fire: str | None
    """The next instant at which it then falls due."""
    changes: NotRequired[list[DifferenceShape]]
    """What differs; there for a job that would be changed."""


class RecentShape(Shape):
    """How a job does."""

    job: str
    """The job."""
    state: JobState
    """As it is."""
    next_fire: str | None
    """The next instant at which it falls due."""
    runs: list[MarkShape]
    """Its last runs, those that fell due last first."""


class FiresShape(Shape):
    """The next instants of a job."""

    job: str
    """The job."""
    state: JobState
    """None of them will run while it is paused or disabled."""
    fires: list[str]
    """The instants."""


class DeletedShape(Shape):
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


def job_shape(record: JobRecord) -> JobShape:
    """The job's document with every default, and beside it what the cluster keeps of it."""
    return {
        **job_document(record.job),
        "state": job_state(record),
        "words": None if record.job.schedule is None else schedule_words(record.job.schedule),
        "paused": record.paused,
        "next_fire": optional_iso(record.next_fire),
        "due_at": optional_iso(record.due_at),
        "pend": None if record.pend is None else _pend(record.pend),
        "version": record.ver,
        "revision": record.rev,
        "term": record.term,
        "created_at": iso(record.created_at),
        "updated_at": iso(record.updated_at),
    }


def _pend(pend: Pend) -> PendShape:
    return {
        "fire": iso(pend.fire),
        "state": pend.state,
        "node": pend.node,
        "fence": pend.fence,
        "reason": pend.reason,
        "covers": covers_shape(pend.covers),
        "at": iso(pend.at),
    }


def version_shape(version: Version) -> VersionShape:
    """A version, for scripts."""
    return {
        "version": version.ver,
        "at": iso(version.at),
        "by": version.by or None,
        "state": version.held or "active",
        "since": optional_iso(version.since),
        "job": job_document(version.job),
    }


def comparison_shape(comparison: Comparison) -> AppliedShape:
    """What became, or would become, of a job."""
    shape: AppliedShape = {
        "name": comparison.record.name,
        "result": comparison.result,
        "state": job_state(comparison.record),
        "next_fire": optional_iso(comparison.record.next_fire),
    }
    if comparison.differences:
        shape["changes"] = [{"field": path, "before": old, "after": new} for path, old, new in comparison.differences]
    return shape


def recent_shape(record: JobRecord, runs: Sequence[Run]) -> RecentShape:
    """How a job does."""
    return {
        "job": record.name,
        "state": job_state(record),
        "next_fire": optional_iso(record.next_fire),
        "runs": [mark_shape(run) for run in runs],
    }


def fires_shape(record: JobRecord, fires: Sequence[datetime]) -> FiresShape:
    """The next instants of a job."""
    return {"job": record.name, "state": job_state(record), "fires": [iso(fire) for fire in fires]}


def deleted_shape(record: JobRecord) -> DeletedShape:
    """A job that was deleted."""
    return {"name": record.name, "deleted_at": optional_iso(record.deleted_at)}
