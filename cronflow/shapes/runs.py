"""A run, its attempts and its lines; failures by reason."""

from __future__ import annotations

from datetime import timedelta

from cronflow.domain.failures import Failure
from cronflow.domain.placement import Placement
from cronflow.domain.run import Attempt, Covers, Resolution, Run
from cronflow.ports import LateResult, LogLine
from cronflow.shapes.plain import Shape, iso, milliseconds, optional_iso


def run_shape(run: Run) -> Shape:
    """A run."""
    return {
        "id": run.id,
        "job": run.job,
        "fire_at": iso(run.fire_at),
        "kind": run.kind.value,
        "state": run.state.value,
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
        "lateness_ms": milliseconds(run.lateness),
        "duration_ms": milliseconds(run.duration),
        "outcome": None if run.outcome is None else run.outcome.value,
        "reason": run.reason,
        "cancel_requested": run.cancel_requested,
        "cancel_reason": run.cancel_reason,
        "cancel_by": run.cancel_by,
        "result": run.result,
        "error": run.error,
        "args": None if run.args is None else dict(run.args),
        "attempts": [_attempt(attempt) for attempt in run.attempts],
        "covers": covers_shape(run.covers),
        "placement": None if run.placement is None else _placement(run.placement),
        "blocked_by": run.blocked_by,
        "replay_of": run.replay_of,
        "dead": run.is_dead,
        "resolution": None if run.resolution is None else _resolution(run.resolution),
    }


def _placement(placement: Placement) -> Shape:
    others = [
        {"node": node, "reason" if isinstance(standing, str) else "rank": standing}
        for node, standing in placement.others
    ]
    return {"node": placement.node, "rank": placement.rank, "others": others, "more": placement.more}


def _resolution(resolution: Resolution) -> Shape:
    return {
        "how": resolution.how.value,
        "at": iso(resolution.at),
        "by": resolution.by or None,
        "note": resolution.note or None,
        "run": resolution.run,
    }


def attempt_length(attempt: Attempt) -> timedelta | None:
    """From its start to its end."""
    return None if attempt.started_at is None else attempt.ended_at - attempt.started_at


def _attempt(attempt: Attempt) -> Shape:
    return {
        "n": attempt.n,
        "fence": attempt.fence,
        "node": attempt.node,
        "started_at": optional_iso(attempt.started_at),
        "ended_at": iso(attempt.ended_at),
        "duration_ms": milliseconds(attempt_length(attempt)),
        "outcome": attempt.outcome.value,
        "error": attempt.error,
    }


def covers_shape(covers: Covers | None) -> Shape | None:
    """What a run stands for beside its own instant."""
    if covers is None:
        return None
    return {"first": iso(covers.first), "last": iso(covers.last), "count": covers.count}


def late_shape(late: LateResult) -> Shape:
    """An outcome that came too late."""
    return {
        "at": iso(late.at),
        "node": late.node,
        "fence": late.fence,
        "outcome": late.ending.outcome.value,
        "result": late.ending.result,
        "error": late.ending.error,
    }


def log_shape(line: LogLine) -> Shape:
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


def failure_shape(failure: Failure) -> dict[str, object]:
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
