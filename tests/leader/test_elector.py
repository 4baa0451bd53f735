"""How long a leader's lease is valid, and what ends leadership."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from cronflow.domain.cluster import Renewal, Term
from cronflow.domain.errors import BackendUnavailable, Deposed
from cronflow.leader.elector import Elector
from cronflow.node.role_loop import NodeRole, Outages, repeat
from cronflow.node.timings import Timings
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends, memory_backends


class Bench:
    """One elector, stepped by hand."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backends: MemoryBackends = memory_backends(self.clock)
        self.changes = 0
        self.elector = self.another("n1#a")

    def another(self, node: str) -> Elector:
        def changed() -> None:
            self.changes += 1

        return Elector(node, self.backends.election, self.backends.control, self.clock, Timings(), on_change=changed)

    @property
    def leads(self) -> bool:
        return self.elector.tenure is not None

    @asynccontextmanager
    async def running(self, elector: Elector) -> AsyncIterator[None]:
        task = asyncio.create_task(repeat(NodeRole("elector", elector.step, elector.wake), self.clock, Outages()))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_river_1213_the_lease_counts_from_before_the_request(bench: Bench) -> None:
    """river #1213: a slow answer prolonged the belief beyond the lease that it confirmed."""
    stall = bench.backends.faults.stall("election.install", acted=True)
    campaign = asyncio.create_task(bench.elector.step())
    await stall.reached.wait()
    await bench.clock.advance(20)
    stall.release()
    await campaign
    # The key was taken at 0 and lasts 30 s; the answer came at 20 s. The margin is a tenth of the TTL.
    assert bench.leads
    assert bench.elector.lease_left_s == pytest.approx(7)
    await bench.clock.advance(6.9)
    assert bench.leads
    await bench.clock.advance(0.2)
    assert not bench.leads


async def test_a_renewal_counts_only_when_both_servers_confirm_it(bench: Bench) -> None:
    async with bench.running(bench.elector):
        await bench.clock.advance(1)
        assert bench.leads
        bench.backends.faults.fail_before("control.extend", times=1000)
        bench.backends.faults.fail_before("control.begin_term", times=1000)
        await bench.clock.advance(25.9)
        believed = bench.leads
        await bench.clock.advance(0.2)
        assert believed
        assert not bench.leads


async def test_a_failed_renewal_is_tried_again_every_fifth_of_the_interval(bench: Bench) -> None:
    async with bench.running(bench.elector):
        await bench.clock.advance(1)
        bench.backends.faults.calls.clear()
        bench.backends.faults.fail_before("election.renew", times=3)
        await bench.clock.advance(25)
        assert bench.backends.faults.calls["election.renew"] == 4
        assert bench.leads
        assert bench.changes == 1


async def test_an_expired_lease_releases_the_key_that_its_failed_renewals_extended(bench: Bench) -> None:
    async with bench.running(bench.elector):
        await bench.clock.advance(14)
        bench.backends.faults.fail_before("MongoDB", times=1000)
        await bench.clock.advance(12.9)
        believed = bench.leads
        tried = bench.backends.faults.calls["election.renew"]
        await bench.clock.advance(1)
        assert await bench.backends.election.holder() is None
        assert (believed, tried >= 4, bench.elector.last_term) == (True, True, 1)
        bench.backends.faults.heal()
        await bench.clock.advance(0.6)
        assert bench.leads


async def test_a_key_that_could_not_be_released_is_released_later(bench: Bench) -> None:
    other = bench.another("n2#b")
    async with bench.running(bench.elector):
        await bench.clock.advance(1)
        bench.backends.faults.fail_before("election.resign", times=4)
        bench.elector.deposed("for the test")
        await bench.clock.advance(1.5)
        claimed = await bench.backends.election.holder()
        assert claimed is not None
        assert claimed[0].startswith("n1#a")
        assert not bench.leads
        async with bench.running(other):
            await bench.clock.advance(1)
            assert bench.leads or other.tenure is not None


