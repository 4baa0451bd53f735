"""Which jobs the reconciler leaves out of the queue, and for how long."""

from __future__ import annotations

from cronflow.leader.blocked_jobs import LEFT_OUT_AT_LEAST_S, LEFT_OUT_S, BlockedJobs
from cronflow.testing.clock import FakeClock


async def test_a_blocked_job_is_left_out_for_a_second() -> None:
    clock = FakeClock()
    blocked = BlockedJobs(clock)
    assert blocked.add({"a"})
    await clock.advance(LEFT_OUT_S / 2)
    # A second one does not make the first one wait longer.
    assert blocked.add({"a", "b"})
    assert not blocked.add({"b"})
    assert blocked.current() == {"a", "b"}
    await clock.advance(LEFT_OUT_S / 2)
    assert blocked.current() == frozenset()
    assert not blocked


async def test_the_end_of_a_run_brings_blocked_jobs_back_but_not_at_every_end() -> None:
    clock = FakeClock()
    blocked = BlockedJobs(clock)
    blocked.add({"a"})
    assert blocked.left_s() == LEFT_OUT_S
    blocked.run_ended()
    assert blocked.current() == {"a"}
    assert blocked.left_s() == LEFT_OUT_AT_LEAST_S
    await clock.advance(LEFT_OUT_AT_LEAST_S)
    assert blocked.current() == frozenset()
    assert blocked.left_s() == 0


async def test_a_run_that_ended_before_the_job_was_blocked_does_not_count() -> None:
    clock = FakeClock()
    blocked = BlockedJobs(clock)
    blocked.run_ended()
    blocked.add({"a"})
    await clock.advance(LEFT_OUT_AT_LEAST_S)
    assert blocked.current() == {"a"}
