"""Recovery: what the leader does with an open run that nobody has looked after in time.

Every open run carries `check_at`; when it has passed, `reconcile` says what follows from the run, from what Redis
knows of its worker, and from the job's delivery. The rule: each visit ends the run or gives it a new finite
`check_at`, and postponing is bounded, so no run stays open for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from cronflow.domain.job import Delivery
from cronflow.domain.planning import ACK_WITHIN
from cronflow.domain.run import POISON_LIMIT, Attempt, Outcome, Run, RunState

VETO_LIMIT = 6
VETO_WHILE_RUNNING = timedelta(seconds=30)
BEYOND_TIMEOUT = timedelta(seconds=60)


class Holder(Enum):
    """What Redis says of the incarnation that a run was dispatched to."""

    HAS_IT = "alive, and lists the run under this fence"
    WITHOUT_IT = "alive, but does not list the run"
    DEAD = "gone"
    DEAD_WITH_IT = "gone, and had taken the run"


@dataclass(frozen=True, slots=True)
class Postpone:
    """Leave it with its worker for a while (row 17). `counts`: against the number of times that its worker is given."""

    check_in: timedelta
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Place it again (row 9, 10 or 12). `lost` is the attempt that its worker took with it."""

    row: int
    lost: Attempt | None = None


@dataclass(frozen=True, slots=True)
class End:
    """It ends here (row 11 or 14)."""

    row: int
    target: RunState
    outcome: Outcome
    error: str
    lost: Attempt | None = None


Verdict = Postpone | Dispatch | End


def reconcile(run: Run, holder: Holder, delivery: Delivery, timeout: timedelta, now: datetime) -> Verdict:
    """What the leader does with an open run that nobody has looked after in time."""
    match run.state:
        case RunState.RETRYING:
            return Dispatch(12)
        case RunState.DISPATCHED:
            if holder is Holder.HAS_IT and run.vetoes < VETO_LIMIT:
                return Postpone(ACK_WITHIN)
            lost = _lost(run, now) if holder is Holder.DEAD_WITH_IT else None
            return _poisoned(run, lost) or Dispatch(9, lost)
        case _:
            return _reconcile_running(run, holder, delivery, timeout, now)


def _reconcile_running(run: Run, holder: Holder, delivery: Delivery, timeout: timedelta, now: datetime) -> Verdict:
    if run.started_at is not None and now - run.started_at > timeout + BEYOND_TIMEOUT:
        return End(14, RunState.FAILED, Outcome.TIMEOUT, "its worker did not end it at its timeout", _lost(run, now))
    if holder is Holder.HAS_IT and run.vetoes < 1:
        return Postpone(VETO_WHILE_RUNNING)
    lost = _lost(run, now)
    if delivery is Delivery.AT_MOST_ONCE:
        return End(11, RunState.LOST, Outcome.LOST, f"node {run.node} was lost while it ran", lost)
    return _poisoned(run, lost) or Dispatch(10, lost)


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
    return End(14, RunState.FAILED, Outcome.POISON, f"{count} attempts took their node with them", lost)
