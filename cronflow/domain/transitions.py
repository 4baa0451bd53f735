"""Every state change of a run: the table of transitions, and the functions that create each change.

`TRANSITIONS` is the single source: a change that it does not list cannot be created, tests check every history against
it, and the documentation draws it. A `Change` is a compare-and-set that names its transition; the store decides whether
it applies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from cronflow.domain.job import Delivery, JobRecord, Retry
from cronflow.domain.placement import Placement, Waiting
from cronflow.domain.planning import ACK_WITHIN
from cronflow.domain.retry_decision import next_try
from cronflow.domain.run import (
    SCHEDULED,
    Attempt,
    AttemptResult,
    Kind,
    NodeTimes,
    Outcome,
    Run,
    RunState,
    cancelled_text,
)

if TYPE_CHECKING:
    from cronflow.domain.recovery import Dispatch, End, Postpone
    from cronflow.domain.resources import ResourceAmount


class Actor(StrEnum):
    LEADER = "leader"
    WORKER = "worker"
    EDITOR = "editor"


class Transition(StrEnum):
    """The first four insert a run."""

    PLAN = "plan"
    PLAN_PARENT = "plan_parent"
    SKIP_FIRE = "skip_fire"
    REQUEST = "request"
    START = "start"
    RENEW_LEASE = "renew_lease"
    FINISH = "finish"
    RETRY = "retry"
    GIVE_BACK = "give_back"
    REDISPATCH_UNTAKEN = "redispatch_untaken"
    REDISPATCH_LOST = "redispatch_lost"
    MARK_LOST = "mark_lost"
    DISPATCH_RETRY = "dispatch_retry"
    SKIP_WAITING = "skip_waiting"
    FAIL = "fail"
    CANCEL = "cancel"
    REQUEST_CANCEL = "request_cancel"
    ADOPT_EDIT = "adopt_edit"
    POSTPONE = "postpone"
    REQUEUE = "requeue"
    CONFIRM_CANCEL = "confirm_cancel"
    SPLIT = "split"
    WAIT_TO_SPLIT = "wait_to_split"
    CANCEL_PARTS = "cancel_parts"
    SUM_UP = "sum_up"


@dataclass(frozen=True, slots=True)
class TransitionRule:
    """The states that a transition connects, and the actors that may make it. Without `sources` the run is inserted.
    `fenced`: the change must compare the actor's fence. `only_when_due`: `check_at` must have passed.
    """

    sources: frozenset[RunState]
    targets: frozenset[RunState]
    actors: frozenset[Actor]
    meaning: str
    fenced: bool = True
    only_when_due: bool = False


_OPEN = "dispatched running retrying"
_WAITING = "dispatched retrying"


def _rule(
    sources: str, targets: str, actors: str, meaning: str, *, fenced: bool = True, due: bool = False
) -> TransitionRule:
    before, after = (frozenset(RunState(word) for word in text.split()) for text in (sources, targets))
    return TransitionRule(before, after, frozenset(Actor(word) for word in actors.split()), meaning, fenced, due)


_T = Transition  # short, so that a rule fits on a line
TRANSITIONS: Mapping[Transition, TransitionRule] = {
    _T.PLAN: _rule("", "dispatched", "leader", "a fire is planned and placed on a node", fenced=False),
    _T.PLAN_PARENT: _rule("", "retrying", "leader", "a fire is planned that its parts execute", fenced=False),
    _T.SKIP_FIRE: _rule("", "skipped", "leader editor", "a fire is not run; the reason is recorded", fenced=False),
    _T.REQUEST: _rule("", "retrying", "editor leader", "a run is requested outside the schedule", fenced=False),
    _T.START: _rule("dispatched", "running", "worker", "the start is recorded"),
    _T.RENEW_LEASE: _rule("running", "running", "worker", "the lease is renewed"),
    _T.FINISH: _rule(
        "dispatched running", "succeeded failed cancelled skipped", "worker", "the last attempt has ended"
    ),
    _T.RETRY: _rule("dispatched running", "retrying", "worker", "an attempt has ended and another one follows"),
    _T.GIVE_BACK: _rule("dispatched running", "retrying", "worker", "given back before its handler has started"),
    _T.REDISPATCH_UNTAKEN: _rule("dispatched", "dispatched", "leader", "not taken in time: placed again", due=True),
    _T.REDISPATCH_LOST: _rule("running", "dispatched", "leader", "its worker is lost: placed again", due=True),
    _T.MARK_LOST: _rule("running", "lost", "leader worker", "its worker is lost, and it must not start twice"),
    _T.DISPATCH_RETRY: _rule("retrying", "dispatched", "leader", "the retry is due", due=True),
    _T.SKIP_WAITING: _rule(_WAITING, "skipped", "leader", "it may no longer run; the reason is recorded"),
    _T.FAIL: _rule(_OPEN, "failed", "leader", "poisoned, beyond its timeout, or its retry may no longer begin"),
    _T.CANCEL: _rule(_WAITING, "cancelled", "editor leader", "cancelled before it started", fenced=False),
    _T.REQUEST_CANCEL: _rule("running", "running", "editor leader", "its worker is asked to cancel it", fenced=False),
    _T.ADOPT_EDIT: _rule(
        "running retrying", "running retrying", "editor leader", "it continues under the edited job", fenced=False
    ),
    _T.POSTPONE: _rule(_OPEN, _OPEN, "leader", "nothing to do yet: checked again later", due=True),
    _T.REQUEUE: _rule("dispatched", "retrying", "editor", "queued again under the edited job", fenced=False),
    _T.CONFIRM_CANCEL: _rule(
        _OPEN, "cancelled", "leader", "cancellation was requested and no worker is running it", due=True
    ),
    _T.SPLIT: _rule("retrying", "retrying", "leader", "a parent begins: from now on its parts may exist"),
    _T.WAIT_TO_SPLIT: _rule("retrying", "retrying", "leader", "a parent may not begin yet; the reason is recorded"),
    _T.CANCEL_PARTS: _rule("retrying", "retrying", "editor leader", "a parent is to be cancelled with its parts"),
    _T.SUM_UP: _rule("retrying", "succeeded failed cancelled", "leader", "all parts of a parent have ended"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A compare-and-set of one run.

    It applies when the run's state is one of `sources` and, where given, its fence equals `fence`, its job version
    `job_ver` (or is below `below_ver`), its `check_at` has passed, no cancellation was requested, and no start is
    recorded but `own_start`. It then sets `target` and `sets`, appends `attempt`, and moves `check_at` to `check_in`
    from the store's own clock (an ended target removes it). `proof` is a field and value that only this change writes:
    reading it back shows which changes applied when a batch matched only some, or when its reply was lost.
    """

    run: str
    transition: Transition
    sources: frozenset[RunState]
    target: RunState
    fence: int | None = None
    job_ver: int | None = None
    below_ver: int | None = None
    only_when_due: bool = False
    unless_cancelled: bool = False
    own_start: str | None = None
    check_in: timedelta | None = None
    sets: Mapping[str, object] = field(default_factory=dict)
    attempt: Attempt | None = None
    proof: tuple[str, object] | None

    def __post_init__(self) -> None:
        rule = TRANSITIONS[self.transition]
        if not self.sources <= rule.sources or self.target not in rule.targets:
            raise ValueError(f"{self.transition} does not lead from {sorted(self.sources)} to {self.target}")
        if rule.fenced and self.fence is None:
            raise ValueError(f"{self.transition} must compare the fence")


