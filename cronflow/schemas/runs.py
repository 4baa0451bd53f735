"""A run, its attempts and its lines; failures by reason."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NotRequired

from cronflow.domain.failures import Failure
from cronflow.domain.placement import Placement
from cronflow.domain.run import Attempt, Covers, Kind, Outcome, Resolution, Run, RunState, Settled
from cronflow.ports import LateResult, LogLine
from cronflow.schemas.base import Schema, iso, optional_iso, optional_milliseconds


class AttemptSchema(Schema):
    """A try of a run that has ended."""

    n: int
    """From 1."""
    fence: int
    """Its fencing token."""
    node: str
    """The node, as `<name>#<incarnation>`."""
    started_at: str | None
    """When it started; null: it did not."""
    ended_at: str
    """When it ended."""
    duration_ms: int | None
    """From its start to its end."""
    outcome: Outcome
    """How it ended."""
    error: str | None
    """What it said."""


class CoversSchema(Schema):
    """The missed instants that a run stands for, both ends included."""

    first: str
    """The first of them."""
    last: str
    """The last of them."""
    count: int | None
    """How many; null: more than were worth counting."""


class StandingSchema(Schema):
    """A node that was not chosen: its rank, or the reason why it could not be."""

    node: str
    """The node."""
    rank: NotRequired[float]
    """Its rank; the lowest is chosen."""
    reason: NotRequired[str]
    """Why it could not take the run."""


class PlacementSchema(Schema):
    """Why this node."""

    node: str
    """The node that was chosen."""
    rank: float
    """Its rank; the lowest is chosen."""
    others: list[StandingSchema]
    """Some of the other nodes."""
    more: int
    """How many nodes more there were."""


class ResolutionSchema(Schema):
    """What somebody did with a run that had ended."""

    how: Settled
    """Acknowledged or replayed."""
    at: str
    """When."""
    by: str | None
    """Who."""
    note: str | None
    """What he wrote."""
    run: str | None
    """The newest replay."""


class RunSchema(Schema):
    """A run: one fire of a job."""

    id: str
    """`<job>@<instant>`, and the like for runs on request and replays."""
    job: str
    """Its job."""
    fire_at: str
    """The instant at which it fell due."""
    kind: Kind
    """Where it came from."""
    state: RunState
    """dispatched, running and retrying are open; the others have ended."""
    attempt: int
    """The number of its present or last attempt; 0: none yet."""
    max_attempts: int
    """How many it may have."""
    fence: int
    """The fencing token of its last dispatch."""
    term: int
    """The term of the leader that dispatched it."""
    node: str | None
    """The node, as `<name>#<incarnation>`."""
    created_at: str
    """When it was recorded."""
    dispatched_at: str | None
    """When it was last given to a node."""
    started_at: str | None
    """When its present or last attempt started."""
    ended_at: str | None
    """When it ended."""
    check_at: str | None
    """While it is open: when somebody looks at it again."""
    lateness_ms: int | None
    """From the instant it was due, or from its request if it was run by hand, to the start of its first attempt."""
    duration_ms: int | None
    """Of its last attempt, once it has ended."""
    outcome: Outcome | None
    """How its last attempt ended."""
    reason: str | None
    """Why it was skipped or cancelled."""
    cancel_requested: bool
    """Whether somebody asked to cancel it."""
    cancel_reason: str | None
    """Why."""
    cancel_by: str | None
    """Who."""
    result: object
    """What it returned."""
    result_size: int | None
    """The bytes of its JSON, where it is so large that it is kept apart; else null."""
    error: str | None
    """What its last attempt said."""
    args: dict[str, object] | None
    """Its own arguments, beside the job's."""
    attempts: list[AttemptSchema]
    """The attempts that have ended, the last 25."""
    covers: CoversSchema | None
    """The missed instants that it stands for."""
    placement: PlacementSchema | None
    """Why this node."""
    blocked_by: str | None
    """The run that was in its way."""
    replay_of: str | None
    """The run that it repeats."""
    dead: bool
    """Whether it is a dead letter: failed or lost, and nobody has settled it."""
    resolution: ResolutionSchema | None
    """What somebody did with it."""


