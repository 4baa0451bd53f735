"""Jobs, their versions, and predicted changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NotRequired, cast

from cronflow.documents import JobForm, job_document
from cronflow.documents.calendars import CalendarForm, calendar_document
from cronflow.documents.masking import masked
from cronflow.domain.applied import Result
from cronflow.domain.chain import after_words
from cronflow.domain.job import Job, JobRecord, Pause, PendingRun
from cronflow.domain.job_breaker import BreakerState
from cronflow.domain.planning import next_run
from cronflow.domain.run import Run, RunState
from cronflow.domain.schedule.calendar import Calendar
from cronflow.domain.schedule.comparison import MOST_COUNTED
from cronflow.domain.schedule.kinds import Once, Schedule
from cronflow.domain.schedule.preview import PreviewRow, zone_name
from cronflow.domain.version import Version, end_of
from cronflow.schemas import Schema, iso, optional_iso
from cronflow.schemas.runs import CoversSchema, MarkSchema, covers_schema, mark_schema
from cronflow.schemas.schedules import (
    PreviewRowSchema,
    RunChangesSchema,
    row_schemas,
    run_changes_schema,
    schedule_words,
    zones_of,
)

if TYPE_CHECKING:
    from cronflow.usecases.jobs import Comparison

JobState = Literal["active", "paused", "disabled", "done", "by_hand", "shadow"]


class PendingRunSchema(Schema):
    """The run that the planner created last."""

    fire: str
    """The instant."""
    state: RunState
    """Its first state."""
    node: str | None
    """The node that it was dispatched to."""
    fence: int
    """Its fencing token."""
    reason: str | None
    """Why it was skipped."""
    covers: CoversSchema | None
    """The missed instants that it stands for."""
    at: str
    """When the planner decided."""


class JobBreakerSchema(Schema):
    """The open circuit breaker of a job: its failing runs are dead letters at once."""

    opened_at: str
    """Since when."""
    probe_at: str
    """A run that starts from then on and succeeds closes it."""
    failed: int
    """How many of the attempts had failed when it opened."""
    attempts: int
    """The attempts that counted."""


class PauseSchema(Schema):
    """Who paused a job, and until when."""

    at: str
    """Since when."""
    by: str | None
    """Who paused it."""
    note: str | None
    """Why."""
    until: str | None
    """When it ends by itself; null: when somebody resumes it."""


class JobSchema(Schema, JobForm):
    """A job's document with all defaults, and its state in the cluster."""

    state: JobState
    """`done`: will not fire again; `by_hand`: has no schedule, and follows no job; `shadow`: does not execute."""
    words: str | None
    """The schedule in words, without the time zone, or what it follows; null: it runs only on request."""
    paused: bool
    """Whether it is paused."""
    pause: PauseSchema | None
    """The pause; null: not paused, or paused by CronFlow 0.9."""
    open_breaker: JobBreakerSchema | None
    """Its circuit breaker, if it is open."""
    next_fire: str | None
    """When it is due next: the next instant that no calendar or window excludes."""
    fired: int
    """How many of its fires became runs, if its schedule has `max_runs`."""
    takes_args: bool
    """Whether its runs accept arguments of their own."""
    due_at: str | None
    """When the planner looks at it next."""
    pending_run: PendingRunSchema | None
    """The run that the planner created last."""
    followers: list[str]
    """The jobs that follow it directly, by name."""
    version: int
    """Number of edits; used as the ETag."""
    revision: int
    """Number of writes."""
    term: int
    """Term of the leader that wrote it last."""
    created_at: str
    """When it was defined."""
    updated_at: str
    """When it was last edited."""
    deleted_at: str | None
    """When it was deleted; null: it was not."""


class VersionSchema(Schema):
    """A version of a job."""

    version: int
    """Its number."""
    at: str
    """When it took effect."""
    by: str | None
    """Who made the change."""
    state: Literal["active", "paused", "disabled", "deleted"]
    """Whether fires were planned under this version."""
    since: str | None
    """The first instant that can be due under this version."""
    until: str | None
    """The first instant after them; null: there is no end yet."""
    job: JobForm
    """The document."""
    calendars: NotRequired[list[CalendarForm]]
    """The calendars that its schedule names, as they were; absent: they were not requested."""