async def test_a_node_that_is_started_again_gives_back_the_key_of_the_process_that_was_killed(bench: Bench) -> None:
    other = bench.another("n2#b")
    await bench.backends.election.acquire("n1#before#x", 30)
    async with bench.running(other):
        await bench.clock.advance(1)
        assert other.tenure is None
        async with bench.running(bench.elector):
            # No other node campaigns here: it leads itself, but only after others had their time.
            await bench.clock.advance(0.4)
            assert not bench.leads
            assert await bench.backends.election.holder() is None
            other.notify()
            await bench.clock.advance(0.06)
            assert other.tenure is not None


async def test_a_restarted_node_leads_when_no_other_node_campaigns(bench: Bench) -> None:
    await bench.backends.election.acquire("n1#before#x", 30)
    async with bench.running(bench.elector):
        await bench.clock.advance(0.6)
        assert bench.leads


async def test_the_key_of_a_node_whose_name_only_begins_alike_is_its_own(bench: Bench) -> None:
    await bench.backends.election.acquire("n1-b#c#x", 30)
    async with bench.running(bench.elector):
        await bench.clock.advance(29)
        assert not bench.leads
        claimed = await bench.backends.election.holder()
        assert claimed is not None
        assert claimed[0] == "n1-b#c#x"


async def test_a_campaign_without_an_answer_does_not_keep_the_key_from_all(bench: Bench) -> None:
    bench.backends.faults.fail_after("election.acquire")
    async with bench.running(bench.elector):
        await bench.clock.advance(1)
        assert bench.leads


async def test_a_campaign_whose_key_is_set_after_all_does_not_keep_it_from_all(bench: Bench) -> None:
    await bench.backends.election.acquire("n2#b#x", 3)
    async with bench.running(bench.elector):
        await bench.clock.advance(1)
        # What was on its way for long arrives when nobody waits for it any more.
        bench.backends.memory.leader = None
        await bench.backends.election.acquire("n1#a#late", 3600)
        # Its next look is when the key that it saw should be free.
        await bench.clock.advance(3)
        assert bench.leads


async def test_a_key_that_is_set_late_is_given_back_by_a_node_that_leaves_the_lead_to_others_too(bench: Bench) -> None:
    away = 0.0
    elector = Elector(
        "n1#a", bench.backends.election, bench.backends.control, bench.clock, Timings(), mongo_away_s=lambda: away
    )
    async with bench.running(elector):
        await bench.clock.advance(14)
        away = 20.0
        bench.backends.faults.fail_before("MongoDB", times=1000)
        await bench.clock.advance(3)
        assert elector.tenure is None
        bench.backends.faults.heal()
        await bench.clock.advance(1)
        # A renewal that was on its way: it sets a key that is gone.
        await bench.backends.election.acquire("n1#a#late", 3600)
        await bench.clock.advance(8)
        assert elector.tenure is not None


async def test_an_asked_leader_abstains_although_redis_does_not_take_its_key_back_at_once(bench: Bench) -> None:
    await bench.elector.step()
    await bench.backends.election.ask_to_resign(1)
    bench.elector.notify()
    bench.backends.faults.fail_before("election.resign")
    with pytest.raises(BackendUnavailable):
        await bench.elector.step()
    pause = await bench.elector.step()
    assert await bench.backends.election.holder() is None
    assert (bench.elector.last_term, pause) == (1, 3.0)


async def test_a_key_under_which_no_term_could_be_installed_is_released(bench: Bench) -> None:
    bench.backends.memory.term = 7
    assert await bench.elector.step() <= 0.05
    assert bench.elector.tenure is None
    assert await bench.backends.election.holder() is None


async def test_resigning_for_good_releases_the_key(bench: Bench) -> None:
    await bench.elector.step()
    await bench.elector.resign()
    assert await bench.backends.election.holder() is None


async def test_a_leader_that_leaves_leadership_to_others_releases_the_key_before_its_event(bench: Bench) -> None:
    claimed: list[object] = []
    elector = Elector(
        "n1#a",
        bench.backends.election,
        bench.backends.control,
        bench.clock,
        Timings(),
        on_change=lambda: claimed.append(bench.backends.memory.leader),
        mongo_away_s=lambda: 20.0,
    )
    await elector.step()
    bench.backends.faults.fail_before("control.extend")
    await bench.clock.advance(15)
    with pytest.raises(BackendUnavailable):
        await elector.step()
    assert [key is None for key in claimed] == [False, True]


