"""Runs, their attempts and log lines, and failures by reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NotRequired

from cronflow.domain.chain import UpstreamRun
from cronflow.domain.failures import Failure
from cronflow.domain.placement import Placement
from cronflow.domain.run import Attempt, Covers, Kind, Outcome, Resolution, Run, RunState, Settled
from cronflow.ports import LateResult, LogLine
from cronflow.schemas import Schema, iso, optional_iso, optional_milliseconds


class AttemptSchema(Schema):
    """A finished attempt of a run."""

    n: int
    """Number of the attempt, starting at 1."""
    fence: int
    """Its fencing token."""
    node: str
    """The node, as `<name>#<incarnation>`."""
    started_at: str | None
    """When it started; null: it never started."""
    ended_at: str
    """When it ended."""
    duration_ms: int | None
    """Duration in milliseconds."""
    outcome: Outcome
    """How it ended."""
    error: str | None
    """The error."""
    cpu_s: float | None
    """CPU time in seconds; null: not recorded."""
    memory: int | None
    """Peak memory of its process in bytes; null: not recorded, or it had no process of its own."""


class CoversSchema(Schema):
    """The missed instants that a run stands for, both ends included."""

    first: str
    """The first of them."""
    last: str
    """The last of them."""
    count: int | None
    """Number of instants; null: too many to count."""


class StandingSchema(Schema):
    """A node that was not chosen, with its rank or the reason why it could not be chosen."""

    node: str
    """The node."""
    rank: NotRequired[float]
    """Its rank; the lowest is chosen."""
    reason: NotRequired[str]
    """Why it could not take the run."""


class PlacementSchema(Schema):
    """Why the run was placed on this node."""

    node: str
    """The node that was chosen."""
    rank: float
    """Its rank; the lowest is chosen."""
    others: list[StandingSchema]
    """Some of the other nodes."""
    more: int
    """Number of further nodes."""


class ResolutionSchema(Schema):
    """How a dead letter was settled."""

    how: Settled
    """Acknowledged or replayed."""
    at: str
    """When."""
    by: str | None
    """Who did it."""
    note: str | None
    """The note."""
    run: str | None
    """The latest replay."""


class ShardSchema(Schema):
    """Which part of a run that is split."""

    index: int
    """Its number, from 0."""
    total: int
    """The number of parts."""


class FollowedRunSchema(Schema):
    """A run that another one follows."""

    job: str
    """Its job."""
    run: str
    """The run."""
    state: RunState
    """How it ended."""


class RunSchema(Schema):
    """A run: one fire of a job."""

    id: str
    """`<job>@<instant>`; manual runs and replays have similar ids."""
    job: str
    """Its job."""
    fire_at: str
    """When it was due."""
    kind: Kind
    """What created it."""
    state: RunState
    """`dispatched`, `running` and `retrying` are open; all others are final."""
    attempt: int
    """Number of the current or last attempt; 0: none yet."""
    max_attempts: int
    """Maximum number of attempts."""
    fence: int
    """Fencing token of the last dispatch."""
    term: int
    """Term of the leader that dispatched it."""
    ver: int
    """Version of the job that it ran, or will run."""
    node: str | None
    """The node, as `<name>#<incarnation>`."""
    created_at: str
    """When it was recorded."""
    dispatched_at: str | None
    """When it was last dispatched to a node."""
    started_at: str | None
    """When the current or last attempt started."""
    ended_at: str | None
    """When it ended."""
    check_at: str | None
    """For an open run, when the leader checks it next."""
    lateness_ms: int | None
    """From its due time, or from the request of a manual run, to the start of the first attempt."""
    duration_ms: int | None
    """Duration of the last attempt, once it has ended."""
    outcome: Outcome | None
    """How the last attempt ended."""
    reason: str | None
    """Why it was skipped or cancelled, or failed although it had retries left."""
    cancel_requested: bool
    """Whether cancellation was requested."""
    cancel_reason: str | None
    """Reason for the cancellation."""
    cancel_by: str | None
    """Who did it."""
    result: object
    """The return value."""
    result_size: int | None
    """Size in bytes of a large result, which is stored separately; otherwise null."""
    error: str | None
    """Error of the last attempt."""
    args: dict[str, object] | None
    """Arguments of this run, in addition to the job's."""
    attempts: list[AttemptSchema]
    """The last 25 finished attempts."""
    covers: CoversSchema | None
    """The missed instants that it stands for."""
    placement: PlacementSchema | None
    """Why the run was placed on this node."""
    waiting: str | None
    """Why an open run waits: for another run, or for a node, with the reasons of some nodes."""
    blocked_by: str | None
    """The run that blocked it."""
    replay_of: str | None
    """The run that it replays."""
    backfill: str | None
    """The backfill that it belongs to."""
    parent: str | None
    """The run that it is a part of."""
    shard: ShardSchema | None
    """Which part of that run it is."""
    parts: int | None
    """The number of parts that it is split into; null: not split, or a broadcast whose nodes are not chosen yet."""
    chain: str
    """Its chain: the id of the run in which the chain began, which is its own id if it follows no other run."""
    depth: int
    """Number of links between it and the run in which its chain began."""
    follows: list[FollowedRunSchema]
    """The runs whose ends started it; only of the kind `after`."""
    dead: bool
    """Whether it is a dead letter: failed or lost, and neither replayed nor acknowledged."""
    resolution: ResolutionSchema | None
    """How it was settled."""


class LateSchema(Schema):
    """A result that arrived too late and was not accepted."""

    at: str
    """When it arrived."""
    node: str
    """The node that sent it."""
    fence: int
    """Its fencing token."""
    outcome: Outcome
    """How the attempt ended."""
    result: object
    """The return value."""
    result_size: int | None
    """Size in bytes of a large result, which is stored separately; otherwise null."""
    error: str | None
    """The error."""