class DifferenceSchema(Schema):
    """A changed field of a job."""

    field: str
    """Path of the field, such as `schedule.cron`."""
    before: object
    """Current value; null: not set."""
    after: object
    """New value; null: not set."""


class RunTotalsSchema(Schema):
    """How the runs of all jobs change in the coming days."""

    added: int
    """Runs that appear."""
    removed: int
    """Runs that vanish."""
    at_least: bool
    """Whether there are more: some job has more than 10,000 that appear or vanish."""
    not_compared: int
    """Jobs with too many runs to compare them one by one; they are in none of the numbers."""


class AppliedSchema(Schema):
    """The result of a change, or of a planned change."""

    name: str
    """The job."""
    result: Result | Literal["deleted"]
    """What was or would be done."""
    state: JobState
    """State after the change; without a meaning for a deleted job."""
    next_fire: str | None
    """When it is due next after the change, without excluded instants."""
    changes: NotRequired[list[DifferenceSchema]]
    """Changed fields; only in a plan, for a job that would change or be deleted."""
    warnings: NotRequired[list[str]]
    """What needs attention: due fires that the change skips, a job that no live node can run, or that never runs
    again.
    """
    runs: NotRequired[RunChangesSchema]
    """How its runs change in the coming days; absent: its schedule does not change, or this was not requested."""


class RecentSchema(Schema):
    """A job with its latest runs."""

    job: str
    """The job."""
    state: JobState
    """Its current state."""
    next_fire: str | None
    """When it is due next: the next instant that no calendar or window excludes."""
    runs: list[MarkSchema]
    """Its latest runs, newest first."""


class FiresSchema(Schema):
    """The next fires of a job."""

    job: str
    """The job."""
    state: JobState
    """State of the job; a paused or disabled job does not fire."""
    fires: list[str]
    """The instants."""
    tz: str
    """The time zone of its schedule."""
    rows: list[PreviewRowSchema]
    """The same times in that time zone and in UTC, and the instants between them that do not fire."""


class DeletedSchema(Schema):
    """A job that was deleted."""

    name: str
    """The job."""
    deleted_at: str | None
    """When."""


def job_words(job: Job) -> str | None:
    """When the job runs by itself, in words; None if it does not."""
    if job.schedule is not None:
        return schedule_words(job.schedule)
    return after_words([one.job for one in job.after], job.join) if job.after else None


def job_state(record: JobRecord) -> JobState:
    if not record.job.enabled:
        return "disabled"
    if record.paused:
        return "paused"
    if record.job.schedule is None and not record.job.after:
        return "by_hand"
    if record.job.schedule is not None and record.next_fire is None:
        return "done"
    return "shadow" if record.job.is_shadow else "active"


def job_schema(
    record: JobRecord, breaker: BreakerState | None = None, followers: Sequence[str] = (), *, mask: bool = False
) -> JobSchema:
    """The job's document with every default, and beside it what the cluster keeps of it. `breaker` is given if it is
    open; `followers` are the jobs that follow it; `mask` hides passwords.
    """
    return {
        **job_form(record.job, mask=mask),
        "state": job_state(record),
        "words": job_words(record.job),
        "paused": record.paused,
        "pause": None if record.pause is None else pause_schema(record.pause),
        "open_breaker": None if breaker is None else open_breaker_schema(breaker),
        "next_fire": optional_iso(next_run(record)),
        "fired": record.fired,
        "takes_args": record.job.takes_args,
        "due_at": optional_iso(record.due_at),
        "pending_run": None if record.pending_run is None else _pending_run(record.pending_run),
        "followers": [*followers],
        "version": record.ver,
        "revision": record.rev,
        "term": record.term,
        "created_at": iso(record.created_at),
        "updated_at": iso(record.updated_at),
        "deleted_at": optional_iso(record.deleted_at),
    }


