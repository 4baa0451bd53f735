"""Events: emitting never blocks, loses nothing while MongoDB is away, and is bounded."""

from __future__ import annotations

import asyncio
import threading

from cronflow.domain.events import EventsDropped, NodeJoined, NodeLeft
from cronflow.node.event_log import EventLog
from cronflow.node.role_loop import Outages, repeat
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends, memory_backends


class Bench:
    """An event log in memory, with a limit of ten."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backends: MemoryBackends = memory_backends(self.clock)
        self.event_log = EventLog(self.backends.events, self.backends.feed, self.clock, "n1", most_waiting=10)

    async def __aenter__(self) -> Bench:
        self.task = asyncio.create_task(repeat(self.event_log.role, self.clock, Outages(self.clock.monotonic)))
        await self.clock.settle()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})

    async def kept(self) -> list[object]:
        return [happened.event for happened in reversed(await self.backends.events.find(limit=1000))]


async def test_what_happens_together_is_written_together() -> None:
    async with Bench() as bench:
        for n in range(5):
            bench.event_log.emit(NodeLeft(f"n{n}"))
        assert await bench.kept() == []
        await bench.clock.advance(0.5)
        assert set(await bench.kept()) == {NodeLeft(f"n{n}") for n in range(5)}
        assert bench.backends.faults.calls["events.append"] == 1
        assert bench.backends.faults.calls["feed.event"] == 1


async def test_events_wait_for_mongodb_and_dropped_ones_are_counted_in_an_event() -> None:
    async with Bench() as bench:
        bench.backends.faults.fail_before("events.append", 1000)
        bench.event_log.emit(NodeLeft("first"))
        await bench.clock.advance(1)
        for n in range(13):
            bench.event_log.emit(NodeLeft(f"n{n}"))
        await bench.clock.advance(5)
        bench.backends.faults.heal()
        await bench.clock.advance(5)
        kept = await bench.kept()
        assert NodeLeft("first") in kept
        assert EventsDropped(3) in kept
        assert len(kept) == 1 + 10 + 1
        # Those who look on heard of each batch once, however often it was tried.
        assert bench.backends.faults.calls["feed.event"] == 2


async def test_an_answer_that_was_lost_makes_no_second_event() -> None:
    async with Bench() as bench:
        bench.backends.faults.fail_after("events.append")
        bench.event_log.emit(NodeLeft("n1"))
        await bench.clock.advance(5)
        assert await bench.kept() == [NodeLeft("n1")]


async def test_without_redis_events_are_kept_all_the_same() -> None:
    async with Bench() as bench:
        bench.backends.faults.fail_before("Redis", 1000)
        bench.event_log.emit(NodeLeft("n1"))
        await bench.clock.advance(1)
        assert await bench.kept() == [NodeLeft("n1")]


async def test_any_thread_may_emit() -> None:
    async with Bench() as bench:
        thread = threading.Thread(target=bench.event_log.emit, args=(NodeJoined("n1", "1", 4),))
        thread.start()
        thread.join()
        await bench.clock.advance(1)
        assert await bench.kept() == [NodeJoined("n1", "1", 4)]


async def test_the_last_events_are_written_and_an_outage_of_mongodb_blocks_nothing() -> None:
    bench = Bench()
    bench.event_log.emit(NodeLeft("n1"))
    await bench.event_log.flush()
    assert await bench.kept() == [NodeLeft("n1")]
    bench.backends.faults.fail_before("MongoDB", 1000)
    bench.event_log.emit(NodeLeft("n1"))
    await bench.event_log.flush()
