"""A large graph of jobs through killed leaders: `python -m tests.bench.chains`. Asserts that each job runs once.

1,000 jobs in 50 layers, each but the first layer following one to three jobs of the layer before it, on three nodes.
The leader is killed three times, and started again. It prints how long the graph took.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from cronflow.domain.run import RunState
from cronflow.testing.embedded import MongoServer, RedisServer
from tests.processes.conftest import Processes, process_cluster
from tests.processes.test_chains import a_graph, assert_once, chain

NODES = ("a", "b", "c")
PATIENCE_S = 900.0


async def measure(layers: int, width: int, kills: int, seconds: float) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        RedisServer(Path(folder, "redis")) as redis,
        MongoServer(Path(folder, "mongo")) as mongo,
    ):
        async with process_cluster(redis.url, mongo.url, "bench-chains", Path(folder)) as cluster:
            await cluster.up(*NODES)
            jobs = a_graph(cluster, layers, width, seconds)
            await cluster.apply(*jobs)
            began = time.perf_counter()
            first = await cluster.service.jobs.trigger("n0")
            killed = []
            for n in range(1, kills + 1):
                await succeeded(cluster, first, n * len(jobs) // (kills + 1))
                leader = await cluster.leader()
                if leader is None:
                    continue
                killed.append(leader)
                cluster.kill(leader)
                await cluster.new_leader(leader)
                cluster.start(leader)
            await succeeded(cluster, first, len(jobs))
            took = time.perf_counter() - began
            await assert_once(cluster, jobs, first, killed)
    links = sum(len(job.after) for job in jobs)
    print(f"{len(jobs)} jobs, {links} links, {layers} layers, {len(killed)} leaders killed: {took:.0f} s")
    print("each job ran once")


async def succeeded(cluster: Processes, first: str, count: int) -> None:
    """Wait until so many runs of the chain have succeeded."""
    deadline = time.perf_counter() + PATIENCE_S
    while time.perf_counter() < deadline:
        found = sum(run.state is RunState.SUCCEEDED for run in await chain(cluster, first))
        if found >= count:
            return
        await asyncio.sleep(0.5)
    raise AssertionError(f"not {count} runs within {PATIENCE_S:g} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=50)
    parser.add_argument("--width", type=int, default=20)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.05, help="how long each run takes")
    chosen = parser.parse_args()
    asyncio.run(measure(chosen.layers, chosen.width, chosen.kills, chosen.seconds))


if __name__ == "__main__":
    main()
