"""Jobs, their versions, and what became of them, out of their shapes; the counterpart of `cronflow.schemas.jobs`.

What a shape leaves out is of the planner alone, and has its default here.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from cronflow.documents import JobForm, parse_job
from cronflow.domain.job import Job, JobRecord, PendingRun
from cronflow.domain.run import RunState
from cronflow.domain.version import Version
from cronflow.remote.plain import instant, optional_instant
from cronflow.remote.runs import covers_of
from cronflow.schemas.jobs import AppliedSchema, JobSchema, PendingRunSchema, VersionSchema
from cronflow.usecases.compare import Comparison


def record_of(shape: JobSchema) -> JobRecord:
    """A job, and what the cluster keeps of it."""
    return JobRecord(
        job=_job(shape),
        rev=shape["revision"],
        ver=shape["version"],
        term=shape["term"],
        next_fire=optional_instant(shape["next_fire"]),
        due_at=optional_instant(shape["due_at"]),
        pending_run=None if shape["pending_run"] is None else _pending_run(shape["pending_run"], shape["version"]),
        paused=shape["paused"],
        created_at=instant(shape["created_at"]),
        updated_at=instant(shape["updated_at"]),
    )


def version_of(shape: VersionSchema) -> Version:
    """A job as it was from an instant on."""
    return Version(
        job=_job(shape["job"]),
        ver=shape["version"],
        at=instant(shape["at"]),
        since=optional_instant(shape["since"]),
        paused=shape["state"] == "paused",
        deleted=shape["state"] == "deleted",
        by=shape["by"] or "",
    )


def comparison_of(shape: AppliedSchema, job: Job, now: datetime) -> Comparison:
    """What became, or would become, of this job. When it was made is not told, and taken to be now."""
    next_fire = optional_instant(shape["next_fire"])
    record = JobRecord(
        job=job,
        next_fire=next_fire,
        due_at=next_fire,
        paused=shape["state"] == "paused",
        created_at=now,
        updated_at=now,
    )
    differences = [(one["field"], one["before"], one["after"]) for one in shape.get("changes", ())]
    return Comparison(record, shape["result"], differences)


def _job(document: Mapping[str, object]) -> Job:
    """Of what has the fields of a job's document among others."""
    return parse_job({key: document[key] for key in JobForm.__annotations__}, "")


def _pending_run(shape: PendingRunSchema, version: int) -> PendingRun:
    return PendingRun(
        fire=instant(shape["fire"]),
        state=RunState(shape["state"]),
        fence=shape["fence"],
        job_ver=version,
        at=instant(shape["at"]),
        node=shape["node"],
        covers=covers_of(shape["covers"]),
        reason=shape["reason"],
    )
