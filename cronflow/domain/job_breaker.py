"""The circuit breaker of a job: above an error rate, its failing runs become dead letters instead of being retried.

It stops retries, not schedules. Rules: it opens when the window is full of attempts and more than `threshold` of them
failed; it closes by hand, or when a run that started after the cooldown (the probe) succeeds; a probe that fails begins
another cooldown. Attempts from before it closed do not count. Attempts that were given back or cancelled, and runs that
skipped themselves, say nothing about the error rate.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from cronflow.domain.durations import absolute
from cronflow.domain.job import Breaker
from cronflow.domain.retry_decision import FAILURES
from cronflow.domain.run import Attempt, Outcome

DECIDING = FAILURES | {Outcome.OK}
"""The outcomes of a worker's attempts that may open or close a breaker."""
COUNTED = DECIDING | {Outcome.LOST}


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerState:
    """The breaker of a job as stored. `opened_at` is None while it is closed. Open, it was opened by `failed` of
    `attempts` attempts, and a run that starts from `probe_at` on is a probe. Attempts that ended before `counts_from`
    do not count.
    """

    job: str
    opened_at: datetime | None = None
    probe_at: datetime | None = None
    failed: int = 0
    attempts: int = 0
    counts_from: datetime | None = None

    @property
    def is_open(self) -> bool:
        return self.opened_at is not None

    @property
    def reason(self) -> str:
        """Why a failing run is not retried while it is open."""
        assert self.opened_at is not None
        rate = f"{self.failed} of {self.attempts} attempts had failed by {absolute(self.opened_at)}"
        return f"circuit breaker open: {rate}"


def observe(
    breaker: Breaker, state: BreakerState, earlier: Iterable[Attempt], latest: Attempt, now: datetime
) -> BreakerState:
    """The state after the latest attempt of the job. `earlier` are attempts that ended before it, in any order."""
    probe = state.probe_at is not None and latest.started_at is not None and latest.started_at >= state.probe_at
    if latest.outcome is Outcome.OK:
        return closed(state, now) if state.is_open and probe else state
    if latest.outcome not in FAILURES:
        return state
    if state.is_open:
        return replace(state, probe_at=now + breaker.cooldown) if probe else state
    counted = [
        attempt
        for attempt in (*earlier, latest)
        if attempt.outcome in COUNTED and (state.counts_from is None or attempt.ended_at >= state.counts_from)
    ]
    window = sorted(counted, key=lambda attempt: attempt.ended_at)[-breaker.window :]
    failed = sum(attempt.outcome is not Outcome.OK for attempt in window)
    if len(window) < breaker.window or failed <= breaker.threshold * len(window):
        return state
    return replace(state, opened_at=now, probe_at=now + breaker.cooldown, failed=failed, attempts=len(window))


def closed(state: BreakerState, now: datetime) -> BreakerState:
    """Closed at `now`."""
    return BreakerState(job=state.job, counts_from=now)
