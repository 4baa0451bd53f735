"""The changes of a run: each function writes one row of `TRANSITIONS` as a `Change`.

Worker: start, renew, finish, give back. Leader: dispatch again, postpone, end. Whoever cancels or edits: cancel, keep.
All are functions of values; whether a change takes effect is decided by the compare-and-set in the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cronflow.domain.job import Delivery, Retry
from cronflow.domain.placement import Placement, Waiting
from cronflow.domain.planning import ACK_WITHIN
from cronflow.domain.recovery import Dispatch, End, Postpone
from cronflow.domain.run import TRANSITIONS, Attempt, AttemptResult, Change, Outcome, Run, RunState, cancelled_text

NOW = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedRun:
    """A run as its worker holds it: what it must know to write the worker's rows."""

    run: str
    fence: int
    node: str
    attempt: int
    retry: Retry
    delivery: Delivery


def start(claimed: ClaimedRun, start_id: str, at: datetime, lease: timedelta) -> Change:
    """Row 4."""
    return Change(
        run=claimed.run,
        row=4,
        sources=TRANSITIONS[4].sources,
        target=RunState.RUNNING,
        fence=claimed.fence,
        check_in=lease,
        sets={"start_id": start_id, "started_at": at, "vetoes": 0},
        proof=("start_id", start_id),
    )


def renew(claimed: ClaimedRun, lease: timedelta) -> Change:
    """Row 5. Needs no proof of its own: a run that is running under this fence is mine, whoever renewed it."""
    return Change(
        run=claimed.run,
        row=5,
        sources=TRANSITIONS[5].sources,
        target=RunState.RUNNING,
        fence=claimed.fence,
        check_in=lease,
        proof=None,
    )


def finish(
    claimed: ClaimedRun, attempt_result: AttemptResult, finish_id: str, started_at: datetime | None, at: datetime
) -> Change:
    """Row 6, 7, 8 or 11: what follows from the end of an attempt.

    Retries are counted from the run's own attempts; deferred, declined and drained ones do not count.
    """
    attempt = Attempt(
        claimed.attempt, claimed.fence, claimed.node, started_at, at, attempt_result.outcome, attempt_result.error
    )
    started = {"started_at": started_at} if started_at else {}
    ended: dict[str, object] = {
        "finish_id": finish_id,
        "ended_at": at,
        "outcome": attempt_result.outcome,
        "result": attempt_result.result,
        "error": attempt_result.error,
        **started,
    }
    if attempt_result.result_size is not None:
        ended["result_size"] = attempt_result.result_size

    def end(target: RunState, row: int = 6) -> Change:
        sources = TRANSITIONS[row].sources
        return Change(
            run=claimed.run,
            row=row,
            sources=sources,
            target=target,
            fence=claimed.fence,
            sets=ended,
            attempt=attempt,
            proof=("finish_id", finish_id),
        )

    def again(delay: timedelta, counts: bool) -> Change:
        next_attempt = claimed.attempt if counts else claimed.attempt - 1
        return Change(
            run=claimed.run,
            row=7,
            sources=TRANSITIONS[7].sources,
            target=RunState.RETRYING,
            fence=claimed.fence,
            check_in=delay,
            sets={"finish_id": finish_id, "attempt": next_attempt, "error": attempt_result.error, **started},
            attempt=attempt,
            proof=("finish_id", finish_id),
        )

    match attempt_result.outcome:
        case Outcome.OK:
            return end(RunState.SUCCEEDED)
        case Outcome.SKIPPED:
            return end(RunState.SKIPPED)
        case Outcome.CANCELLED:
            ended |= {"error": None, "reason": attempt_result.error}
            return end(RunState.CANCELLED)
        case Outcome.DEFERRED | Outcome.DECLINED:
            return give_back(claimed, finish_id, attempt_result, at)
        case Outcome.DRAINED if claimed.delivery is Delivery.AT_LEAST_ONCE:
            return again(NOW, counts=False)
        case Outcome.DRAINED | Outcome.INTERRUPTED if claimed.delivery is Delivery.AT_MOST_ONCE:
            ended["outcome"] = Outcome.INTERRUPTED
            return end(RunState.LOST, row=11)
        case Outcome.ERROR | Outcome.TIMEOUT if (
            claimed.delivery is Delivery.AT_LEAST_ONCE and claimed.attempt <= claimed.retry.max
        ):
            delay = (
                attempt_result.delay
                if attempt_result.delay is not None
                else claimed.retry.delay(claimed.attempt, claimed.run)
            )
            return again(delay, counts=True)
        case _:
            return end(RunState.FAILED)


def give_back(claimed: ClaimedRun, finish_id: str, attempt_result: AttemptResult, ended_at: datetime) -> Change:
    """Row 8: its handler never started, so no attempt was used. The start may have been marked all the same: the guard
    marks it before the executor is asked. What a node declined or put off is kept beside the attempts, so that the
    leader knows whom not to ask again.
    """
    refused = None
    if attempt_result.outcome in (Outcome.DECLINED, Outcome.DEFERRED):
        refused = Attempt(
            claimed.attempt, claimed.fence, claimed.node, None, ended_at, attempt_result.outcome, attempt_result.error
        )
    return Change(
        run=claimed.run,
        row=8,
        sources=TRANSITIONS[8].sources,
        target=RunState.RETRYING,
        fence=claimed.fence,
        check_in=attempt_result.delay or NOW,
        sets={
            "finish_id": finish_id,
            "attempt": claimed.attempt - 1,
            "error": attempt_result.error,
            "started_at": None,
            "start_id": None,
        },
        attempt=refused,
        proof=("finish_id", finish_id),
    )


