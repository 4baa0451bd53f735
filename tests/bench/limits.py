"""Limits under random kills: `python -m tests.bench.limits`. Asserts that no limit is ever exceeded.

5,000 runs over 20 keys with a limit of 3 on three nodes, of which a random one is killed every few seconds, and Redis
is wiped now and then. The judge is the log that the handlers write. It prints what it found, and how long it took.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections import Counter
from pathlib import Path

from redis.asyncio import Redis

from cronflow.domain.run import RunState
from cronflow.ports import Signal
from cronflow.testing.embedded import MongoServer, RedisServer
from tests.processes.conftest import Processes, process_cluster
from tests.processes.holders import JOB, holding_job, judge, requested_runs

NODES = ("a", "b", "c")
INSERTED_AT_ONCE = 500
PATIENCE_S = 900.0


async def kill_now_and_then(cluster: Processes, redis_url: str, chosen: random.Random, done: Counter[str]) -> None:
    """Kill and restart a random node, or wipe Redis, until cancelled."""
    while True:
        await asyncio.sleep(chosen.uniform(2.0, 5.0))
        if chosen.random() < 0.2:
            async with Redis.from_url(redis_url) as redis:
                await redis.flushall()
            done["FLUSHALL"] += 1
            continue
        node = chosen.choice(NODES)
        cluster.kill(node)
        with cluster.sink.open("a") as sink:
            sink.write(f"killed {node}\n")
        done["kills"] += 1
        cluster.start(node)


async def measure(runs: int, keys: int, limit: int, seconds: float, seed: int) -> None:
    chosen, done = random.Random(seed), Counter[str]()
    with (
        tempfile.TemporaryDirectory() as folder,
        RedisServer(Path(folder, "redis")) as redis,
        MongoServer(Path(folder, "mongo")) as mongo,
    ):
        async with process_cluster(redis.url, mongo.url, "bench-limits", Path(folder)) as cluster:
            await cluster.up(*NODES)
            await cluster.apply(holding_job(cluster.sink, limit, seconds))
            record = await cluster.service.jobs.get(JOB)
            wanted = requested_runs(record, runs, keys, seed)
            for first in range(0, runs, INSERTED_AT_ONCE):
                await cluster.backends.runs.insert(wanted[first : first + INSERTED_AT_ONCE])
            await cluster.backends.bus.notify(Signal.JOBS)
            began = time.perf_counter()
            killing = asyncio.create_task(kill_now_and_then(cluster, redis.url, chosen, done))
            states = await ended(cluster, wanted[0].job, runs)
            took = time.perf_counter() - began
            killing.cancel()
            found = judge(cluster.sink.read_text().splitlines(), limit)
    print(f"{runs} runs over {keys} keys with limit {limit}, {seconds:g} s each, on {len(NODES)} nodes: {took:.0f} s")
    print(f"faults: {dict(done)}; states: { {state.value: count for state, count in states.items()} }")
    print(f"attempts started {found.started}, ended {found.ended}; most holders of one key at once: {found.most}")
    assert found.excess is None, found.excess
    assert sum(states.values()) == runs
    print("no limit was exceeded")


async def ended(cluster: Processes, job: str, runs: int) -> Counter[RunState]:
    """Wait until all runs have ended; their states."""
    deadline = time.perf_counter() + PATIENCE_S
    while time.perf_counter() < deadline:
        await asyncio.sleep(2.0)
        open_runs = (await cluster.backends.runs.open_of([job])).get(job, [])
        if not open_runs:
            return Counter(run.state for run in await cluster.runs() if run.job == job)
        print(f"{runs - len(open_runs)} of {runs} ended", flush=True)
    raise TimeoutError(f"the runs did not end within {PATIENCE_S:g} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5000)
    parser.add_argument("--keys", type=int, default=20)
    parser.add_argument("--limit", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3, help="how long each run holds its key")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    asyncio.run(measure(given.runs, given.keys, given.limit, given.seconds, given.seed))


if __name__ == "__main__":
    main()