class RunDetailSchema(RunSchema):
    """A run with the results that arrived too late."""

    part_states: dict[str, int] | None
    """The number of its parts by state; null: it is not split."""
    late: list[LateSchema]
    """Results that arrived too late and were not accepted."""


class LogSchema(Schema):
    """A log line of a run."""

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
    """`debug`, `info`, `success`, `warn`, `error` or `progress`."""
    text: str
    """The line."""
    node: str | None
    """The node that wrote it; null in lines of older versions."""


class FailureSchema(Schema):
    """A reason for failures, with the runs that failed for it."""

    reason: str
    """The error without its variable parts."""
    message: str
    """The error of the latest run."""
    count: int
    """Runs that failed for this reason."""
    open: int
    """How many of them are still dead letters."""
    first: str
    """When the first of them ended."""
    last: str
    """When the last of them ended."""
    jobs: dict[str, int]
    """Runs by job."""
    example: str
    """Id of the latest run."""


class ReportSchema(Schema):
    """Failures by reason."""

    since: str
    """Only runs due since then are included."""
    job: str | None
    """The job, if the report is limited to one."""
    dead: int
    """All current dead letters, regardless of `since`."""
    failures: list[FailureSchema]
    """The most frequent reason first."""
    more: bool
    """Whether some reasons or runs are not included."""


class ReplaySchema(Schema):
    """A replay that was started."""

    id: str
    """Id of the replay."""
    replay_of: str
    """The run that it replays."""


class MarkSchema(Schema):
    """A run in brief."""

    id: str
    """The run."""
    fire_at: str
    """When it was due."""
    state: RunState
    """Its current state."""
    duration_ms: int | None
    """Duration in milliseconds."""


class AskedSchema(Schema):
    """A requested run: the fields that never change."""

    id: str
    """Its id."""
    job: str
    """Its job."""
    kind: Kind
    """What created it."""
    fire_at: str
    """When it was requested."""
    args: dict[str, object] | None
    """Arguments of this run, in addition to the job's."""


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
        "ver": run.job_ver,
        "node": run.node,
        "created_at": iso(run.created_at),
        "dispatched_at": optional_iso(run.dispatched_at),
        "started_at": optional_iso(run.started_at),
        "ended_at": optional_iso(run.ended_at),
        "check_at": optional_iso(run.next_check),
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
        "waiting": None if run.waiting is None or not run.is_open else str(run.waiting),
        "blocked_by": run.blocked_by,
        "replay_of": run.replay_of,
        "backfill": run.backfill,
        "parent": run.parent,
        "shard": None if run.shard is None else {"index": run.shard.index, "total": run.shard.total},
        "parts": None if run.split is None else run.split.count,
        "chain": run.chain_id,
        "depth": 0 if run.chain is None else run.chain.depth,
        "follows": followed_schemas(() if run.chain is None else run.chain.of),
        "dead": run.is_dead,
        "resolution": None if run.resolution is None else resolution_schema(run.resolution),
    }


def run_detail_schema(run: Run, late: Sequence[LateResult], parts: Mapping[RunState, int] | None) -> RunDetailSchema:
    """`parts` has the number of its parts by state, None if it is not split."""
    return {
        **run_schema(run),
        "part_states": None if parts is None else {state.value: parts[state] for state in RunState if state in parts},
        "late": [late_schema(result) for result in late],
    }


def followed_schemas(runs: Sequence[UpstreamRun]) -> list[FollowedRunSchema]:
    return [{"job": one.job, "run": one.run, "state": one.state} for one in runs]


def mark_schema(run: Run) -> MarkSchema:
    """A run in brief."""
    return {
        "id": run.id,
        "fire_at": iso(run.fire_at),
        "state": run.state,
        "duration_ms": optional_milliseconds(run.duration),
    }


def asked_schema(run: Run) -> AskedSchema:
    args = None if run.args is None else dict(run.args)
    return {"id": run.id, "job": run.job, "kind": run.kind, "fire_at": iso(run.fire_at), "args": args}


def placement_schema(placement: Placement) -> PlacementSchema:
    """Why the run was placed on this node."""
    return {
        "node": placement.node,
        "rank": placement.rank,
        "others": [_standing(node, standing) for node, standing in placement.others],
        "more": placement.more,
    }


def _standing(node: str, standing: float | str) -> StandingSchema:
    return {"node": node, "reason": standing} if isinstance(standing, str) else {"node": node, "rank": standing}


def resolution_schema(resolution: Resolution) -> ResolutionSchema:
    return {
        "how": resolution.how,
        "at": iso(resolution.at),
        "by": resolution.by or None,
        "note": resolution.note or None,
        "run": resolution.run,
    }


def attempt_length(attempt: Attempt) -> timedelta | None:
    """Duration in milliseconds."""
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
        "cpu_s": None if attempt.used is None else attempt.used.cpu_s,
        "memory": None if attempt.used is None else attempt.used.memory,
    }


def covers_schema(covers: Covers | None) -> CoversSchema | None:
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
    return {
        "since": iso(since),
        "job": job,
        "dead": dead,
        "failures": [failure_schema(failure) for failure in failures[:limit]],
        "more": more or len(failures) > limit,
    }


def failure_schema(failure: Failure) -> FailureSchema:
    return {
        "reason": failure.reason,
        "message": failure.message,
        "count": failure.count,
        "open": failure.open,
        "first": iso(failure.first),
        "last": iso(failure.last),
        "jobs": dict(failure.jobs),
        "example": failure.example,
    }
