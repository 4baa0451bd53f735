"""How often jobs were deferred in a row."""

from __future__ import annotations

from cronflow.leader.deferrals import FORGOTTEN_AFTER_S, Deferrals
from cronflow.testing.clock import FakeClock


async def test_deferrals_are_counted_until_the_job_is_planned() -> None:
    deferrals = Deferrals(FakeClock())
    assert [deferrals.add("a"), deferrals.add("b"), deferrals.add("a")] == [0, 0, 1]
    deferrals.remove("a")
    assert [deferrals.add("a"), deferrals.add("b")] == [0, 1]


async def test_a_job_that_no_longer_waits_is_forgotten_and_one_that_waits_is_not() -> None:
    clock = FakeClock()
    deferrals = Deferrals(clock)
    for name in ("deleted", "waits"):
        deferrals.add(name)
    for round_ in range(1, 15):
        await clock.advance(5.0)
        assert deferrals.add("waits") == round_
    assert clock.monotonic() > FORGOTTEN_AFTER_S
    assert len(deferrals) == 1
    assert deferrals.add("deleted") == 0