async def test_a_node_that_does_not_want_to_lead_asks_once_for_a_key_in_its_name(bench: Bench) -> None:
    bench.elector.willing = False
    async with bench.running(bench.elector):
        await bench.clock.advance(60)
    assert bench.backends.faults.calls["election.holder"] == 1


async def test_a_thread_that_asks_at_the_moment_of_the_election_does_not_end_the_lead(bench: Bench) -> None:
    seen: list[object] = []

    class Asked(Elector):
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if name in ("_tenure", "_valid_until", "_renew_at") and hasattr(self, "wake"):
                # As the loop that plans does, in another thread.
                seen.append(self.tenure)

    await bench.clock.advance(100)
    elector = Asked("n1#a", bench.backends.election, bench.backends.control, bench.clock, Timings())
    await elector.step()
    assert seen
    assert elector.tenure is not None


async def test_a_follower_asks_for_the_key_and_looks_who_has_it_and_nothing_else(bench: Bench) -> None:
    await bench.backends.election.acquire("n2#b#x", 3600)
    async with bench.running(bench.elector):
        await bench.clock.advance(1)
        bench.backends.faults.calls.clear()
        await bench.clock.advance(60)
        calls = bench.backends.faults.calls
        assert calls["election.acquire"] == calls["election.holder"] > 10
        assert calls["election.resign"] == 0


async def test_without_a_term_from_mongodb_there_is_no_leader_and_the_key_is_given_back(bench: Bench) -> None:
    bench.backends.faults.fail_after("control.begin_term")
    with pytest.raises(BackendUnavailable):
        await bench.elector.step()
    assert not bench.leads
    assert await bench.backends.election.holder() is None
    await bench.elector.step()
    assert bench.elector.tenure
    assert bench.elector.tenure.term == 2  # the term whose answer was lost is burnt


