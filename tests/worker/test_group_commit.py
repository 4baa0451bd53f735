"""Many small writes become few, none is dropped, and an outage is reported once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from structlog.testing import capture_logs

from cronflow.domain.errors import BackendUnavailable
from cronflow.node.role_loop import NodeRole, Outages, Wake, repeat
from cronflow.testing.clock import FakeClock
from cronflow.worker.group_commit import MOST_AT_ONCE, GroupCommit

GONE = BackendUnavailable("MongoDB", "somewhere:1", "it is gone")


class Sink:
    """Records the batches; fails as often as configured."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.failures = 0
        self.slow: asyncio.Event | None = None

    async def flush(self, items: Sequence[int]) -> list[int]:
        if self.failures:
            self.failures -= 1
            raise GONE
        if self.slow is not None:
            await self.slow.wait()
        self.batches.append(list(items))
        return [item * 10 for item in items]


@pytest.fixture
async def parts() -> AsyncIterator[tuple[FakeClock, Sink, GroupCommit[int, int]]]:
    clock, sink = FakeClock(), Sink()
    commit = GroupCommit("numbers", sink.flush, clock, Outages(), linger_s=0.005)
    task = asyncio.create_task(commit.run())
    yield clock, sink, commit
    task.cancel()
    await asyncio.wait({task})


Parts = tuple[FakeClock, Sink, GroupCommit[int, int]]


async def test_items_of_a_few_milliseconds_go_together_and_each_gets_its_own_result(parts: Parts) -> None:
    clock, sink, commit = parts
    results = [commit.put(k) for k in range(5)]
    await clock.advance(0.004)
    assert sink.batches == []
    await clock.advance(0.002)
    assert sink.batches == [[0, 1, 2, 3, 4]]
    assert [await result for result in results] == [0, 10, 20, 30, 40]


async def test_a_full_batch_does_not_linger(parts: Parts) -> None:
    clock, sink, commit = parts
    for k in range(MOST_AT_ONCE + 1):
        commit.put(k)
    await clock.settle()
    assert [len(batch) for batch in sink.batches] == [MOST_AT_ONCE]
    await clock.advance(0.006)
    assert [len(batch) for batch in sink.batches] == [MOST_AT_ONCE, 1]


async def test_a_waiting_caller_can_hurry_it(parts: Parts) -> None:
    clock, sink, commit = parts
    commit.put(1)
    await clock.settle()
    commit.hurry()
    await clock.settle()
    assert sink.batches == [[1]]


async def test_batches_grow_while_the_store_is_slow(parts: Parts) -> None:
    clock, sink, commit = parts
    sink.slow = asyncio.Event()
    commit.put(0)
    await clock.advance(0.01)
    for k in range(1, 50):
        commit.put(k)
        await clock.advance(0.001)
    sink.slow.set()
    await clock.advance(0.01)
    assert [len(batch) for batch in sink.batches] == [1, 49]


async def test_nothing_is_dropped_while_the_store_is_away_and_the_order_stays(parts: Parts) -> None:
    clock, sink, commit = parts
    sink.failures = 3
    with capture_logs() as logs:
        first = commit.put(1)
        await clock.advance(1.2)
        commit.put(2)
        await clock.advance(1.0)
        assert await first == 10
    assert sink.batches == [[1], [2]]
    assert [entry["event"] for entry in logs] == ["service away", "service back"]


async def test_an_item_whose_caller_gave_up_is_written_all_the_same(parts: Parts) -> None:
    clock, sink, commit = parts
    waiting = commit.put(7)
    await clock.settle()
    waiting.cancel()
    await clock.advance(0.01)
    assert sink.batches == [[7]]


async def test_an_outage_is_reported_once_however_many_roles_notice_it() -> None:
    outages = Outages()
    with capture_logs() as logs:
        for role in ("planner", "plan recovery", "planner"):
            outages.failed(role, GONE)
        outages.worked("planner")
        outages.worked("heartbeat")
        assert outages.away == {"MongoDB"}
        outages.worked("plan recovery")
    assert [entry["event"] for entry in logs] == ["service away", "service back"]
    assert logs[0]["address"] == "somewhere:1"


async def test_a_role_survives_an_outage_and_nothing_else() -> None:
    clock, steps = FakeClock(), 0

    async def step() -> float:
        nonlocal steps
        steps += 1
        if steps == 1:
            raise GONE
        if steps == 3:
            raise RuntimeError("a bug")
        return 1.0

    role = asyncio.create_task(repeat(NodeRole("role", step, Wake()), clock, Outages()))
    await clock.advance(0.6)
    assert steps == 2
    await clock.advance(1.1)
    with pytest.raises(RuntimeError, match="a bug"):
        await role


async def test_signals_do_not_turn_an_outage_into_a_busy_loop() -> None:
    clock, wake, steps = FakeClock(), Wake(), 0

    async def step() -> float:
        nonlocal steps
        steps += 1
        raise GONE

    role = asyncio.create_task(repeat(NodeRole("role", step, wake), clock, Outages()))
    for _ in range(40):
        wake.set()
        await clock.advance(0.05)
    role.cancel()
    await asyncio.wait({role})
    assert steps <= 5
