"""Shards and broadcast on real processes and servers: the leader and a worker are killed, and Redis is wiped."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import cast

import pytest
from redis.asyncio import Redis

from cronflow.domain.job import Overlap
from cronflow.domain.run import Kind, Outcome, Run, RunState
from cronflow.domain.split import RunOn
from cronflow.testing.embedded import RedisServer
from cronflow.testing.history.checker import flaws_of_parents
from tests.processes.conftest import Processes, process_cluster
from tests.processes.test_stopping import cronflow
from tests.waiting import eventually

pytestmark = [pytest.mark.chaos, pytest.mark.prove]

NODES = ["a", "b", "c"]
SHARDS = 8


async def wipe(redis: RedisServer) -> None:
    async with Redis.from_url(redis.url) as client:
        await client.flushall()


async def ended(cluster: Processes, *runs: str) -> list[Run]:
    """Wait until these runs have ended. Returns them in this order."""

    async def done() -> list[Run] | None:
        found = {run.id: run for run in await cluster.backends.runs.get(runs)}
        return None if any(run.is_open for run in found.values()) else [found[run] for run in runs]

    found = await eventually(done, what=f"{runs} have ended")
    assert found is not None
    return found


async def test_each_part_is_accepted_once_although_nodes_are_killed_and_redis_is_wiped(
    own_redis: RedisServer, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(own_redis.url, mongo_url, namespace, tmp_path) as cluster:
        leader = await cluster.up(*NODES)
        worker = next(node for node in NODES if node != leader)
        await cluster.apply(
            cluster.job("sharded", every=None, seconds=1, shards=SHARDS, overlap=Overlap.FORBID),
            cluster.job("everywhere", every=None, seconds=1, run_on=RunOn.EVERY_NODE, overlap=Overlap.FORBID),
        )
        sharded, everywhere = [await cluster.service.jobs.trigger(job) for job in ("sharded", "everywhere")]
        await eventually(lambda: len(cluster.noted("start")) >= 3, what="some parts have started")
        cluster.kill(worker)
        await wipe(own_redis)
        cluster.kill(leader)
        for node in (worker, leader):
            cluster.start(node)
        first, second = await ended(cluster, sharded, everywhere)
        assert first.result == {"succeeded": [*range(SHARDS)]}
        assert second.result == {"succeeded": NODES}
        # A Redis that was wiped knows no node at first, and a broadcast goes to all three all the same.
        await cluster.all_up(*NODES)
        await wipe(own_redis)
        third, fourth = await ended(cluster, *[await cluster.service.jobs.trigger(job) for job in ("everywhere",) * 2])
        assert (third.result, fourth.result) == ({"succeeded": NODES}, {"succeeded": NODES})
        runs = await cluster.runs()
        parts = [run for run in runs if run.kind is Kind.PART]
        assert len(parts) == SHARDS + 3 * len(NODES)
        assert [*flaws_of_parents(runs)] == []
        # What the handlers wrote: one accepted end for each part, and another start only where an attempt was lost.
        starts, ends = Counter(run for run, _ in cluster.noted("start")), set(cluster.noted("end"))
        assert set(starts) == {part.id for part in parts}
        for part in parts:
            outcomes = [attempt.outcome for attempt in part.attempts]
            assert (part.state, outcomes.count(Outcome.OK)) == (RunState.SUCCEEDED, 1)
            assert (part.id, part.fence) in ends
            assert starts[part.id] <= 1 + outcomes.count(Outcome.LOST) + part.redispatches
        shown = await cronflow(cluster, "runs", "show", sharded)
        assert (shown["parts"], shown["part_states"]) == (SHARDS, {"succeeded": SHARDS})
        listed = await cronflow(cluster, "runs", "list", "--parent", everywhere)
        assert sorted(str(run["id"]) for run in cast("list[dict[str, object]]", listed)) == [
            f"{everywhere}~n-{node}" for node in NODES
        ]
