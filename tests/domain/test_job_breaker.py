"""The circuit breaker of a job: what opens it, what closes it, and which attempts count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from cronflow.domain.errors import InvalidInput
from cronflow.domain.job import Breaker
from cronflow.domain.job_breaker import BreakerState, closed, observe
from cronflow.domain.run import Attempt, Outcome
from tests.contracts.builders import T0

MINUTE = timedelta(minutes=1)
OF_FOUR = Breaker(threshold=0.5, window=4, cooldown=10 * MINUTE)
CLOSED = BreakerState(job="report")
OPEN = replace(CLOSED, opened_at=T0, probe_at=T0 + 10 * MINUTE, failed=3, attempts=4)
LETTERS = {
    "+": Outcome.OK,
    "-": Outcome.ERROR,
    "t": Outcome.TIMEOUT,
    "p": Outcome.PERMANENT,
    "l": Outcome.LOST,
    "s": Outcome.SKIPPED,
    "c": Outcome.CANCELLED,
    "d": Outcome.DEFERRED,
    "i": Outcome.INTERRUPTED,
}


def attempts(outcomes: str) -> Sequence[Attempt]:
    """Attempts of a minute each, the last of which ends at T0."""
    return [
        Attempt(1, n, "n1#a", T0 - (len(outcomes) - n) * MINUTE, T0 - (len(outcomes) - n - 1) * MINUTE, LETTERS[letter])
        for n, letter in enumerate(outcomes)
    ]


def after(outcomes: str, state: BreakerState = CLOSED, breaker: Breaker = OF_FOUR) -> BreakerState:
    *earlier, latest = attempts(outcomes)
    return observe(breaker, state, earlier[::-1], latest, T0)


@pytest.mark.parametrize(
    ("outcomes", "opens"),
    [
        ("----", True),
        ("+---", True),
        ("-+--", True),
        # Half of them is not above one half.
        ("++--", False),
        ("---", False),
        ("-", False),
        # Only the last ones count, and of these only what says something about the job.
        ("+++++---", True),
        ("----+++-", False),
        ("+-ss--", True),
        ("+-cc--", True),
        ("+-dd--", True),
        ("+-ii--", True),
        ("+-s-", False),
        ("+tpl-", True),
        ("+tp-", True),
        ("++lp", False),
        # It opens by a failure that a worker reports.
        ("---+", False),
        ("---s", False),
        ("---l", False),
    ],
)
def test_it_opens_when_more_than_the_threshold_of_a_full_window_failed(outcomes: str, opens: bool) -> None:
    state = after(outcomes)
    assert state.is_open is opens
    if not opens:
        assert state == CLOSED


def test_an_opened_breaker_says_since_when_how_many_and_when_it_may_close() -> None:
    state = after("+---")
    assert state == BreakerState(job="report", opened_at=T0, probe_at=T0 + 10 * MINUTE, failed=3, attempts=4)
    assert state.reason == "circuit breaker open: 3 of 4 attempts had failed by 2026-11-21 12:00:00Z"


@pytest.mark.parametrize(("threshold", "opens"), [(0.0, True), (0.24, True), (0.25, False), (0.9, False)])
def test_the_threshold_is_a_part_of_the_window(threshold: float, opens: bool) -> None:
    assert after("+++-", breaker=replace(OF_FOUR, threshold=threshold)).is_open is opens


def test_attempts_from_before_it_was_closed_do_not_count() -> None:
    assert not after("----", replace(CLOSED, counts_from=T0 - 2 * MINUTE)).is_open
    assert after("----", replace(CLOSED, counts_from=T0 - 3 * MINUTE)).is_open


def started(at: timedelta, outcome: Outcome) -> Attempt:
    return Attempt(1, 1, "n1#a", T0 + at, T0 + at + MINUTE, outcome)


def test_a_run_that_starts_after_the_cooldown_and_succeeds_closes_it() -> None:
    now = T0 + 11 * MINUTE
    assert observe(OF_FOUR, OPEN, (), started(10 * MINUTE, Outcome.OK), now) == closed(OPEN, now)
    assert closed(OPEN, now) == BreakerState(job="report", counts_from=now)


def test_a_run_that_started_before_the_end_of_the_cooldown_changes_nothing() -> None:
    for outcome in (Outcome.OK, Outcome.ERROR):
        latest = started(10 * MINUTE - timedelta(seconds=1), outcome)
        assert observe(OF_FOUR, OPEN, (), latest, T0 + 11 * MINUTE) == OPEN


def test_a_probe_that_fails_begins_another_cooldown() -> None:
    now = T0 + 11 * MINUTE
    state = observe(OF_FOUR, OPEN, (), started(10 * MINUTE, Outcome.ERROR), now)
    assert state == replace(OPEN, probe_at=now + 10 * MINUTE)
    assert observe(OF_FOUR, OPEN, (), started(10 * MINUTE, Outcome.SKIPPED), now) == OPEN


@pytest.mark.parametrize(
    "values", [{"threshold": 1.0}, {"threshold": -0.1}, {"window": 0}, {"window": 101}, {"threshold": float("nan")}]
)
def test_limits_that_make_no_sense_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match="must be"):
        Breaker(**values)  # type: ignore[arg-type]
