"""What the leader knows of the runs that wait for their instant."""

from __future__ import annotations

from datetime import timedelta

from cronflow.leader.look_ahead import LookAhead
from tests.contracts.builders import T0, a_record

SECOND = timedelta(seconds=1)


def test_runs_count_as_waiting_on_their_node_until_their_instant() -> None:
    ahead = LookAhead(2.0)
    for node, instant_s in (("a", 1), ("b", 1), ("a", 2)):
        ahead.placed(node, T0 + instant_s * SECOND)
    assert ahead.waiting(T0 + 0.9 * SECOND) == {"a": 2, "b": 1}
    assert ahead.waiting(T0 + SECOND) == {"a": 1}
    assert ahead.waiting(T0 + 2 * SECOND) == {}


def test_the_jobs_of_the_window_are_those_that_are_not_due_yet() -> None:
    ahead = LookAhead(2.0)
    due, early, late = (a_record(f"job-{s}", T0 + s * SECOND) for s in (0, 2, 3))
    waiting = a_record("waits", T0, next_fire=T0 - SECOND)
    assert ahead.among([due, early, late, waiting], T0) == [early]
    assert LookAhead().among([due, early, late, waiting], T0) == []


def test_a_job_is_looked_at_again_as_soon_as_it_may_be_planned_or_when_it_is_due() -> None:
    ahead = LookAhead(2.0)
    assert ahead.next_look(T0 + 5 * SECOND, T0) == T0 + 3 * SECOND
    assert ahead.next_look(T0 + SECOND, T0) == T0 + SECOND
    assert LookAhead().next_look(T0 + SECOND, T0) == T0 + SECOND
