"""Limits on real processes and servers: an independent log of effects never shows more holders than the limit."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from redis.asyncio import Redis

from cronflow.domain.run import RunState
from cronflow.ports import Signal
from cronflow.testing.embedded import RedisServer
from tests.processes.conftest import process_cluster
from tests.processes.holders import JOB, holding_job, judge, requested_runs
from tests.waiting import eventually

pytestmark = [pytest.mark.chaos, pytest.mark.prove]

RUNS, KEYS, LIMIT = 240, 5, 3


@pytest.mark.parametrize(
    ("lines", "most", "excess"),
    [
        (["start r1 1 a k", "end r1 1 a k", "start r2 2 a k"], 1, False),
        (["start r1 1 a k", "start r2 2 a k"], 2, True),
        (["start r1 1 a k", "killed a", "start r1 2 b k"], 1, False),
        (["start r1 1 a k", "killed b", "start r1 2 b k"], 2, True),
        (["start r1 1 a k", "start r2 2 a j"], 1, False),
    ],
)
def test_the_judge_finds_an_excess(lines: list[str], most: int, excess: bool) -> None:
    found = judge(lines, 1)
    assert found.most == most
    assert (found.excess is not None) is excess


async def test_no_limit_is_exceeded_while_nodes_are_killed_and_redis_is_wiped(
    own_redis: RedisServer, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(own_redis.url, mongo_url, namespace, tmp_path) as cluster:
        leader = await cluster.up("a", "b", "c")
        await cluster.apply(holding_job(cluster.sink, LIMIT, 0.05))
        record = await cluster.service.jobs.get(JOB)
        await cluster.backends.runs.insert(requested_runs(record, RUNS, KEYS))
        await cluster.backends.bus.notify(Signal.JOBS)

        def ended() -> int:
            return judge(cluster.sink.read_text().splitlines(), LIMIT).ended if cluster.sink.exists() else 0

        async def kill(node: str) -> None:
            cluster.kill(node)
            with cluster.sink.open("a") as sink:
                sink.write(f"killed {node}\n")

        await eventually(lambda: ended() > RUNS // 8, what="some runs have ended")
        worker = next(node for node in ("a", "b", "c") if node != leader)
        await kill(worker)
        cluster.start(worker)
        await eventually(lambda: ended() > RUNS // 4, what="a quarter of the runs has ended")
        async with Redis.from_url(own_redis.url) as redis:
            await redis.flushall()
        await eventually(lambda: ended() > RUNS // 2, what="half of the runs have ended")
        await kill(leader)

        async def all_ended() -> bool:
            return not any(run.is_open for run in await cluster.runs() if run.job == JOB)

        await eventually(all_ended, what="all runs have ended")
        found = judge(cluster.sink.read_text().splitlines(), LIMIT)
        assert found.excess is None
        assert found.most == LIMIT
        states = Counter(run.state for run in await cluster.runs() if run.job == JOB)
        assert states == {RunState.SUCCEEDED: RUNS}

        async def released() -> bool:
            states = await cluster.backends.limits.get([f"key:k{k}" for k in range(KEYS)])
            return len(states) == KEYS and not any(state.permits for state in states)

        await eventually(released, what="all permits are released")
