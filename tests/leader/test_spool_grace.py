"""How long a run is left to a node whose spool may have its outcome, and that this time is finite."""

from __future__ import annotations

from datetime import timedelta

from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.transitions import Transition
from cronflow.leader.reconciler import SpoolGrace
from cronflow.node.role_loop import Outages
from cronflow.node.timings import Timings
from cronflow.testing.clock import FakeClock
from tests.contracts.builders import a_run

AWAY = BackendUnavailable("MongoDB", "somewhere", "gone")
UP = {"n1"}


class Bench:
    """A leader of an hour's standing."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.outages = Outages(self.clock.monotonic)
        self.spooled = 0
        self.grace = SpoolGrace(self.clock, Timings(), self.outages, lambda: self.spooled)
        self.term = 1

    async def an_hour(self) -> Bench:
        self.grace.answered(self.term)
        await self.clock.advance(3600)
        return self

    async def outage(self, seconds: float) -> None:
        self.outages.failed("planner", AWAY)
        await self.clock.advance(seconds)
        self.outages.worked("planner")

    def left(self, transition: Transition, names: set[str] = UP) -> float | None:
        self.grace.answered(self.term)
        found = self.grace.left(a_run(), transition, names)
        return None if found is None else found / timedelta(seconds=1)


async def test_without_an_outage_or_a_takeover_there_is_none() -> None:
    bench = await Bench().an_hour()
    assert [
        bench.left(transition)
        for transition in (
            Transition.REDISPATCH_UNTAKEN,
            Transition.REDISPATCH_LOST,
            Transition.MARK_LOST,
            Transition.DISPATCH_RETRY,
            Transition.FAIL,
        )
    ] == [None] * 5


async def test_a_takeover_leaves_running_runs_alone_for_thirty_seconds_and_unstarted_ones_not_at_all() -> None:
    bench = await Bench().an_hour()
    bench.term = 2
    assert [
        bench.left(transition)
        for transition in (
            Transition.REDISPATCH_UNTAKEN,
            Transition.REDISPATCH_LOST,
            Transition.MARK_LOST,
            Transition.DISPATCH_RETRY,
            Transition.FAIL,
        )
    ] == [None, 30, 30, None, None]
    await bench.clock.advance(29)
    assert bench.left(Transition.REDISPATCH_LOST) == 1
    await bench.clock.advance(1)
    assert bench.left(Transition.REDISPATCH_LOST) is None


async def test_a_long_outage_leaves_runs_without_a_recorded_start_alone_too_and_a_short_one_none() -> None:
    bench = await Bench().an_hour()
    await bench.outage(9)
    assert bench.left(Transition.REDISPATCH_UNTAKEN) is None
    await bench.outage(10)
    assert [
        bench.left(transition)
        for transition in (Transition.REDISPATCH_UNTAKEN, Transition.REDISPATCH_LOST, Transition.MARK_LOST)
    ] == [30] * 3


async def test_a_node_that_is_gone_is_not_waited_for() -> None:
    bench = await Bench().an_hour()
    await bench.outage(60)
    assert bench.left(Transition.REDISPATCH_LOST, {"n2"}) is None


async def test_a_leader_elected_during_an_outage_assumes_a_long_one() -> None:
    bench = await Bench().an_hour()
    bench.outages.failed("elector", AWAY)
    await bench.clock.advance(1)
    bench.term = 2
    bench.grace.answered(bench.term)
    bench.outages.worked("elector")
    await bench.clock.advance(1)
    assert bench.left(Transition.REDISPATCH_UNTAKEN) == 29


async def test_a_role_that_fails_for_ever_does_not_make_it_endless() -> None:
    bench = await Bench().an_hour()
    bench.outages.failed("log lines", AWAY)
    await bench.clock.advance(60)
    assert bench.left(Transition.REDISPATCH_LOST) == 30
    await bench.clock.advance(30)
    assert bench.left(Transition.REDISPATCH_LOST) is None
    bench.outages.worked("log lines")
    assert bench.left(Transition.REDISPATCH_LOST) is None


async def test_the_own_spool_is_waited_for_until_it_is_empty_and_not_for_ever() -> None:
    bench = await Bench().an_hour()
    bench.spooled = 5
    # It may be empty at any moment, and most runs are not in it: each wait is short.
    assert bench.left(Transition.REDISPATCH_UNTAKEN) == 5
    await bench.clock.advance(60)
    assert bench.left(Transition.REDISPATCH_LOST) == 5
    bench.spooled = 0
    assert bench.left(Transition.REDISPATCH_LOST) is None
    bench.spooled = 5
    assert bench.left(Transition.REDISPATCH_LOST) == 5
    await bench.clock.advance(119)
    assert bench.left(Transition.REDISPATCH_LOST) == 1
    await bench.clock.advance(1)
    assert bench.left(Transition.REDISPATCH_LOST) is None
