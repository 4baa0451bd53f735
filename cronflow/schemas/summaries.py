"""Runs and jobs in brief: what a list shows of them. Arguments, results, placements and targets are left out, and long
errors are cut, so that a page of a list stays small whatever jobs return.
"""

from __future__ import annotations

from cronflow.documents.schedules import ScheduleForm
from cronflow.domain.job import JobRecord
from cronflow.domain.job_breaker import BreakerState
from cronflow.domain.planning import next_run
from cronflow.domain.run import Attempt, Kind, Outcome, Run, RunState
from cronflow.schemas import Schema, iso, optional_iso, optional_milliseconds
from cronflow.schemas.jobs import (
    JobBreakerSchema,
    JobState,
    PauseSchema,
    job_form,
    job_state,
    job_words,
    open_breaker_schema,
    pause_schema,
)

ERROR_LENGTH = 1000


class AttemptSummarySchema(Schema):
    """A finished attempt in brief."""

    n: int
    """Number of the attempt, starting at 1."""
    node: str
    """The node, as `<name>#<incarnation>`."""
    started_at: str | None
    """When it started; null: it never started."""
    ended_at: str
    """When it ended."""
    outcome: Outcome
    """How it ended."""


class RunSummarySchema(Schema):
    """A run in brief."""

    id: str
    """`<job>@<instant>`; manual runs and replays have similar ids."""
    job: str
    """Its job."""
    fire_at: str
    """When it was due."""
    kind: Kind
    """Where it came from."""
    state: RunState
    """`dispatched`, `running` and `retrying` are open; all others are final."""
    attempt: int
    """Number of the current or last attempt; 0: none yet."""
    max_attempts: int
    """Maximum number of attempts."""
    fence: int
    """Fencing token of the last dispatch."""
    node: str | None
    """The node, as `<name>#<incarnation>`."""
    started_at: str | None
    """When the current or last attempt started."""
    ended_at: str | None
    """When it ended."""
    lateness_ms: int | None
    """From its due time, or from the request of a manual run, to the start of the first attempt."""
    duration_ms: int | None
    """Duration of the last attempt, once it has ended."""
    outcome: Outcome | None
    """How the last attempt ended."""
    reason: str | None
    """Why it was skipped or cancelled, or failed although it had retries left."""
    error: str | None
    """The first 1,000 characters of the error of the last attempt."""
    attempts: list[AttemptSummarySchema]
    """The last 25 finished attempts."""
    dead: bool
    """Whether it is a dead letter: failed or lost, and neither replayed nor acknowledged."""


class JobSummarySchema(Schema):
    """A job in brief."""

    name: str
    """Its name."""
    description: str
    """Free text."""
    schedule: ScheduleForm | None
    """When it runs; null: only on request."""
    labels: dict[str, str]
    """Labels, for people and for searching."""
    state: JobState
    """`done`: will not fire again; `by_hand`: has no schedule, and follows no job; `shadow`: does not execute."""
    words: str | None
    """The schedule in words, without the time zone, or what it follows; null: it runs only on request."""
    next_fire: str | None
    """When it is due next: the next instant that no calendar or window excludes."""
    pause: PauseSchema | None
    """The pause; null: not paused, or paused by CronFlow 0.9."""
    open_breaker: JobBreakerSchema | None
    """Its circuit breaker, if it is open."""
    takes_args: bool
    """Whether its runs accept arguments of their own."""


def run_summary_schema(run: Run) -> RunSummarySchema:
    return {
        "id": run.id,
        "job": run.job,
        "fire_at": iso(run.fire_at),
        "kind": run.kind,
        "state": run.state,
        "attempt": run.attempt,
        "max_attempts": run.max_attempts,
        "fence": run.fence,
        "node": run.node,
        "started_at": optional_iso(run.started_at),
        "ended_at": optional_iso(run.ended_at),
        "lateness_ms": optional_milliseconds(run.lateness),
        "duration_ms": optional_milliseconds(run.duration),
        "outcome": run.outcome,
        "reason": run.reason,
        "error": None if run.error is None else run.error[:ERROR_LENGTH],
        "attempts": [_attempt_summary(attempt) for attempt in run.attempts],
        "dead": run.is_dead,
    }


def _attempt_summary(attempt: Attempt) -> AttemptSummarySchema:
    return {
        "n": attempt.n,
        "node": attempt.node,
        "started_at": optional_iso(attempt.started_at),
        "ended_at": iso(attempt.ended_at),
        "outcome": attempt.outcome,
    }


def job_summary_schema(
    record: JobRecord, breaker: BreakerState | None = None, *, mask: bool = False
) -> JobSummarySchema:
    """`breaker` is given if it is open; `mask` hides passwords."""
    form = job_form(record.job, mask=mask)
    return {
        "name": form["name"],
        "description": form["description"],
        "schedule": form["schedule"],
        "labels": form["labels"],
        "state": job_state(record),
        "words": job_words(record.job),
        "next_fire": optional_iso(next_run(record)),
        "pause": None if record.pause is None else pause_schema(record.pause),
        "open_breaker": None if breaker is None else open_breaker_schema(breaker),
        "takes_args": record.job.takes_args,
    }
