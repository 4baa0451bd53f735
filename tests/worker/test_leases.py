"""Leases are renewed while a run may be running, and not a moment longer."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

from cronflow.domain import transitions
from cronflow.domain.job import Delivery, Retry
from cronflow.domain.run import AttemptResult, Outcome, RunState
from cronflow.domain.transitions import ClaimedRun
from cronflow.node.keep_alive import KeepAliveThread, LoopMonitor
from cronflow.node.role_loop import NodeRole, Outages, Wake
from cronflow.node.timings import Timings
from cronflow.ports import JobLock
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends, memory_backends
from cronflow.worker.leases import Lease, Leases
from tests.contracts.builders import a_run

HELD = ClaimedRun(run="r", fence=100, node="n1#a", attempt=1, retry=Retry(), delivery=Delivery.AT_LEAST_ONCE)


class Bench:
    """Leases over one run that is running."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backends: MemoryBackends = memory_backends(self.clock)
        self.run = a_run(fire=self.clock.now())
        self.claimed = replace(HELD, run=self.run.id)
        self.lost: list[Lease] = []
        self.lease = Lease(self.claimed, JobLock("report", "", self.run.id, 100), marked=True, until=60.0)
        self.leases = Leases(
            self.backends.runs,
            self.backends.queue,
            self.clock,
            Timings(),
            node="n1#a",
            current=lambda: [self.lease],
            lost=self.lost.append,
        )

    async def start(self) -> None:
        await self.backends.runs.insert([self.run])
        await self.backends.runs.apply([transitions.start(self.claimed, "s1", self.clock.now(), timedelta(seconds=45))])

    async def overdue(self) -> bool:
        return bool(await self.backends.runs.overdue(10))


async def test_apscheduler_1116_a_renewed_run_is_never_overdue_and_beyond_its_timeout_it_is_left_to_the_leader() -> (
    None
):
    """apscheduler #1116, the other side: a lease must not be kept alive for what cannot be running any more."""
    bench = Bench()
    await bench.start()
    for _ in range(4):
        await bench.leases.renew()
        await bench.clock.advance(15)
        assert not await bench.overdue()
    # 60 s have passed: whatever the handler does now, its timeout and what a stop takes are over.
    await bench.leases.renew()
    await bench.clock.advance(45)
    assert await bench.overdue()
    assert bench.lost == []


async def test_a_lost_lease_is_reported_once() -> None:
    bench = Bench()
    await bench.start()
    other = transitions.finish(bench.claimed, AttemptResult(Outcome.OK), "f1", None, bench.clock.now())
    await bench.backends.runs.apply([other])
    await bench.leases.renew()
    assert bench.lost == [bench.lease]
    (run,) = await bench.backends.runs.get([bench.run.id])
    assert run.state is RunState.SUCCEEDED


async def test_a_run_whose_start_is_not_recorded_yet_has_its_lock_renewed_and_no_lease() -> None:
    bench = Bench()
    await bench.start()
    bench.lease = replace(bench.lease, marked=False)
    await bench.leases.renew()
    await bench.leases.renew_locks()
    assert bench.lost == []
    assert (await bench.backends.membership.holdings(["n1#a"]))["n1#a"][1] == {bench.run.id: 100}
    assert bench.backends.faults.calls["runs.apply"] == 1


async def test_the_loop_monitor_measures_how_long_the_loop_is_blocked() -> None:
    clock = FakeClock()
    loop_monitor = LoopMonitor(clock)
    assert loop_monitor.lag_s == 0.0
    await loop_monitor.role.step()
    await clock.advance(0.5)
    assert loop_monitor.lag_s == 0.0
    await clock.advance(7)
    assert loop_monitor.lag_s == loop_monitor.stalled_s == 7.0


async def test_the_loop_monitor_measures_how_late_the_loop_was_after_it_runs_again() -> None:
    clock = FakeClock()
    loop_monitor = LoopMonitor(clock)
    await loop_monitor.role.step()
    await clock.advance(0.5 + 0.0123)
    await loop_monitor.role.step()
    assert (round(loop_monitor.lag_s, 4), loop_monitor.stalled_s) == (0.0123, 0.0)
    await clock.advance(0.5)
    await loop_monitor.role.step()
    assert loop_monitor.lag_s == 0.0


async def test_the_loop_monitor_counts_the_tasks_of_its_loop_for_any_thread() -> None:
    loop_monitor, ended = LoopMonitor(FakeClock()), asyncio.Event()
    assert loop_monitor.tasks == 0
    await loop_monitor.role.step()
    before = loop_monitor.tasks
    more = [asyncio.create_task(ended.wait()) for _ in range(3)]
    with ThreadPoolExecutor(1) as other:
        counted = other.submit(lambda: loop_monitor.tasks).result()
    assert (before, counted) == (1, 4)
    ended.set()
    await asyncio.gather(*more)


async def test_river_1161_the_failure_of_a_vital_role_ends_the_node_loudly() -> None:
    """river #1161: a part of the leader failed at its start, and the rest went on without it."""

    async def breaks() -> float:
        raise RuntimeError("a bug")

    for threaded in (False, True):
        failure: BaseException | None = None
        try:
            role = NodeRole("vital", breaks, Wake())
            async with KeepAliveThread([role], FakeClock(), Outages(), threaded=threaded) as keep_alive:
                keep_alive.begin()
                await keep_alive.ended()
        except RuntimeError as error:
            failure = error
        assert str(failure) == "a bug", threaded


async def test_a_call_runs_in_the_keep_alive_thread() -> None:
    import threading

    async def where() -> str:
        return threading.current_thread().name

    async with KeepAliveThread([], FakeClock(), Outages(), threaded=True) as keep_alive:
        assert await keep_alive.call(where) == "keep-alive"
    async with KeepAliveThread([], FakeClock(), Outages(), threaded=False) as keep_alive:
        assert await keep_alive.call(where) != "keep-alive"
