"""Recovery: what the leader does with an open run whose `check_at` has passed.

`reconcile` decides from the run, the state of its worker in Redis, and the job's delivery. Rule: each decision ends the
run or sets a new finite `check_at`, and postponing is bounded, so no run stays open for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from cronflow.domain.backfill import FIRE_DUE, yields
from cronflow.domain.job import Delivery, Job, JobRecord, MisfirePolicy, Overlap
from cronflow.domain.planning import ACK_WITHIN
from cronflow.domain.retry_decision import failed_attempt, past_deadline
from cronflow.domain.run import POISON_LIMIT, SCHEDULED, Attempt, Kind, Outcome, Run, RunState, cancelled_text
from cronflow.domain.shadow import SHADOWED
from cronflow.domain.transitions import Transition
from cronflow.domain.version import version_of

VETO_LIMIT = 6
VETO_WHILE_RUNNING = timedelta(seconds=30)
BEYOND_TIMEOUT = timedelta(seconds=60)
WHILE_ANOTHER_RUNS = timedelta(seconds=1)
DEFERRED_FOR = timedelta(seconds=30)
MANY_DECLINES = 20


class Holder(Enum):
    """The state in Redis of the incarnation that a run was dispatched to."""

    HAS_IT = "alive, and lists the run under this fence"
    WITHOUT_IT = "alive, but does not list the run"
    DEAD = "gone"
    DEAD_WITH_IT = "gone, and had taken the run"


@dataclass(frozen=True, slots=True)
class Postpone:
    """Leave the run with its worker for a while. `counts`: whether this counts towards the limit of postponements."""

    check_in: timedelta
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Place the run again. `lost` is the attempt that ended with its worker."""

    transition: Transition
    lost: Attempt | None = None


@dataclass(frozen=True, slots=True)
class End:
    transition: Transition
    target: RunState
    outcome: Outcome | None
    error: str | None = None
    lost: Attempt | None = None
    reason: str | None = None


Verdict = Postpone | Dispatch | End


def reconcile(run: Run, holder: Holder, delivery: Delivery, timeout: timedelta, now: datetime) -> Verdict:
    """Decide an open run whose `check_at` has passed.

    A run with a cancellation request is never dispatched again; it is cancelled once no worker runs it.
    """
    if run.cancel_requested and run.state is not RunState.RUNNING:
        return _cancelled(run)
    match run.state:
        case RunState.RETRYING:
            return Dispatch(Transition.DISPATCH_RETRY)
        case RunState.DISPATCHED:
            if holder is Holder.HAS_IT and run.vetoes < VETO_LIMIT:
                return Postpone(ACK_WITHIN)
            lost = _lost(run, now) if holder is Holder.DEAD_WITH_IT else None
            return _poisoned(run, lost) or Dispatch(Transition.REDISPATCH_UNTAKEN, lost)
        case _:
            return _reconcile_running(run, holder, delivery, timeout, now)


def _reconcile_running(run: Run, holder: Holder, delivery: Delivery, timeout: timedelta, now: datetime) -> Verdict:
    beyond = run.started_at is not None and now - run.started_at > timeout + BEYOND_TIMEOUT
    if run.cancel_requested and (beyond or holder is not Holder.HAS_IT or run.vetoes):
        return _cancelled(run, _lost(run, now))
    # A run on a worker that is gone is lost, whatever its timeout.
    if beyond and holder is Holder.HAS_IT:
        return End(
            Transition.FAIL,
            RunState.FAILED,
            Outcome.TIMEOUT,
            "its worker did not stop the run at its timeout",
            _lost(run, now),
        )
    if holder is Holder.HAS_IT and run.vetoes < 1:
        return Postpone(VETO_WHILE_RUNNING)
    lost = _lost(run, now)
    if delivery is Delivery.AT_MOST_ONCE:
        return End(Transition.MARK_LOST, RunState.LOST, Outcome.LOST, f"node {run.node} was lost while it ran", lost)
    return _poisoned(run, lost) or Dispatch(Transition.REDISPATCH_LOST, lost)


