"""Permits are acquired one after another in few calls, and released together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cronflow.domain.concurrency import LimitUse
from cronflow.node.role_loop import Outages, end_tasks
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends, memory_backends
from cronflow.worker.permits import Acquisition, Permits, Wanted

X, Y = LimitUse("key:x", 1), LimitUse("key:y", 1)


class Bench:
    """Permits on the memory backend. `spooled` outcomes wait for MongoDB."""

    def __init__(self) -> None:
        clock = FakeClock()
        self.backends: MemoryBackends = memory_backends(clock)
        self.spooled = 0
        self.permits = Permits(
            self.backends.limits, self.backends.bus, clock, Outages(), lambda: self.spooled, linger_s=0.0
        )

    def held(self, use: LimitUse) -> list[str]:
        state = self.backends.documents.limits.get(use.id)
        return [] if state is None else [one.run for one in state.permits]

    async def acquire(self, *wanted: Wanted) -> list[Acquisition]:
        return await asyncio.gather(*map(self.permits.acquire, wanted))


@asynccontextmanager
async def a_bench() -> AsyncIterator[Bench]:
    bench = Bench()
    async with asyncio.TaskGroup() as group:
        tasks = bench.permits.start_roles(group)
        yield bench
        await end_tasks(tasks)


async def test_a_run_that_does_not_get_its_first_permit_takes_no_other() -> None:
    async with a_bench() as bench:
        answers = await bench.acquire(Wanted([X], "a", 1, "n"), Wanted([X, Y], "b", 2, "n"), Wanted([Y], "c", 3, "n"))
        assert [answer.granted for answer in answers] == [True, False, True]
        assert (bench.held(X), bench.held(Y)) == (["a"], ["c"])
        (refused,) = await bench.acquire(Wanted([X, Y], "b", 2, "n"))
        assert refused.obstacle is not None
        assert (refused.obstacle.reason, refused.obstacle.held_by) == ("key x is full", "a")
        await bench.acquire(Wanted([], "d", 4, "n"))


async def test_the_permits_of_a_batch_cost_one_call_per_position() -> None:
    async with a_bench() as bench:
        wide = [LimitUse(f"key:{k}", 100) for k in range(2)]
        answers = await bench.acquire(*(Wanted(wide, f"r{k}", k, "n") for k in range(50)))
        assert all(answer.granted for answer in answers)
        assert bench.backends.faults.calls["limits.acquire"] == 2


async def test_permits_are_acquired_once_mongodb_is_back() -> None:
    async with a_bench() as bench:
        bench.backends.faults.fail_after("limits.acquire", times=2)
        acquiring = asyncio.ensure_future(bench.acquire(Wanted([X], "a", 1, "n")))
        clock = bench.backends.documents.clock
        assert isinstance(clock, FakeClock)
        while not acquiring.done():
            await clock.advance(0.5)
        assert (await acquiring)[0].granted
        assert bench.held(X) == ["a"]


async def test_a_stopping_node_waits_no_longer_and_knows_nothing() -> None:
    async with a_bench() as bench:
        bench.backends.faults.fail_before("limits.acquire", times=10)
        bench.permits.give_up()
        assert await bench.acquire(Wanted([X], "a", 1, "n")) == [Acquisition(granted=False)]


async def test_releases_wait_for_no_one_and_leave_permits_of_spooled_outcomes_to_the_leader() -> None:
    async with a_bench() as bench:
        wanted = [Wanted([LimitUse(f"key:{k}", 1)], "a", 1, "n") for k in range(3)]
        await bench.acquire(*wanted)
        bench.spooled = 1
        await bench.permits.release(wanted[0])
        assert bench.backends.faults.calls["limits.release"] == 0
        bench.spooled = 0
        await asyncio.gather(*map(bench.permits.release, wanted[1:]))
        assert bench.backends.faults.calls["limits.release"] == 1
        assert [len(bench.held(one.uses[0])) for one in wanted] == [1, 0, 0]
