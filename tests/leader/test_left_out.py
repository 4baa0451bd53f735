"""What the reconciler leaves out of the queue, and for how long."""

from __future__ import annotations

from datetime import timedelta
from math import inf

from cronflow.leader.left_out import LEFT_OUT_AT_LEAST_S, LEFT_OUT_S, LeftOut
from cronflow.testing.clock import FakeClock


async def test_what_waits_for_a_run_is_left_out_for_a_second() -> None:
    clock = FakeClock()
    left_out = LeftOut(clock)
    assert left_out.left_s() == inf
    assert left_out.add({"a": None})
    await clock.advance(LEFT_OUT_S / 2)
    assert left_out.add({"a": None, "b": None})
    assert not left_out.add({"b": None})
    assert left_out.current() == {"a", "b"}
    await clock.advance(LEFT_OUT_S / 2)
    # Each has its own time.
    assert left_out.current() == {"b"}
    await clock.advance(LEFT_OUT_S / 2)
    assert left_out.current() == frozenset()
    assert not left_out


async def test_the_end_of_a_run_brings_it_back_but_not_at_every_end() -> None:
    clock = FakeClock()
    left_out = LeftOut(clock)
    left_out.add({"a": None})
    assert left_out.left_s() == LEFT_OUT_S
    left_out.run_ended()
    assert left_out.current() == {"a"}
    assert left_out.left_s() == LEFT_OUT_AT_LEAST_S
    await clock.advance(LEFT_OUT_AT_LEAST_S)
    assert left_out.current() == frozenset()


async def test_what_waits_for_a_rate_is_left_out_until_its_time_whatever_ends() -> None:
    clock = FakeClock()
    left_out = LeftOut(clock)
    left_out.add({"rate": timedelta(seconds=4), "full": None})
    left_out.run_ended()
    await clock.advance(LEFT_OUT_S)
    assert left_out.current() == {"rate"}
    await clock.advance(3)
    assert left_out.current() == frozenset()


async def test_a_run_that_ended_before_does_not_count() -> None:
    clock = FakeClock()
    left_out = LeftOut(clock)
    left_out.run_ended()
    left_out.add({"a": None})
    await clock.advance(LEFT_OUT_AT_LEAST_S)
    assert left_out.current() == {"a"}