def dispatch(
    run: Run,
    verdict: Dispatch,
    *,
    fence: int,
    term: int,
    node: str,
    job_ver: int,
    at: datetime,
    placement: Placement | None = None,
) -> Change:
    """Row 9, 10 or 12: a new fence on a new node, compared with the run as it was read."""
    sets: dict[str, object] = {
        "fence": fence,
        "term": term,
        "node": node,
        "placement": placement,
        "waiting": None,
        "job_ver": job_ver,
        "dispatched_at": at,
        "redispatches": run.redispatches + (verdict.row != 12),
        "vetoes": 0,
        "start_id": None,
    }
    if verdict.row == 12:
        sets["attempt"] = run.attempt + 1
    change = _seen(run, verdict.row, RunState.DISPATCHED, sets, verdict.lost, ("fence", fence), ACK_WITHIN)
    # A cancellation that was asked for since the run was read leaves the state and the fence as they were.
    return replace(change, unless_cancelled=True)


def postpone(run: Run, verdict: Postpone, waiting: Waiting | None = None) -> Change:
    """Row 17. `waiting` says why, when it is not its worker that has it."""
    sets: Mapping[str, object] = {"vetoes": run.vetoes + verdict.counts, "waiting": waiting}
    return _seen(run, 17, run.state, sets, None, None, verdict.check_in)


def end(run: Run, verdict: End, finish_id: str, at: datetime) -> Change:
    """Row 11, 13, 14 or 19. A run that is skipped or cancelled keeps the error of its last attempt."""
    sets: dict[str, object] = {"ended_at": at, "outcome": verdict.outcome, "finish_id": finish_id}
    if verdict.error is not None:
        sets["error"] = verdict.error
    if verdict.reason is not None:
        sets["reason"] = verdict.reason
    return _seen(run, verdict.row, verdict.target, sets, verdict.lost, ("finish_id", finish_id), None)


def _seen(
    run: Run,
    row: int,
    target: RunState,
    sets: Mapping[str, object],
    attempt: Attempt | None,
    proof: tuple[str, object] | None,
    check_in: timedelta | None,
) -> Change:
    return Change(
        run=run.id,
        row=row,
        sources=frozenset({run.state}),
        target=target,
        fence=run.fence,
        job_ver=run.job_ver,
        only_when_due=True,
        check_in=check_in,
        sets=sets,
        attempt=attempt,
        proof=proof,
    )


def cancel(run: Run, reason: str, by: str, finish_id: str, at: datetime) -> Change:
    """Row 15 for a run that has not started, row 16 for one that runs: its worker then stops it.

    Compares the state alone: whoever holds it, under whatever fence, it is to end.
    """
    if run.state is RunState.RUNNING:
        return Change(
            run=run.id,
            row=16,
            sources=frozenset({RunState.RUNNING}),
            target=RunState.RUNNING,
            sets={"cancel_requested": True, "cancel_reason": reason, "cancel_by": by},
            proof=("cancel_requested", True),
        )
    return Change(
        run=run.id,
        row=15,
        sources=TRANSITIONS[15].sources,
        target=RunState.CANCELLED,
        sets={
            "ended_at": at,
            "outcome": Outcome.CANCELLED,
            "reason": cancelled_text(reason, by),
            "cancel_requested": True,
            "cancel_reason": reason,
            "cancel_by": by,
            "finish_id": finish_id,
        },
        proof=("finish_id", finish_id),
    )


def cancel_old(run: Run, ver: int, reason: str, finish_id: str, at: datetime) -> Change:
    """Row 15 after an edit, pause or delete: it has not started, and its job has moved on."""
    return Change(
        run=run.id,
        row=15,
        sources=TRANSITIONS[15].sources,
        target=RunState.CANCELLED,
        below_ver=ver,
        sets={"ended_at": at, "outcome": Outcome.CANCELLED, "reason": reason, "finish_id": finish_id},
        proof=("finish_id", finish_id),
    )


def requeue(run: Run, ver: int, finish_id: str) -> Change:
    """Row 18 after an edit: it has not started, so it is dispatched again under the new version; no attempt used."""
    return Change(
        run=run.id,
        row=18,
        sources=TRANSITIONS[18].sources,
        target=RunState.RETRYING,
        below_ver=ver,
        check_in=NOW,
        sets={"job_ver": ver, "attempt": run.attempt - 1, "finish_id": finish_id},
        proof=("finish_id", finish_id),
    )


def keep(run: Run, ver: int) -> Change:
    """Row 16 after an edit: what runs may end, and what waits for a retry is tried under the new version."""
    return Change(
        run=run.id,
        row=16,
        sources=frozenset({run.state}),
        target=run.state,
        below_ver=ver,
        sets={"job_ver": ver},
        proof=("job_ver", ver),
    )
