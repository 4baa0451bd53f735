"""Whether a failed attempt is followed by another one: the job's own decision, rules, number, breaker and deadline."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cronflow.domain.job import Job
from cronflow.domain.recovery import End, retry_ended
from cronflow.domain.retry import Retry, RetryRule
from cronflow.domain.retry_decision import next_try
from cronflow.domain.run import Attempt, AttemptResult, Kind, Outcome, Run, RunState
from cronflow.domain.transitions import Transition
from tests.contracts.builders import T0, a_job, a_run

SECOND = timedelta(seconds=1)
STOPPED = "circuit breaker open: 4 of 5 attempts had failed"
REFUSED = AttemptResult(Outcome.ERROR, error_classes=("builtins.ConnectionRefusedError", "builtins.OSError"))
NOT_FOUND = AttemptResult(Outcome.PERMANENT, error_classes=("http:404",))
PERMANENT = AttemptResult(Outcome.PERMANENT)
LATER = AttemptResult(Outcome.ERROR, delay=timedelta(minutes=7))
TIMEOUT = AttemptResult(Outcome.TIMEOUT)


def rules(*pairs: tuple[str, bool]) -> Retry:
    return Retry(rules=[RetryRule(match, retry) for match, retry in pairs])


def decided(retry: Retry, result: AttemptResult, attempt: int = 1, **known: Any) -> timedelta | str | None:
    return next_try(retry, attempt, result, run="r@1", now=T0, **known)


@pytest.mark.parametrize(
    ("retry", "result", "expected"),
    [
        (Retry(), REFUSED, 30 * SECOND),
        (Retry(), TIMEOUT, 30 * SECOND),
        (Retry(), LATER, timedelta(minutes=7)),
        (Retry(), PERMANENT, None),
        (Retry(), NOT_FOUND, None),
        (rules(("OSError", False)), REFUSED, "a retry rule says not to retry OSError"),
        (rules(("ConnectionRefusedError", True), ("OSError", False)), REFUSED, 30 * SECOND),
        (rules(("ValueError", False)), REFUSED, 30 * SECOND),
        (rules(("TimeoutError", False)), TIMEOUT, "a retry rule says not to retry TimeoutError"),
        # A rule may also retry what is permanent otherwise.
        (rules(("http:404", True)), NOT_FOUND, 30 * SECOND),
        (rules(("http:4xx", False)), NOT_FOUND, "a retry rule says not to retry http:4xx"),
        # The job's own decision has no classes, so no rule applies to it.
        (rules(("Exception", True), ("PermanentError", True)), PERMANENT, None),
        (rules(("Exception", False)), LATER, timedelta(minutes=7)),
    ],
)
def test_rules_decide_about_errors_and_the_rest_is_decided_by_the_outcome(
    retry: Retry, result: AttemptResult, expected: object
) -> None:
    assert decided(retry, result) == expected


def test_no_rule_adds_to_the_number_of_retries() -> None:
    retry = rules(("OSError", True), ("http:404", True))
    assert decided(retry, REFUSED, attempt=3) == 120 * SECOND
    assert decided(retry, REFUSED, attempt=4) is None
    assert decided(retry, NOT_FOUND, attempt=4) is None


def test_an_open_breaker_stops_what_would_be_retried_and_explains_nothing_else() -> None:
    assert decided(Retry(), REFUSED, stopped=STOPPED) == STOPPED
    assert decided(Retry(), LATER, stopped=STOPPED) == STOPPED
    assert decided(Retry(), PERMANENT, stopped=STOPPED) is None
    assert decided(Retry(max=0), REFUSED, stopped=STOPPED) is None
    assert decided(rules(("OSError", False)), REFUSED, stopped=STOPPED) == "a retry rule says not to retry OSError"


def test_no_retry_begins_after_the_deadline_and_one_at_the_deadline_does() -> None:
    assert decided(Retry(), REFUSED, until=T0 + 30 * SECOND) == 30 * SECOND
    why = decided(Retry(), REFUSED, until=T0 + 29 * SECOND)
    assert why == "retry deadline: no retry starts after 2026-11-21 12:00:29Z"
    assert decided(Retry(), LATER, until=T0 + timedelta(minutes=6)) != timedelta(minutes=7)


# --------------------------------------------------------------------------- the leader, when the retry of a run is due

FAILURE = Attempt(1, 100, "n1#a", T0, T0 + SECOND, Outcome.ERROR, "no")
DECLINED = Attempt(2, 101, "n2#a", None, T0 + 40 * SECOND, Outcome.DECLINED, "no shell")
DRAINED = replace(DECLINED, outcome=Outcome.DRAINED)
LOST = replace(FAILURE, outcome=Outcome.LOST)


def waiting(*attempts: Attempt, **fields: Any) -> Run:
    return a_run(state=RunState.RETRYING, attempts=attempts, error="no", **fields)


def with_deadline(deadline: str) -> Job:
    return a_job(retry=Retry(deadline=deadline))


@pytest.mark.parametrize("attempts", [(FAILURE,), (FAILURE, DECLINED), (FAILURE, DRAINED)])
def test_a_waiting_run_is_a_dead_letter_once_its_retry_may_not_begin(attempts: tuple[Attempt, ...]) -> None:
    run = waiting(*attempts)
    end = End(Transition.FAIL, RunState.FAILED, Outcome.ERROR, "no", reason=STOPPED)
    assert retry_ended(run, a_job(), STOPPED, T0) == end
    late = retry_ended(run, with_deadline("1m"), None, T0 + timedelta(seconds=61))
    assert late == replace(end, reason="retry deadline: no retry starts after 2026-11-21 12:01:00Z")
    assert retry_ended(run, with_deadline("1m"), None, T0 + timedelta(seconds=60)) is None
    assert retry_ended(run, a_job(), None, T0 + timedelta(days=9)) is None


@pytest.mark.parametrize(
    "run", [waiting(), waiting(DECLINED), waiting(LOST), a_run(attempts=(FAILURE,)), waiting(FAILURE, LOST)]
)
def test_a_run_that_waits_for_another_reason_is_dispatched_whatever_the_breaker_and_the_deadline(run: Run) -> None:
    assert retry_ended(run, with_deadline("1s"), STOPPED, T0 + timedelta(hours=1)) is None


def test_the_deadline_of_a_replay_counts_from_its_request() -> None:
    run = waiting(FAILURE, kind=Kind.REPLAY, created_at=T0 + timedelta(days=3))
    assert retry_ended(run, with_deadline("1h"), None, T0 + timedelta(days=3, minutes=59)) is None
    assert retry_ended(run, with_deadline("1h"), None, T0 + timedelta(days=3, minutes=61)) is not None
