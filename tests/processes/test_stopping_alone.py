"""Nodes that are stopped while their servers are away, with runs in flight: real processes, paused and killed servers.

A supervisor kills a node that does not end by itself, and then its outcomes that are not on the disk are lost.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cronflow.domain.job import CommandTarget, Delivery
from cronflow.domain.run import RunState
from cronflow.node.timings import Timings
from cronflow.testing.embedded import MongoServer, RedisServer
from tests.processes.conftest import Processes, process_cluster
from tests.processes.test_stopping import ended, running
from tests.waiting import eventually

pytestmark = pytest.mark.chaos

DRAIN_S = 1.0
RARER = [("paused", "redis"), ("paused", "both"), ("killed", "redis"), ("killed", "mongodb")]


async def stopped(cluster: Processes, name: str) -> int:
    """Stop the node with SIGTERM, and wait for as long as a supervisor is told to wait. Returns its exit code."""
    cluster.signal(name, signal.SIGTERM)
    child = cluster.children[name]
    # A busy machine may need longer for what is not waiting.
    return await asyncio.to_thread(child.wait, Timings(drain=DRAIN_S).exit + 30)


@pytest.mark.parametrize(
    ("how", "away"),
    [
        ("paused", "mongodb"),
        ("killed", "both"),
        *(pytest.param(*less, marks=pytest.mark.prove) for less in RARER),
    ],
)
async def test_a_node_ends_although_its_servers_are_away_and_no_outcome_is_lost(
    own_redis: RedisServer, own_mongo: MongoServer, namespace: str, tmp_path: Path, away: str, how: str
) -> None:
    gone: list[RedisServer | MongoServer] = [own_redis] if away != "mongodb" else []
    gone += [own_mongo] if away != "redis" else []
    async with process_cluster(own_redis.url, own_mongo.url, namespace, tmp_path) as cluster:
        cluster.limits["CRONFLOW_DRAIN_TIMEOUT"] = f"{DRAIN_S:g}s"
        await cluster.up("a")
        # One ends while the servers are away, the other is stopped with the node.
        gate = tmp_path / "gate"
        short = cluster.job("short", every=None)
        command = f"echo start >>{cluster.sink}; while [ ! -e {gate} ]; do sleep 0.05; done; echo end >>{cluster.sink}"
        short = replace(short, target=CommandTarget(command))
        long = cluster.job("long", every=None, seconds=25.0, delivery=Delivery.AT_LEAST_ONCE)
        await cluster.apply(short, long)
        runs = [await cluster.service.jobs.trigger(name) for name in ("short", "long")]
        for run in runs:
            await running(cluster, run)
        for server in gone:
            await asyncio.to_thread(server.pause if how == "paused" else server.kill)
        try:
            gate.touch()
            await eventually(lambda: "end" in cluster.sink.read_text(), what="the short job has ended")
            assert await stopped(cluster, "a") == 0
            log = cluster.log("a").read_text()
            assert "node down" in log
            assert "stop takes too long" not in log
            spooled = cluster.spooled("a")
            if away != "redis":
                assert all(run in spooled for run in runs)
        finally:
            for server in gone:
                back: Callable[[], object] = server.resume if how == "paused" else server.start
                await asyncio.to_thread(back)
        await cluster.up("b")
        found = await ended(cluster, runs[0])
        assert found.state is RunState.SUCCEEDED
        assert [attempt.n for attempt in found.attempts] == [1]
        # The one that was stopped with its node starts again elsewhere.
        again = await running(cluster, runs[1])
        assert (again.node or "").startswith("b#")
