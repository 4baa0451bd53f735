"""Lines reach live tails, and cost next to nothing without any: on virtual time."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from cronflow.domain.run import AttemptResult, Outcome
from cronflow.domain.schedule.kinds import Every
from cronflow.live.hub import Hub
from cronflow.live.state import ClusterConfig
from cronflow.ports import Assignment, LineSink
from tests.contracts.builders import a_job
from tests.node.cluster import Cluster, a_cluster, worker_of


class Counting:
    """A job that writes a line each 100 ms until it is stopped."""

    def __init__(self, cluster: Cluster, lines: int) -> None:
        self.cluster, self.lines = cluster, lines

    async def run(self, assignment: Assignment, node: str, log: LineSink) -> AttemptResult:
        """Write them."""
        for n in range(self.lines):
            log("info", f"line {n}")
            await self.cluster.clock.sleep(0.1)
        return AttemptResult(Outcome.OK)


async def a_chatty_run(cluster: Cluster, lines: int) -> str:
    for node in cluster.nodes:
        worker_of(node)._executor = Counting(cluster, lines)
    await cluster.service.jobs.apply([a_job("chatty", schedule=None)])
    return await cluster.service.jobs.trigger("chatty")


async def test_without_a_live_tail_a_node_asks_once_a_second_and_sends_nothing() -> None:
    async with a_cluster("a") as cluster:
        await a_chatty_run(cluster, 100)
        await cluster.elapse(12)
        calls = cluster.backends.faults.calls
        assert 8 <= calls["live_tail.has_viewer"] <= 12
        assert calls["live_tail.publish"] == 0


async def test_a_live_tail_gets_every_line_of_the_run_once_and_in_order() -> None:
    async with a_cluster("a", "b") as cluster:
        hub = Hub(cluster.backends, cluster.clock, ClusterConfig())
        live = asyncio.create_task(hub.run())
        run = await a_chatty_run(cluster, 80)
        await cluster.elapse(3)
        session = hub.open(None)
        await hub.following.subscribe(session, f"run:{run}", 1000)
        found = []
        for _ in range(60):
            await cluster.clock.advance(0.25)
            while (text := session._ready()) is not None:
                for chunk in orjson.loads(text).get("logs", ()):
                    assert chunk["gap"] == 0
                    found += [line["n"] for line in chunk["lines"]]
        assert found == list(range(80))
        assert cluster.backends.faults.calls["live_tail.publish"] > 0
        live.cancel()
        await asyncio.wait({live})


@pytest.mark.parametrize("watched_s", [0.0, 30.0])
async def test_a_line_reaches_a_live_tail_within_12_tenths_of_a_second(watched_s: float) -> None:
    """In virtual time, in which servers answer at once: what remains is what CronFlow itself waits for."""
    async with a_cluster("a") as cluster:
        hub = Hub(cluster.backends, cluster.clock, ClusterConfig())
        live = asyncio.create_task(hub.run())
        written: dict[str, float] = {}

        class Marked:
            async def run(self, assignment: Assignment, node: str, log: LineSink) -> AttemptResult:
                for n in range(40):
                    written[f"line {n}"] = cluster.clock.monotonic()
                    log("info", f"line {n}")
                    await cluster.clock.sleep(0.37)
                return AttemptResult(Outcome.OK)

        worker_of(cluster.nodes[0])._executor = Marked()
        await cluster.service.jobs.apply([a_job("chatty", schedule=None)])
        await cluster.elapse(2)
        session = hub.open(None)
        await hub.following.subscribe(session, "logs", 0)
        await cluster.elapse(watched_s)
        await cluster.service.jobs.trigger("chatty")
        late = {}
        for _ in range(1000):
            await cluster.clock.advance(0.02)
            while (text := session._ready()) is not None:
                for chunk in orjson.loads(text).get("logs", ()):
                    for line in chunk["lines"]:
                        late[line["text"]] = cluster.clock.monotonic() - written[line["text"]]
        assert len(late) == 40
        assert max(late.values()) <= 1.2, late
        live.cancel()
        await asyncio.wait({live})


async def test_a_redis_that_is_away_holds_up_no_run() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job("tick", schedule=Every("10s"))])
        run = await a_chatty_run(cluster, 10)
        await cluster.backends.live_tail.add_viewer(60)
        await cluster.elapse(0.5)
        cluster.backends.faults.fail_before("live_tail.has_viewer", 1000)
        await cluster.elapse(5)
        assert [line.n for line in await cluster.backends.logs.read(run)] == list(range(10))