def retry_ended(run: Run, job: Job, stopped: str | None, now: datetime) -> End | None:
    """Why a run whose retry is due is a dead letter instead; None when it may be retried, or waits for another reason.
    `stopped` is why the job's failing runs are not retried at present.
    """
    failure = failed_attempt(run) if run.state is RunState.RETRYING else None
    if failure is None:
        return None
    reason = stopped or past_deadline(job.retry.until(run.first_due), now)
    if reason is None:
        return None
    return End(Transition.FAIL, RunState.FAILED, failure.outcome, failure.error, reason=reason)


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A run that waits for a reason other than a node: the reason, when to look again, and whether all waiting runs of
    its job wait for the same.
    """

    reason: str
    verdict: Postpone
    of_job: bool = False


def held_back(run: Run, record: JobRecord, now: datetime, others: Collection[RunState]) -> HeldBack | End | None:
    """Why a run that has not started, or must start again, is not dispatched now; None when it may be.

    Checked at every dispatch, not only at the first (temporal #11281). `others` are the states of the other open runs
    of its job. A dispatched run waits for running ones, and a retrying one for both, so no two wait for each other.
    """
    job = record.job
    if (never := never_starts(run, record)) is not None:
        return never
    if _missed(run, job, now):
        return End(Transition.SKIP_WAITING, RunState.SKIPPED, None, reason="misfire")
    # A part does not wait for the other parts: its parent had to wait before it began.
    if job.overlap is not Overlap.ALLOW and run.parent is None:
        ahead = {RunState.RUNNING}
        if run.state is RunState.RETRYING:
            ahead.add(RunState.DISPATCHED)
        if ahead & set(others):
            return HeldBack("another run of this job is open", Postpone(WHILE_ANOTHER_RUNS), of_job=True)
    reason = yields(record, now) if run.ranked_as is Kind.BACKFILL else None
    # A fire waits for a run that was dispatched and for a parent that has begun, so neither that run nor the parts wait
    # for the fire.
    if reason is None or (reason == FIRE_DUE and (run.parent is not None or run.state is not RunState.RETRYING)):
        return None
    return HeldBack(reason, Postpone(WHILE_ANOTHER_RUNS))


def never_starts(run: Run, record: JobRecord) -> End | None:
    """The skip of a run that waits and must not start; None for all others.

    A run that follows others must not if its job was deleted, paused or disabled after the leader had read it, so the
    edit found no run to cancel. In shadow mode only requested runs, and attempts after a first one, may start: a leader
    of 0.11, which does not know the mode, opens runs, and an edit to shadow mode leaves those that wait.
    """
    if run.state is not RunState.RETRYING:
        return None
    reason: str | None = None
    if run.kind is Kind.AFTER and run.job_ver < record.ver:
        reason = version_of(record).held
    if reason is None and record.job.is_shadow and not (run.is_requested or _has_started(run)):
        reason = SHADOWED
    return None if reason is None else End(Transition.SKIP_WAITING, RunState.SKIPPED, None, reason=reason)


def _missed(run: Run, job: Job, now: datetime) -> bool:
    """The limits are those of planning, counted from the last instant that the run covers."""
    if run.kind not in SCHEDULED:
        return False
    late = now - (run.fire_at if run.covers is None else run.covers.last)
    if late <= job.misfire.late_after:
        return False
    match job.misfire.policy:
        case MisfirePolicy.FIRE_ONCE:
            return job.misfire.grace is not None and late > job.misfire.grace
        case MisfirePolicy.SKIP:
            # A run that started in time may be retried.
            return not _has_started(run)
        case MisfirePolicy.CATCH_UP:
            return False


def _has_started(run: Run) -> bool:
    return any(attempt.started_at is not None for attempt in run.attempts)


def refusals(run: Run, now: datetime) -> Mapping[str, str]:
    """The nodes that are not offered the run again, with their reasons: for good if declined, else for a while.

    Only nodes that announce no capabilities, or fewer than they check, decline runs. That never ends a run.
    """
    return {
        attempt.node: attempt.error or attempt.outcome.value
        for attempt in run.attempts
        if attempt.outcome is Outcome.DECLINED
        or (attempt.outcome is Outcome.DEFERRED and now - attempt.ended_at < DEFERRED_FOR)
    }


def decline_pause(run: Run, now: datetime) -> timedelta | None:
    """How long to leave a run alone that many nodes have declined. A run keeps only its newest attempts, so in a large
    cluster it would be offered to the same nodes again and again.
    """
    declined = [attempt for attempt in run.attempts if attempt.outcome is Outcome.DECLINED]
    if len(declined) < MANY_DECLINES:
        return None
    left = declined[-1].ended_at + DEFERRED_FOR - now
    return left if left > timedelta(0) else None


def _cancelled(run: Run, lost: Attempt | None = None) -> End:
    reason = cancelled_text(run.cancel_reason, run.cancel_by)
    return End(Transition.CONFIRM_CANCEL, RunState.CANCELLED, Outcome.CANCELLED, lost=lost, reason=reason)


def _lost(run: Run, now: datetime) -> Attempt:
    return Attempt(
        run.attempt,
        run.fence,
        run.node or "",
        run.started_at,
        now,
        Outcome.LOST,
        "its node was lost or stopped renewing",
    )


def _poisoned(run: Run, lost: Attempt | None) -> End | None:
    count = sum(attempt.outcome is Outcome.LOST for attempt in run.attempts) + (lost is not None)
    if count < POISON_LIMIT:
        return None
    return End(Transition.FAIL, RunState.FAILED, Outcome.POISON, f"{count} attempts lost their node", lost)
