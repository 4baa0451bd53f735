"""Whether a failed attempt is followed by another one, and when.

The order of the reasons: the job's own decision (PermanentError), the rules, the number of retries, the job's circuit
breaker, the deadline. The worker decides when an attempt ends; the leader looks again when the retry is due, because
the breaker may have opened, or the deadline passed, in the meantime.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from cronflow.domain.durations import absolute
from cronflow.domain.job import Retry
from cronflow.domain.run import Attempt, AttemptResult, Outcome, Run

FAILURES = frozenset({Outcome.ERROR, Outcome.TIMEOUT, Outcome.PERMANENT})
"""The outcomes of attempts that a retry may follow."""
NO_TRY = frozenset({Outcome.DECLINED, Outcome.DEFERRED, Outcome.DRAINED})
"""The outcomes of attempts that used up no retry."""
TIMED_OUT = ("builtins.TimeoutError",)


def next_try(
    retry: Retry,
    attempt: int,
    result: AttemptResult,
    *,
    run: str,
    now: datetime,
    until: datetime | None = None,
    stopped: str | None = None,
) -> timedelta | str | None:
    """The delay before the retry that follows attempt number `attempt`; or why there is none, None if the outcome and
    the number of attempts say it all. No retry begins after `until`; `stopped` is why the job's failing runs are not
    retried at present.
    """
    rule = retry.rule_for(result.error_classes or (TIMED_OUT if result.outcome is Outcome.TIMEOUT else ()))
    if (rule is None and result.outcome is Outcome.PERMANENT) or attempt > retry.max:
        return None
    if rule is not None and not rule.retry:
        return f"a retry rule says not to retry {rule.match}"
    if stopped is not None:
        return stopped
    delay = retry.delay(attempt, run) if result.delay is None else result.delay
    return past_deadline(until, now + delay) or delay


def past_deadline(until: datetime | None, begins: datetime) -> str | None:
    """Why no retry may begin at this time, or None."""
    if until is None or begins <= until:
        return None
    return f"retry deadline: no retry starts after {absolute(until)}"


def failed_attempt(run: Run) -> Attempt | None:
    """The failure that a waiting run is to be retried after; None if it waits for another reason."""
    last = next((attempt for attempt in reversed(run.attempts) if attempt.outcome not in NO_TRY), None)
    return last if last is not None and last.outcome in FAILURES else None
