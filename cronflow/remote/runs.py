"""Runs, what is known of them, and failures, out of their shapes; the counterpart of `cronflow.schemas.runs`.

What a shape leaves out is of the protocol alone, and has its default here.
"""

from __future__ import annotations

from cronflow.domain.failures import Failure
from cronflow.domain.placement import Placement
from cronflow.domain.run import Attempt, AttemptResult, Covers, Kind, Outcome, Resolution, Run, RunState, Settled
from cronflow.ports import LateResult, LogLine
from cronflow.remote.plain import instant, optional_instant
from cronflow.schemas.runs import (
    AttemptSchema,
    CoversSchema,
    FailureSchema,
    LateSchema,
    LogSchema,
    PlacementSchema,
    ResolutionSchema,
    RunDetailSchema,
    RunSchema,
)


def run_of(shape: RunSchema) -> Run:
    """A run."""
    return Run(
        id=shape["id"],
        job=shape["job"],
        fire_at=instant(shape["fire_at"]),
        kind=Kind(shape["kind"]),
        state=RunState(shape["state"]),
        fence=shape["fence"],
        term=shape["term"],
        job_ver=0,
        node=shape["node"],
        attempt=shape["attempt"],
        max_attempts=shape["max_attempts"],
        check_at=optional_instant(shape["check_at"]),
        created_at=instant(shape["created_at"]),
        dispatched_at=optional_instant(shape["dispatched_at"]),
        started_at=optional_instant(shape["started_at"]),
        ended_at=optional_instant(shape["ended_at"]),
        covers=covers_of(shape["covers"]),
        args=shape["args"],
        reason=shape["reason"],
        outcome=None if shape["outcome"] is None else Outcome(shape["outcome"]),
        result=shape["result"],
        result_size=shape["result_size"],
        error=shape["error"],
        cancel_requested=shape["cancel_requested"],
        cancel_reason=shape["cancel_reason"],
        cancel_by=shape["cancel_by"],
        attempts=tuple(attempt_of(attempt) for attempt in shape["attempts"]),
        placement=placement_of(shape["placement"]),
        blocked_by=shape["blocked_by"],
        replay_of=shape["replay_of"],
        resolution=resolution_of(shape["resolution"]),
    )


def attempt_of(shape: AttemptSchema) -> Attempt:
    """A try that has ended."""
    return Attempt(
        n=shape["n"],
        fence=shape["fence"],
        node=shape["node"],
        started_at=optional_instant(shape["started_at"]),
        ended_at=instant(shape["ended_at"]),
        outcome=Outcome(shape["outcome"]),
        error=shape["error"],
    )


def covers_of(shape: CoversSchema | None) -> Covers | None:
    """What a run stands for beside its own instant."""
    return None if shape is None else Covers(instant(shape["first"]), instant(shape["last"]), shape["count"])


def placement_of(shape: PlacementSchema | None) -> Placement | None:
    """Why this node."""
    if shape is None:
        return None
    others = tuple(
        (other["node"], other["reason"] if "reason" in other else other["rank"]) for other in shape["others"]
    )
    return Placement(shape["node"], shape["rank"], others, shape["more"])


def resolution_of(shape: ResolutionSchema | None) -> Resolution | None:
    """What somebody did with a run."""
    if shape is None:
        return None
    return Resolution(
        how=Settled(shape["how"]),
        at=instant(shape["at"]),
        by=shape["by"] or "",
        note=shape["note"] or "",
        run=shape["run"],
    )


def late_of(run: RunDetailSchema) -> list[LateResult]:
    """The outcomes of a run that came too late."""
    return [_late(run["id"], shape) for shape in run["late"]]


def _late(run: str, shape: LateSchema) -> LateResult:
    attempt_result = AttemptResult(
        outcome=Outcome(shape["outcome"]),
        result=shape["result"],
        error=shape["error"],
        result_size=shape["result_size"],
    )
    return LateResult(
        run=run,
        fence=shape["fence"],
        node=shape["node"],
        at=instant(shape["at"]),
        attempt_result=attempt_result,
        finish_id="",
    )


def line_of(shape: LogSchema) -> LogLine:
    """A line that a run wrote."""
    return LogLine(
        run=shape["run"],
        job=shape["job"],
        fence=shape["fence"],
        attempt=shape["attempt"],
        n=shape["n"],
        at=instant(shape["at"]),
        level=shape["level"],
        text=shape["text"],
        node=shape["node"] or "",
    )


def failure_of(shape: FailureSchema) -> Failure:
    """A reason, and the runs that failed for it."""
    return Failure(
        reason=shape["reason"],
        count=shape["count"],
        open=shape["open"],
        first=instant(shape["first"]),
        last=instant(shape["last"]),
        jobs=shape["jobs"],
        example=shape["example"],
    )
