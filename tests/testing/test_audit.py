"""The audit finds what is missing and what is there twice; and the tokens of a term."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from cronflow.domain.cluster import Fences, Term
from cronflow.domain.errors import Deposed
from cronflow.domain.run import Covers, Kind, RunState
from cronflow.domain.schedule.kinds import Every
from cronflow.testing.audit import Expectation, audit, percentile
from tests.contracts.builders import T0, a_run

MINUTE = timedelta(minutes=1)
EXPECTED = {"report": Expectation(Every("60s"), T0)}
UNTIL = T0 + 3 * MINUTE


def test_one_run_for_each_instant_is_what_should_be() -> None:
    runs = [a_run(fire=T0 + k * MINUTE, state=RunState.SUCCEEDED) for k in range(3)]
    found = audit(EXPECTED, runs, UNTIL)
    assert (found.holds, found.fires_due, found.states) == (True, 3, {"succeeded": 3})


def test_an_instant_without_a_run_is_lost() -> None:
    found = audit(EXPECTED, [a_run(fire=T0), a_run(fire=T0 + 2 * MINUTE)], UNTIL)
    assert not found.holds
    assert found.lost == [("report", T0 + MINUTE)]
    assert len(found.open_runs) == 2


def test_an_instant_in_two_ranges_is_doubled() -> None:
    wide = a_run(fire=T0, covers=Covers(T0, T0 + MINUTE, 2))
    found = audit(EXPECTED, [wide, a_run(fire=T0 + MINUTE), a_run(fire=T0 + 2 * MINUTE)], UNTIL)
    assert found.doubled == [("report", T0 + MINUTE)]
    assert found.lost == []


def test_runs_by_hand_neither_cover_nor_count_as_late() -> None:
    by_hand = a_run(fire=T0, kind=Kind.MANUAL, started_at=T0 + MINUTE)
    found = audit(EXPECTED, [by_hand], T0 + MINUTE)
    assert found.lost == [("report", T0)]
    assert found.lateness == []


def test_percentiles_are_of_the_nearest_rank() -> None:
    values = [timedelta(seconds=k) for k in range(1, 101)]
    seconds = [(percentile(values, f) or timedelta(0)).total_seconds() for f in (0.5, 0.99, 1.0)]
    assert seconds == [50, 99, 100]
    assert percentile(values[:1], 0.99) == timedelta(seconds=1)
    assert percentile([], 0.5) is None


def test_tokens_increase_strictly_whatever_the_clock_does() -> None:
    fences = Fences(Term(1, 1_000_000, 9_000_000))
    clock = [5.0, 5.0, 3.0, 6.0, 0.0, 100.0]
    given = [fences.next(datetime.fromtimestamp(at, UTC)) for at in clock]
    assert given == [5_000_000, 5_000_001, 5_000_002, 6_000_000, 6_000_001, 9_000_000]


def test_no_token_is_given_beyond_the_reserved_range() -> None:
    fences = Fences(Term(1, 10, 12))
    assert [fences.next(datetime.fromtimestamp(0, UTC)) for _ in range(2)] == [11, 12]
    with pytest.raises(Deposed, match="used up"):
        fences.next(datetime.fromtimestamp(0, UTC))
    fences.extend(20)
    assert fences.next(datetime.fromtimestamp(0, UTC)) == 13
    fences.extend(5)
    assert fences.next(datetime.fromtimestamp(0, UTC)) == 14
