"""Lines wait for MongoDB, but no attempt waits for its lines; those beyond the limit are dropped and counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from cronflow.bootstrap.roles import build_node
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.node.role_loop import Outages
from cronflow.node.timings import Timings
from cronflow.ports import Assignment, LineSink, LogLine
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends, memory_backends
from cronflow.usecases import UseCases
from cronflow.worker.log_writer import LogWriter
from tests.contracts.builders import T0, a_job
from tests.node.cluster import Steady


def a_line(n: int, run: str = "r@1") -> LogLine:
    return LogLine(run=run, job="r", fence=7, attempt=1, n=n, at=T0, level="info", text=f"line {n}")


class Bench:
    """Lines over a memory store, with room for ten."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backends: MemoryBackends = memory_backends(self.clock)
        self.lines = LogWriter(
            self.backends.logs, self.backends.live_tail, self.clock, Outages(self.clock.monotonic), most_waiting=10
        )

    async def texts(self, run: str = "r@1") -> list[str]:
        return [line.text for line in await self.backends.logs.read(run)]


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    task = asyncio.create_task(bench.lines.run())
    yield bench
    task.cancel()
    await asyncio.wait({task})


async def test_an_attempt_waits_until_its_lines_are_stored(bench: Bench) -> None:
    stall = bench.backends.faults.stall("logs.append")
    last = bench.lines.put(a_line(0))
    assert last is not None
    waiting = asyncio.ensure_future(bench.lines.stored(last))
    await bench.clock.advance(5)
    assert not waiting.done()
    stall.release()
    await bench.clock.settle()
    assert waiting.done()
    assert await bench.texts() == ["line 0"]


async def test_no_attempt_waits_for_a_line_while_mongodb_is_away_and_it_is_stored_later(bench: Bench) -> None:
    bench.backends.faults.fail_before("MongoDB", 1000)
    last = bench.lines.put(a_line(0))
    assert last is not None
    waiting = asyncio.ensure_future(bench.lines.stored(last))
    await bench.clock.advance(0.2)
    assert waiting.done()
    assert not last.done()
    bench.backends.faults.heal()
    await bench.clock.advance(1)
    assert await bench.texts() == ["line 0"]


async def test_lines_beyond_the_limit_are_dropped_and_one_line_reports_how_many(bench: Bench) -> None:
    bench.backends.faults.fail_before("MongoDB", 1000)
    for n in range(3):
        bench.lines.put(a_line(n))
    await bench.clock.advance(0.2)  # These three are on their way, and wait no more in the queue.
    for n in range(3, 20):
        bench.lines.put(a_line(n))
        bench.lines.put(a_line(n, "other@1"))
    bench.backends.faults.heal()
    await bench.clock.advance(1)
    bench.lines.put(a_line(20))
    await bench.clock.advance(1)
    kept = [f"line {n}" for n in range(3)] + [f"line {n}" for n in range(3, 8)]
    assert await bench.texts() == [*kept, "12 lines were dropped: MongoDB was away", "line 20"]
    assert (await bench.texts("other@1"))[-1] == "12 lines were dropped: MongoDB was away"


async def test_an_attempt_keeps_a_limited_number_of_lines_and_the_last_reports_how_many_were_dropped() -> None:
    class Chatty:
        async def run(self, assignment: Assignment, node: str, log: LineSink) -> AttemptResult:
            for n in range(25):
                log("info", f"line {n}")
            return AttemptResult(Outcome.OK)

    clock = FakeClock()
    backends = memory_backends(clock)
    node = build_node(backends, Chatty(), clock, Timings(), name="n1", resources=Steady(), lines_per_run=10)
    task = asyncio.create_task(node.run())
    await clock.advance(2)
    service = UseCases(backends, clock)
    await service.jobs.apply([a_job("chatty", schedule=None)])
    run = await service.jobs.trigger("chatty")
    await clock.advance(3)
    lines = await backends.logs.read(run)
    assert [line.n for line in lines] == list(range(11))
    assert lines[-1].text == "15 lines were dropped: LOG_LINES_PER_RUN is 10"
    assert {line.node for line in lines} == {"n1"}
    task.cancel()
    await asyncio.wait({task})