NOW = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedRun:
    """A run as its worker holds it: the data that the worker's transitions need. `start_id` is empty until its attempt
    begins. no retry of it begins after `retry_until`.
    """

    run: str
    fence: int
    node: str
    attempt: int
    retry: Retry
    delivery: Delivery
    start_id: str = ""
    retry_until: datetime | None = None


def start(claimed: ClaimedRun, start_id: str, at: datetime, lease: timedelta) -> Change:
    return Change(
        run=claimed.run,
        transition=Transition.START,
        sources=TRANSITIONS[Transition.START].sources,
        target=RunState.RUNNING,
        fence=claimed.fence,
        check_in=lease,
        sets={"start_id": start_id, "started_at": at, "vetoes": 0},
        proof=("start_id", start_id),
    )


def renew(claimed: ClaimedRun, lease: timedelta) -> Change:
    """Needs no proof: a run that is running under this fence belongs to this worker."""
    return Change(
        run=claimed.run,
        transition=Transition.RENEW_LEASE,
        sources=TRANSITIONS[Transition.RENEW_LEASE].sources,
        target=RunState.RUNNING,
        fence=claimed.fence,
        check_in=lease,
        proof=None,
    )


def finish(
    claimed: ClaimedRun,
    attempt_result: AttemptResult,
    finish_id: str,
    started_at: datetime | None,
    at: datetime,
    *,
    stopped: str | None = None,
    times: NodeTimes | None = None,
) -> Change:
    """The change at the end of an attempt: FINISH, RETRY, GIVE_BACK or MARK_LOST. `stopped` is why the job's failing
    runs are not retried at present. `times` are those of an attempt that started late.

    Deferred, declined and drained attempts do not count as retries.
    """
    attempt = ended_attempt(claimed, attempt_result, started_at, at, times)
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

    def end(target: RunState, transition: Transition = Transition.FINISH) -> Change:
        sources = TRANSITIONS[transition].sources
        return Change(
            run=claimed.run,
            transition=transition,
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
            transition=Transition.RETRY,
            sources=TRANSITIONS[Transition.RETRY].sources,
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
            return end(RunState.LOST, transition=Transition.MARK_LOST)
        case Outcome.ERROR | Outcome.TIMEOUT | Outcome.PERMANENT if claimed.delivery is Delivery.AT_LEAST_ONCE:
            following = next_try(
                claimed.retry,
                claimed.attempt,
                attempt_result,
                run=claimed.run,
                now=at,
                until=claimed.retry_until,
                stopped=stopped,
            )
            if isinstance(following, timedelta):
                return again(following, counts=True)
            ended |= {} if following is None else {"reason": following}
            return end(RunState.FAILED)
        case _:
            return end(RunState.FAILED)


def ended_attempt(
    claimed: ClaimedRun,
    attempt_result: AttemptResult,
    started_at: datetime | None,
    at: datetime,
    times: NodeTimes | None = None,
) -> Attempt:
    """The attempt as its run stores it."""
    return Attempt(
        claimed.attempt,
        claimed.fence,
        claimed.node,
        started_at,
        at,
        attempt_result.outcome,
        attempt_result.error,
        times,
        attempt_result.used,
    )


def give_back(
    claimed: ClaimedRun,
    finish_id: str,
    attempt_result: AttemptResult,
    ended_at: datetime,
    waiting: Waiting | None = None,
) -> Change:
    """The handler never started, so no attempt is used up, although the start may be recorded: `start_guard: mongo`
    records it before the executor is called. If another holder of a duplicated item has recorded its start, the run
    stays with that one. A declined or deferred attempt is stored, so that the leader does not offer the run to that
    node again. It is no failure, so the run's `error` stays as it is. With `waiting`, a limit is full: every node would
    defer the run, so the attempt is not stored.
    """
    refused = None
    if waiting is None and attempt_result.outcome in (Outcome.DECLINED, Outcome.DEFERRED):
        refused = Attempt(
            claimed.attempt, claimed.fence, claimed.node, None, ended_at, attempt_result.outcome, attempt_result.error
        )
    return Change(
        run=claimed.run,
        transition=Transition.GIVE_BACK,
        sources=TRANSITIONS[Transition.GIVE_BACK].sources,
        target=RunState.RETRYING,
        fence=claimed.fence,
        own_start=claimed.start_id,
        check_in=attempt_result.delay or NOW,
        sets={
            "finish_id": finish_id,
            "attempt": claimed.attempt - 1,
            "started_at": None,
            "start_id": None,
            **({} if waiting is None else {"waiting": waiting}),
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
    reserved: ResourceAmount | None = None,
    followed: bool = False,
    slotless: Waiting | None = None,
) -> Change:
    """Dispatch the run under a new fence, compared with the run as it was read. It reserves `reserved` on its node.
    `followed`: other jobs may follow its job. `slotless` is its wait for a slot, if the run does not contain why it
    waited.
    """
    sets: dict[str, object] = {
        "fence": fence,
        "term": term,
        "node": node,
        "placement": placement,
        "waiting": None,
        "job_ver": job_ver,
        "dispatched_at": at,
        "redispatches": run.redispatches + (verdict.transition is not Transition.DISPATCH_RETRY),
        "vetoes": 0,
        "start_id": None,
    }
    waited = run.waiting or slotless
    if waited is not None and run.started_at is None and not run.attempts:
        sets["waited"] = waited
    if followed and run.kind is Kind.AFTER and not run.followed:
        # Its job may be followed since the leader had read it to create this run.
        sets["followed"] = True
    if reserved or run.reserved:
        sets["reserved"] = reserved or None
    if verdict.transition is Transition.DISPATCH_RETRY:
        sets["attempt"] = run.attempt + 1
    if run.attempts and run.attempts[-1].outcome in (Outcome.DECLINED, Outcome.DEFERRED):
        # A worker of 0.6 stores a refusal as the run's error.
        failed = [attempt.error for attempt in run.attempts if attempt.outcome in (Outcome.ERROR, Outcome.TIMEOUT)]
        sets["error"] = failed[-1] if failed else None
    # Its worker holds a scheduled run until its instant.
    early = max(NOW, run.fire_at - at) if run.kind in SCHEDULED else NOW
    change = _seen(
        run, verdict.transition, RunState.DISPATCHED, sets, verdict.lost, ("fence", fence), ACK_WITHIN + early
    )
    # A cancellation request since the read has changed neither state nor fence.
    return replace(change, unless_cancelled=True)


def postpone(run: Run, verdict: Postpone, waiting: Waiting | None = None, *, releases: bool = False) -> Change:
    """Check again later. `waiting` is the reason, unless its worker still has the run. With `releases` it reserves
    nothing until it is dispatched: runs that wait for that would keep the room that they need from each other.
    """
    sets: dict[str, object] = {"vetoes": run.vetoes + verdict.counts, "waiting": waiting}
    if run.reserved and releases:
        sets["reserved"] = None
    return _seen(run, Transition.POSTPONE, run.state, sets, None, None, verdict.check_in)


def hold(run: Run, waiting: Waiting) -> Change:
    """Record why a run waits. It stays due, so that it keeps its place in the queue."""
    return _seen(run, Transition.POSTPONE, run.state, {"waiting": waiting}, None, None, None)


def end(run: Run, verdict: End, finish_id: str, at: datetime) -> Change:
    """A run that is skipped or cancelled keeps the error of its last attempt."""
    sets: dict[str, object] = {"ended_at": at, "outcome": verdict.outcome, "finish_id": finish_id}
    if verdict.error is not None:
        sets["error"] = verdict.error
    if verdict.reason is not None:
        sets["reason"] = verdict.reason
    return _seen(run, verdict.transition, verdict.target, sets, verdict.lost, ("finish_id", finish_id), None)


def _seen(
    run: Run,
    transition: Transition,
    target: RunState,
    sets: Mapping[str, object],
    attempt: Attempt | None,
    proof: tuple[str, object] | None,
    check_in: timedelta | None,
) -> Change:
    return Change(
        run=run.id,
        transition=transition,
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
    """CANCEL for a run that has not started; REQUEST_CANCEL for a running one, which its worker then stops;
    CANCEL_PARTS for a parent that has begun.

    Compares only the state, because the run must end under any fence. Only the fence of a parent shows whether it has
    begun.
    """
    if run.split is not None and run.split.begun:
        return Change(
            run=run.id,
            transition=Transition.CANCEL_PARTS,
            sources=TRANSITIONS[Transition.CANCEL_PARTS].sources,
            target=RunState.RETRYING,
            fence=run.fence,
            sets={"cancel_requested": True, "cancel_reason": reason, "cancel_by": by},
            proof=("cancel_requested", True),
        )
    if run.state is RunState.RUNNING:
        return Change(
            run=run.id,
            transition=Transition.REQUEST_CANCEL,
            sources=frozenset({RunState.RUNNING}),
            target=RunState.RUNNING,
            sets={"cancel_requested": True, "cancel_reason": reason, "cancel_by": by},
            proof=("cancel_requested", True),
        )
    return Change(
        run=run.id,
        transition=Transition.CANCEL,
        sources=TRANSITIONS[Transition.CANCEL].sources,
        target=RunState.CANCELLED,
        fence=None if run.split is None else run.fence,
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
    """CANCEL a run of an older version that has not started, after an edit, pause or delete."""
    return Change(
        run=run.id,
        transition=Transition.CANCEL,
        sources=TRANSITIONS[Transition.CANCEL].sources,
        target=RunState.CANCELLED,
        fence=None if run.split is None else run.fence,
        below_ver=ver,
        sets={"ended_at": at, "outcome": Outcome.CANCELLED, "reason": reason, "finish_id": finish_id},
        proof=("finish_id", finish_id),
    )


def requeue(run: Run, edited: JobRecord, finish_id: str) -> Change:
    """After an edit: dispatch a run that has not started again under the new version, without using an attempt."""
    return Change(
        run=run.id,
        transition=Transition.REQUEUE,
        sources=TRANSITIONS[Transition.REQUEUE].sources,
        target=RunState.RETRYING,
        below_ver=edited.ver,
        check_in=NOW,
        sets={**_of_version(run, edited), "attempt": run.attempt - 1, "finish_id": finish_id},
        proof=("finish_id", finish_id),
    )


def keep(run: Run, edited: JobRecord) -> Change:
    """After an edit: a running run may finish, and a waiting one is retried under the new version."""
    return Change(
        run=run.id,
        transition=Transition.ADOPT_EDIT,
        sources=frozenset({run.state}),
        target=run.state,
        below_ver=edited.ver,
        sets=_of_version(run, edited),
        proof=("job_ver", edited.ver),
    )


def _of_version(run: Run, record: JobRecord) -> dict[str, object]:
    return {"job_ver": record.ver, "priority": record.job.priority_of(run.ranked_as)}
