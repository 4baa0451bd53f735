"""What registered jobs cost while none of them is due: a cluster without jobs beside one with many.

`python -m tests.bench.idle --jobs 1000000`. Each cluster has one node, which leads, and one API process. They are
measured in turn, twice each, while the others are stopped, so that the servers work for one of them only. The jobs are
written straight into the store, because applying a million of them is what `tests.bench.apply` measures. It asserts
nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import psutil
from pymongo import WriteConcern

from cronflow.backends import codec
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.bootstrap.backends import open_backends
from cronflow.domain.job import Job, JobRecord, PythonTarget
from cronflow.domain.schedule.kinds import Cron
from cronflow.testing.embedded import MongoServer, RedisServer
from tests.bench.results import forget, record
from tests.bench.stored_runs import job_name
from tests.bench.stream import api
from tests.bench.words import say
from tests.children import cluster_environment, python

COMMAND = "python -m tests.bench.idle"
AT_ONCE = 2000
DUE_IN = timedelta(days=30)
SETTLE_S = 15
TURNS = 2


class Used(NamedTuple):
    """Percent of a core."""

    node: float
    api: float
    mongod: float


class Cluster(NamedTuple):
    name: str
    node: psutil.Process
    api: psutil.Process

    def stop(self) -> None:
        self.node.suspend()
        self.api.suspend()

    def resume(self) -> None:
        self.node.resume()
        self.api.resume()


async def register(mongo_url: str, namespace: str, count: int) -> None:
    """Write jobs that are due in a month."""
    due = datetime.now(UTC).replace(microsecond=0) + DUE_IN
    job = Job(name=job_name(0), target=PythonTarget("tests.bench.jobs:nothing"), schedule=Cron("0 2 1 * *"))
    record = JobRecord(job=job, next_fire=due, due_at=due, created_at=due - DUE_IN, updated_at=due - DUE_IN, since=due)
    document = codec.record_document(record)
    async with MongoDatabase(mongo_url, namespace) as database:
        jobs = database["jobs"].with_options(write_concern=WriteConcern(1, j=False))
        for first in range(0, count, AT_ONCE):
            names = [job_name(n) for n in range(first, min(first + AT_ONCE, count))]
            await jobs.insert_many(
                [
                    {**document, "_id": name, "definition": document["definition"].replace(job.name, name)}
                    for name in names
                ],
                ordered=False,
            )


def cpu(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:2]))


async def measure(cluster: Cluster, mongod: psutil.Process, seconds: int) -> Used:
    """The CPU time of a cluster that is alone on its servers."""
    cluster.resume()
    await asyncio.sleep(SETTLE_S)
    processes = (cluster.node, cluster.api, mongod)
    before = [cpu(process) for process in processes]
    await asyncio.sleep(seconds)
    used = Used(*(100 * (cpu(process) - start) / seconds for process, start in zip(processes, before, strict=True)))
    cluster.stop()
    return used


async def compare(redis: RedisServer, mongo: MongoServer, jobs: int, seconds: int) -> None:
    mongod = psutil.Process(mongo.pid)
    with ExitStack() as nodes:
        clusters = []
        async with api(redis.url, mongo.url, "none") as (_, first), api(redis.url, mongo.url, "many") as (_, second):
            try:
                for name, process in (("none", first), ("many", second)):
                    environment = cluster_environment(
                        redis.url, mongo.url, name, CRONFLOW_LOG_LEVEL="error", CRONFLOW_METRICS_PORT="0"
                    )
                    child = subprocess.Popen(python("-m", "cronflow", "node", "--name", "node"), env=environment)
                    nodes.callback(child.wait, 20)
                    nodes.callback(child.terminate)
                    async with open_backends(redis.url, mongo.url, name) as backends:
                        while await backends.control.leader() is None:
                            await asyncio.sleep(0.1)
                    clusters.append(Cluster(name, psutil.Process(child.pid), process))
                    clusters[-1].stop()
                leaders: dict[str, list[float]] = {cluster.name: [] for cluster in clusters}
                for turn in range(TURNS):
                    for cluster, count in zip(clusters, (0, jobs), strict=True):
                        used = await measure(cluster, mongod, seconds)
                        leaders[cluster.name].append(used.node)
                        memory = " and ".join(
                            f"{process.memory_info().rss / 2**20:.0f} MiB" for process in (cluster.node, cluster.api)
                        )
                        say(
                            f"{count:,} jobs, none due, {seconds} s, turn {turn + 1}",
                            f"leader {used.node:.2f} %, API {used.api:.2f} %, mongod {used.mongod:.2f} % of a core; "
                            f"memory {memory}",
                        )
                more = max(0.0, min(leaders["many"]) - min(leaders["none"]))
                record("idle_cpu", more, "% of a core", f"{COMMAND} --jobs {jobs} --seconds {seconds}")
            finally:
                for cluster in clusters:
                    cluster.resume()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=60)
    options = parser.parse_args()
    forget(COMMAND)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis = stack.enter_context(RedisServer(folder))
        mongo = stack.enter_context(MongoServer(folder))
        await register(mongo.url, "many", options.jobs)
        await compare(redis, mongo, options.jobs, options.seconds)


if __name__ == "__main__":
    asyncio.run(main())
