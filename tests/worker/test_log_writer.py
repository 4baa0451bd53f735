"""Lines wait for MongoDB, but no attempt waits for its lines; those beyond the limit are dropped and counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from cronflow.bootstrap.roles import build_node
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.node.role_loop import Outages
from cronflow.node.timings import Timings
from cronflow.ports import Assignment, LineSink, LogLine
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends, memory_backends
from cronflow.usecases import UseCases
from cronflow.worker.attempt_log import LINES_PER_RUN
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
    last = bench.lines.store(a_line(0))
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
    last = bench.lines.store(a_line(0))
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
        bench.lines.store(a_line(n))
    await bench.clock.advance(0.2)  # These three are on their way, and wait no more in the queue.
    for n in range(3, 20):
        bench.lines.store(a_line(n))
        bench.lines.store(a_line(n, "other@1"))
    bench.backends.faults.heal()
    await bench.clock.advance(1)
    bench.lines.store(a_line(20))
    await bench.clock.advance(1)
    kept = [f"line {n}" for n in range(3)] + [f"line {n}" for n in range(3, 8)]
    assert await bench.texts() == [*kept, "12 lines were dropped: MongoDB was away", "line 20"]
    assert (await bench.texts("other@1"))[-1] == "12 lines were dropped: MongoDB was away"


@asynccontextmanager
async def attempt_of(lines: Sequence[str], limit: int) -> AsyncIterator[tuple[MemoryBackends, str]]:
    """A node that runs a job which writes these lines: when the run has ended, the stores and its id."""

    class Chatty:
        async def run(self, assignment: Assignment, node: str, log: LineSink) -> AttemptResult:
            for text in lines:
                log("info", text)
            return AttemptResult(Outcome.OK)

    clock = FakeClock()
    backends = memory_backends(clock)
    node = build_node(backends, Chatty(), clock, Timings(), name="n1", resources=Steady(), lines_per_run=limit)
    task = asyncio.create_task(node.run())
    await clock.advance(2)
    service = UseCases(backends, clock)
    await service.jobs.apply([a_job("chatty", schedule=None)])
    run = await service.jobs.trigger("chatty")
    await clock.advance(30)
    assert not (await service.runs.get(run)).is_open
    yield backends, run
    task.cancel()
    await asyncio.wait({task})


@pytest.mark.parametrize("count", [9, 10, 11, 12, 17, 18, 19, 25, 100])
async def test_an_attempt_keeps_its_first_and_last_lines_and_counts_those_in_between(count: int) -> None:
    texts = [f"line {n}" for n in range(count)]
    async with attempt_of(texts, limit=10) as (backends, run):
        lines = await backends.logs.read(run, limit=1000)
    assert {line.node for line in lines} == {"n1"}
    if count <= 10:
        assert [line.text for line in lines] == texts
        return
    marker = f"{count - 10:,} lines were left out here; the first 2 and the last 8 are kept"
    assert [line.text for line in lines] == [*texts[:2], marker, *texts[-8:]]
    assert [line.n for line in lines] == [0, 1, count - 9, *range(count - 8, count)]
    assert [line.level for line in lines].index("warn") == 2


async def test_of_many_lines_two_thousand_and_eight_thousand_are_kept() -> None:
    count = 300_001
    async with attempt_of([f"{n}" for n in range(count)], limit=LINES_PER_RUN) as (backends, run):
        texts = [line.text for line in await backends.logs.read(run, limit=count)]
    marker = "290,001 lines were left out here; the first 2,000 and the last 8,000 are kept"
    assert texts == [*map(str, range(2000)), marker, *map(str, range(count - 8000, count))]


async def test_long_lines_are_cut_and_fewer_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cronflow.worker.attempt_log.LONGEST_LINE", 50)
    monkeypatch.setattr("cronflow.worker.attempt_log.MOST_TEXT", 300)
    texts = [f"{n:02}" + "x" * 100 for n in range(30)]
    async with attempt_of(texts, limit=20) as (backends, run):
        lines = await backends.logs.read(run, limit=1000)
    cut = [f"{text[:50]}… (52 characters were cut)" for text in texts]
    kept = 300 // len(cut[0])
    marker = f"{30 - 2 * kept} lines were left out here; the first {kept} and the last {kept} are kept"
    assert [line.text for line in lines] == [*cut[:kept], marker, *cut[-kept:]]


async def test_lines_that_mongodb_refuses_are_dropped_and_later_ones_are_stored(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_: object) -> None:
        raise ValueError("document too large")

    with monkeypatch.context() as patch:
        patch.setattr(bench.backends.logs, "append", refuse)
        refused = bench.lines.store(a_line(0))
        assert refused is not None
        await bench.clock.advance(1)
        assert refused.done()
    bench.lines.store(a_line(1))
    await bench.clock.advance(1)
    assert await bench.texts() == ["line 1"]