class LateSchema(Schema):
    """An outcome that came too late and was not accepted."""

    at: str
    """When it came."""
    node: str
    """From which node."""
    fence: int
    """The fencing token that it carried."""
    outcome: Outcome
    """How the attempt ended."""
    result: object
    """What it returned."""
    result_size: int | None
    """The bytes of its JSON, where it is so large that it is kept apart; else null."""
    error: str | None
    """What it said."""


class RunDetailSchema(RunSchema):
    """A run, and the outcomes that came too late."""

    late: list[LateSchema]
    """They were not accepted."""


class LogSchema(Schema):
    """A line that a run wrote."""

    run: str
    """The run."""
    job: str
    """Its job."""
    attempt: int
    """The attempt."""
    fence: int
    """Its fencing token."""
    n: int
    """Its number within the attempt."""
    at: str
    """When it was written."""
    level: str
    """debug, info, success, warn, error, progress."""
    text: str
    """The line."""
    node: str | None
    """Where it was written; null in lines of older versions."""


class FailureSchema(Schema):
    """A reason, and the runs that failed for it."""

    reason: str
    """The error without what differs from one run to the next."""
    count: int
    """How many failed for it."""
    open: int
    """How many of them nobody has settled."""
    first: str
    """When the first of them ended."""
    last: str
    """When the last of them ended."""
    jobs: dict[str, int]
    """How many of each job."""
    example: str
    """The newest of the runs."""


class ReportSchema(Schema):
    """What failed, by reason."""

    since: str
    """Runs that fell due from this instant on were looked at."""
    job: str | None
    """Of this job alone."""
    dead: int
    """Dead letters that nobody has settled, of all times."""
    failures: list[FailureSchema]
    """The most frequent reason first."""
    more: bool
    """Whether there are more reasons, or more runs than are looked at."""


class ReplaySchema(Schema):
    """A run that was run again."""

    id: str
    """The replay."""
    replay_of: str
    """The run that it repeats."""


class MarkSchema(Schema):
    """A run in short."""

    id: str
    """The run."""
    fire_at: str
    """The instant at which it fell due."""
    state: RunState
    """As it is."""
    duration_ms: int | None
    """For how long it ran."""


class AskedSchema(Schema):
    """A run that somebody asked for: what of it never changes."""

    id: str
    """Its id."""
    job: str
    """Its job."""
    kind: Kind
    """Where it came from."""
    fire_at: str
    """When it was asked for."""
    args: dict[str, object] | None
    """Its own arguments, beside the job's."""


def run_schema(run: Run) -> RunSchema:
    """A run."""
    return {
        "id": run.id,
        "job": run.job,
        "fire_at": iso(run.fire_at),
        "kind": run.kind,
        "state": run.state,
        "attempt": run.attempt,
        "max_attempts": run.max_attempts,
        "fence": run.fence,
        "term": run.term,
        "node": run.node,
        "created_at": iso(run.created_at),
        "dispatched_at": optional_iso(run.dispatched_at),
        "started_at": optional_iso(run.started_at),
        "ended_at": optional_iso(run.ended_at),
        "check_at": optional_iso(run.check_at),
        "lateness_ms": optional_milliseconds(run.lateness),
        "duration_ms": optional_milliseconds(run.duration),
        "outcome": run.outcome,
        "reason": run.reason,
        "cancel_requested": run.cancel_requested,
        "cancel_reason": run.cancel_reason,
        "cancel_by": run.cancel_by,
        "result": run.result,
        "result_size": run.result_size,
        "error": run.error,
        "args": None if run.args is None else dict(run.args),
        "attempts": [attempt_schema(attempt) for attempt in run.attempts],
        "covers": covers_schema(run.covers),
        "placement": None if run.placement is None else placement_schema(run.placement),
        "blocked_by": run.blocked_by,
        "replay_of": run.replay_of,
        "dead": run.is_dead,
        "resolution": None if run.resolution is None else resolution_schema(run.resolution),
    }