async def test_a_node_that_a_newer_protocol_keeps_from_the_lead_works_on_and_keeps_the_key_from_nobody(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_term, tried = bench.backends.control.begin_term, 0

    async def outdated(holder: str) -> Term:
        nonlocal tried
        tried += holder.startswith("n1#")
        if holder.startswith("n1#"):
            raise Deposed("a newer version of CronFlow has led this cluster; this one may not lead it")
        return await begin_term(holder)

    monkeypatch.setattr(bench.backends.control, "begin_term", outdated)
    with capture_logs() as logs:
        async with bench.running(bench.elector):
            await bench.clock.advance(100)
            assert (bench.leads, tried) == (False, 3)
            assert await bench.backends.election.holder() is None
            newer = bench.another("n2#b")
            async with bench.running(newer):
                await bench.clock.advance(1)
                assert newer.tenure is not None
    assert [line["reason"] for line in logs if line["event"] == "this node may not lead"] == [
        "a newer version of CronFlow has led this cluster; this one may not lead it"
    ]


async def test_a_leader_whose_term_is_over_stands_down_at_its_renewal(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def over(_term: int, _holder: str) -> None:
        return None

    async with bench.running(bench.elector):
        await bench.clock.advance(1)
        monkeypatch.setattr(bench.backends.control, "extend", over)
        with capture_logs() as logs:
            await bench.clock.advance(15)
    reasons = [line["reason"] for line in logs if line["event"] == "leader stepped down"]
    assert reasons == ["a newer term exists"]


async def test_a_follower_takes_over_when_the_key_expires_and_not_before(bench: Bench) -> None:
    await bench.backends.election.acquire("n2#b#x", 30)
    async with bench.running(bench.elector):
        await bench.clock.advance(29.9)
        assert not bench.leads
        await bench.clock.advance(0.4)
        assert bench.leads


async def test_a_follower_with_a_signal_takes_over_within_fifty_milliseconds(bench: Bench) -> None:
    await bench.backends.election.acquire("n2#b#x", 30)
    async with bench.running(bench.elector):
        await bench.clock.advance(5)
        await bench.backends.election.resign("n2#b#x")
        bench.elector.notify()
        await bench.clock.advance(0.05)
        assert bench.leads


async def test_redbeat_230_a_leader_whose_key_another_one_has_stands_down_at_its_renewal(bench: Bench) -> None:
    """redbeat #230: who renewed a lock that was somebody else's by now failed, and then neither led nor followed."""
    async with bench.running(bench.elector):
        await bench.clock.advance(1)
        bench.backends.memory.flush()
        await bench.backends.election.acquire("n2#b#x", 60)
        await bench.clock.advance(14.1)
        assert not bench.leads
        assert bench.changes == 2
        # It follows: when the other one is gone, it leads again.
        await bench.clock.advance(46.5)
        assert bench.leads


async def test_after_stepping_down_on_request_a_node_leaves_the_lead_to_others_for_a_while(bench: Bench) -> None:
    async with bench.running(bench.elector):
        await bench.clock.advance(1)
        await bench.backends.election.ask_to_resign(1)
        bench.elector.notify()
        await bench.clock.advance(0.1)
        assert not bench.leads
        assert await bench.backends.election.holder() is None
        await bench.clock.advance(3.2)
        assert bench.leads  # nobody else wanted it


async def test_a_node_that_has_resigned_for_good_does_not_campaign(bench: Bench) -> None:
    async with bench.running(bench.elector):
        await bench.clock.advance(1)
        await bench.elector.resign()
        await bench.clock.advance(60)
        assert not bench.leads
        assert await bench.backends.election.holder() is None


async def test_a_leader_that_is_no_longer_fit_gives_the_lead_away_and_does_not_take_it(bench: Bench) -> None:
    reason: str | None = None
    elector = Elector(
        "n1#a", bench.backends.election, bench.backends.control, bench.clock, Timings(), unfit=lambda: reason
    )
    async with bench.running(elector):
        await bench.clock.advance(1)
        assert await bench.backends.election.holder() is not None
        reason = "its clock is off"
        await bench.clock.advance(2.1)
        assert await bench.backends.election.holder() is None
        await bench.clock.advance(60)
        assert await bench.backends.election.holder() is None
        reason = None
        await bench.clock.advance(2.1)
        assert await bench.backends.election.holder() is not None


@pytest.mark.parametrize("acted", [False, True])
@pytest.mark.parametrize("verb", ["election.acquire", "control.begin_term", "election.install"])
async def test_redbeat_208_an_error_on_the_way_to_the_lead_is_not_the_lead(
    bench: Bench, verb: str, acted: bool
) -> None:
    """redbeat #208, #238: an error while the lock was taken was swallowed, and the scheduler ran without it."""
    other = bench.another("n2#b")
    fail = bench.backends.faults.fail_after if acted else bench.backends.faults.fail_before
    fail(verb)
    with pytest.raises(BackendUnavailable):
        await bench.elector.step()
    assert not bench.leads
    async with bench.running(bench.elector), bench.running(other):
        await bench.clock.advance(31)
        assert bench.leads is (other.tenure is None)


async def test_river_1213_a_request_of_an_earlier_term_does_not_affect_the_present_one(bench: Bench) -> None:
    """river #1213, #197: a node that led again was the same holder as before, so that a late resignation or renewal of
    its former lead counted for the new one.
    """
    await bench.elector.step()
    former = bench.elector.tenure
    assert former is not None
    bench.backends.memory.leader = None
    bench.elector.deposed("for the test")
    await bench.elector.step()
    present = bench.elector.tenure
    assert present is not None
    assert present.term == former.term + 1
    election, control = bench.backends.election, bench.backends.control
    assert not await election.resign(former.holder)
    assert await election.renew(former.holder, 30, former.term, former.redis_epoch) is Renewal.LOST
    assert await control.extend(former.term, former.holder) is None
    assert await election.renew(present.holder, 30, present.term, present.redis_epoch) is Renewal.OK