def open_breaker_schema(state: BreakerState) -> JobBreakerSchema:
    assert state.opened_at is not None
    assert state.probe_at is not None
    return {
        "opened_at": iso(state.opened_at),
        "probe_at": iso(state.probe_at),
        "failed": state.failed,
        "attempts": state.attempts,
    }


def pause_schema(pause: Pause) -> PauseSchema:
    return {
        "at": iso(pause.at),
        "by": pause.by or None,
        "note": pause.note or None,
        "until": optional_iso(pause.until),
    }


def job_form(job: Job, *, mask: bool) -> JobForm:
    """The job's document with every default. `mask` hides passwords."""
    document = job_document(job)
    return cast("JobForm", masked(document)) if mask else document


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


def version_schemas(
    versions: Sequence[Version], *, mask: Callable[[Job], bool] = lambda _: False, calendars: bool = False
) -> list[VersionSchema]:
    """All versions of a job, the oldest first. `mask` decides for which job passwords are hidden; `calendars`: with the
    calendars to which the schedules are bound.
    """
    return [
        _version(version, end_of(versions, place), mask=mask(version.job), calendars=calendars)
        for place, version in enumerate(versions)
    ]


def _version(version: Version, until: datetime | None, *, mask: bool, calendars: bool) -> VersionSchema:
    schema: VersionSchema = {
        "version": version.ver,
        "at": iso(version.at),
        "by": version.by or None,
        "state": version.held or "active",
        "since": optional_iso(version.since),
        "until": optional_iso(until),
        "job": job_form(version.job, mask=mask),
    }
    if calendars:
        schema["calendars"] = [calendar_document(calendar) for calendar in _book(version.job.schedule)]
    return schema


def _book(schedule: Schedule | None) -> Sequence[Calendar]:
    return () if schedule is None or isinstance(schedule, Once) else schedule.book


def comparison_schema(comparison: Comparison) -> AppliedSchema:
    """Passwords in the changes are always masked: viewers can ask for a plan, and logs of builds keep it."""
    schema: AppliedSchema = {
        "name": comparison.record.name,
        "result": comparison.result,
        "state": job_state(comparison.record),
        "next_fire": optional_iso(next_run(comparison.record)),
    }
    if comparison.differences:
        schema["changes"] = [
            {"field": path, "before": masked({path: old})[path], "after": masked({path: new})[path]}
            for path, old, new in comparison.differences
        ]
    if comparison.warnings:
        schema["warnings"] = [*comparison.warnings]
    if comparison.runs is not None:
        schema["runs"] = run_changes_schema(comparison.runs)
    return schema


def run_totals_schema(applied: Iterable[AppliedSchema]) -> RunTotalsSchema:
    """The sums over these jobs."""
    changes = [one["runs"] for one in applied if "runs" in one]
    compared = [one for one in changes if one["compared"]]
    return {
        "added": sum(MOST_COUNTED if one["added"] is None else one["added"] for one in compared),
        "removed": sum(MOST_COUNTED if one["removed"] is None else one["removed"] for one in compared),
        "at_least": any(one["added"] is None or one["removed"] is None for one in compared),
        "not_compared": len(changes) - len(compared),
    }


def recent_schema(record: JobRecord, runs: Sequence[Run]) -> RecentSchema:
    """A job with its latest runs."""
    return {
        "job": record.name,
        "state": job_state(record),
        "next_fire": optional_iso(next_run(record)),
        "runs": [mark_schema(run) for run in runs],
    }


def fires_schema(record: JobRecord, rows: Sequence[PreviewRow]) -> FiresSchema:
    tz = "UTC" if record.job.schedule is None else zone_name(record.job.schedule)
    return {
        "job": record.name,
        "state": job_state(record),
        "fires": [iso(row.fire) for row in rows if not row.note],
        "tz": tz,
        "rows": row_schemas(rows, zones_of([tz, "UTC"])),
    }


def deleted_schema(record: JobRecord) -> DeletedSchema:
    return {"name": record.name, "deleted_at": optional_iso(record.deleted_at)}