def run_detail_schema(run: Run, late: Sequence[LateResult]) -> RunDetailSchema:
    """A run, and the outcomes that came too late."""
    return {**run_schema(run), "late": [late_schema(result) for result in late]}


def mark_schema(run: Run) -> MarkSchema:
    """A run in short."""
    return {
        "id": run.id,
        "fire_at": iso(run.fire_at),
        "state": run.state,
        "duration_ms": optional_milliseconds(run.duration),
    }


def asked_schema(run: Run) -> AskedSchema:
    """A run that somebody asked for."""
    args = None if run.args is None else dict(run.args)
    return {"id": run.id, "job": run.job, "kind": run.kind, "fire_at": iso(run.fire_at), "args": args}


def placement_schema(placement: Placement) -> PlacementSchema:
    """Why this node."""
    return {
        "node": placement.node,
        "rank": placement.rank,
        "others": [_standing(node, standing) for node, standing in placement.others],
        "more": placement.more,
    }


def _standing(node: str, standing: float | str) -> StandingSchema:
    return {"node": node, "reason": standing} if isinstance(standing, str) else {"node": node, "rank": standing}


def resolution_schema(resolution: Resolution) -> ResolutionSchema:
    """What somebody did with a run."""
    return {
        "how": resolution.how,
        "at": iso(resolution.at),
        "by": resolution.by or None,
        "note": resolution.note or None,
        "run": resolution.run,
    }


def attempt_length(attempt: Attempt) -> timedelta | None:
    """From its start to its end."""
    return None if attempt.started_at is None else attempt.ended_at - attempt.started_at


def attempt_schema(attempt: Attempt) -> AttemptSchema:
    """A try that has ended."""
    return {
        "n": attempt.n,
        "fence": attempt.fence,
        "node": attempt.node,
        "started_at": optional_iso(attempt.started_at),
        "ended_at": iso(attempt.ended_at),
        "duration_ms": optional_milliseconds(attempt_length(attempt)),
        "outcome": attempt.outcome,
        "error": attempt.error,
    }


def covers_schema(covers: Covers | None) -> CoversSchema | None:
    """What a run stands for beside its own instant."""
    if covers is None:
        return None
    return {"first": iso(covers.first), "last": iso(covers.last), "count": covers.count}


def late_schema(late: LateResult) -> LateSchema:
    """An outcome that came too late."""
    return {
        "at": iso(late.at),
        "node": late.node,
        "fence": late.fence,
        "outcome": late.attempt_result.outcome,
        "result": late.attempt_result.result,
        "result_size": late.attempt_result.result_size,
        "error": late.attempt_result.error,
    }


def log_schema(line: LogLine) -> LogSchema:
    """A line that a run wrote."""
    return {
        "run": line.run,
        "job": line.job,
        "attempt": line.attempt,
        "fence": line.fence,
        "n": line.n,
        "at": iso(line.at),
        "level": line.level,
        "node": line.node or None,
        "text": line.text,
    }


def report_schema(
    since: datetime, job: str | None, dead: int, failures: Sequence[Failure], limit: int, *, more: bool
) -> ReportSchema:
    """What failed, at most `limit` reasons."""
    return {
        "since": iso(since),
        "job": job,
        "dead": dead,
        "failures": [failure_schema(failure) for failure in failures[:limit]],
        "more": more or len(failures) > limit,
    }


def failure_schema(failure: Failure) -> FailureSchema:
    """A reason, for scripts."""
    return {
        "reason": failure.reason,
        "count": failure.count,
        "open": failure.open,
        "first": iso(failure.first),
        "last": iso(failure.last),
        "jobs": dict(failure.jobs),
        "example": failure.example,
    }
