"""The order in which waiting runs leave, and which of them are still here."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from cronflow.worker.local_queue import LocalQueue, QueuedRun
from tests.contracts.builders import T0, a_job, an_assignment

SECOND = timedelta(seconds=1)


def a_queued(
    name: str, instant_s: float = 0.0, *, fence: int = 100, priority: int = 4, start_by: float = 9.0
) -> QueuedRun:
    assignment = an_assignment(f"{name}@1", fence, job=a_job(name, priority=priority))
    return QueuedRun(replace(assignment, not_before=T0 + instant_s * SECOND), start_by)


def names(runs: list[QueuedRun]) -> list[str]:
    return [queued.assignment.job.name for queued in runs]


def test_runs_leave_by_instant_then_by_priority_then_as_they_came_and_none_before_its_instant() -> None:
    waiting = LocalQueue()
    for queued in (a_queued("d", 2, priority=9), a_queued("b", 1), a_queued("c", 1), a_queued("a", 1, priority=5)):
        waiting.add(queued)
    assert waiting.next_instant() == T0 + SECOND
    assert waiting.pop_due(T0 + 0.999 * SECOND) is None
    assert names(waiting.remove_due(T0 + SECOND)) == ["a", "b", "c"]
    assert len(waiting) == 1
    assert names(waiting.remove_due(T0 + 3 * SECOND)) == ["d"]
    assert waiting.next_instant() is None


def test_a_run_that_was_dispatched_when_it_was_due_waits_since_its_instant() -> None:
    assert QueuedRun(an_assignment(), 9.0).instant == T0


def test_of_two_dispatches_of_a_run_the_newer_one_stays() -> None:
    waiting = LocalQueue()
    for fence in (101, 102, 102, 100):
        waiting.add(a_queued("a", fence=fence))
    assert waiting.fences() == {"a@1": 102}
    assert len(waiting.remove_due(T0)) == 1
    assert waiting.pop_due(T0) is None


def test_a_removal_compares_the_fence() -> None:
    waiting = LocalQueue()
    waiting.add(a_queued("a", fence=101))
    waiting.add(a_queued("b", fence=101))
    assert names(waiting.remove({"a@1": 100, "b@1": 101, "c@1": 101})) == ["b"]
    assert waiting.fences() == {"a@1": 101}


def test_what_may_not_start_any_more_is_found() -> None:
    waiting = LocalQueue()
    waiting.add(a_queued("a", start_by=3.0))
    waiting.add(a_queued("b", start_by=4.0))
    assert names(waiting.remove_late(3.5)) == ["a"]
    assert names(waiting.all()) == ["b"]


def test_the_next_instant_after_a_time_passes_over_those_before() -> None:
    waiting = LocalQueue()
    waiting.add(a_queued("a", 1))
    waiting.add(a_queued("b", 2))
    assert waiting.next_instant_after(T0 + SECOND) == T0 + 2 * SECOND
    assert waiting.next_instant_after(T0 + 2 * SECOND) is None
    assert names(waiting.clear()) == ["a", "b"]
    assert (len(waiting), waiting.next_instant()) == (0, None)


def test_the_lock_of_a_waiting_run_is_renewed_and_its_lease_is_not() -> None:
    lease = a_queued("a").lease("n1#a")
    assert (lease.claimed.run, lease.claimed.fence, lease.claimed.start_id) == ("a@1", 100, "")
    assert (lease.job_lock.job, lease.marked) == ("a", False)
    assert lease.until > 9.0
