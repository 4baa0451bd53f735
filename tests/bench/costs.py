"""The CPU time of each process per run and per second, for the model of `docs/scaling.md`.

`python -m tests.bench.costs`. No-op jobs are due at every whole second, at several rates. Costs grow linearly with the
rate: the intercept is what a second with due jobs costs (rounds, batches and wake-ups), the slope what a run costs.
What the leader uses above the mean of the other nodes is the cost of leading. Members that only send heartbeats show
what a large cluster costs the leader. It asserts nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pymongo import AsyncMongoClient

from cronflow.testing.embedded import MongoServer, RedisServer
from cronflow.usecases import UseCases
from tests.bench.cluster import running
from tests.bench.cpu import CpuMeter
from tests.bench.results import forget, record
from tests.bench.soak_load import Load, register
from tests.bench.stream import a_report
from tests.bench.words import say

COMMAND = "python -m tests.bench.costs"
NODES = 3
SLOTS = 100
RATES = (0, 50, 150, 500, 1000)
OTHER_MEMBERS = 97
LEAD = timedelta(seconds=4)
SETTLE_S = 3
REPORT_EVERY_S = 4.0


@dataclass(frozen=True, slots=True)
class Spent:
    """Milliseconds of CPU time a second: of leading, of the runs on one node, of mongod and of Redis."""

    rate: int
    leading: float
    node: float
    mongod: float
    redis: float


class Costs:
    """Measures on two servers. Each measurement has a cluster of its own."""

    def __init__(self, redis: RedisServer, mongo: MongoServer, folder: Path, seconds: int) -> None:
        self._redis, self._mongo = redis, mongo
        self._folder = folder
        self._seconds = seconds
        self._clusters = 0

    async def at(self, rate: int, others: int = 0) -> Spent:
        """What a second costs in which so many jobs are due, with so many members besides the nodes."""
        self._clusters += 1
        namespace = f"costs-{self._clusters}"
        settings = {"HOME": str(self._folder), "CRONFLOW_SLOTS": str(SLOTS)}
        async with (
            running(self._redis.url, self._mongo.url, namespace, NODES, **settings) as (service, pids),
            members(service, others),
        ):
            start = datetime.now(UTC).replace(microsecond=0) + LEAD
            if rate:
                await register(service, Load(namespace, jobs=rate, step_s=1, seconds=self._seconds), start)
            nodes = {f"node-{k}": pid for k, pid in enumerate(pids)}
            # Between two instants, and after the first ones, which nodes execute for the first time.
            begin = start + timedelta(seconds=SETTLE_S, milliseconds=800)
            await asyncio.sleep((begin - datetime.now(UTC)).total_seconds())
            meter = CpuMeter({**nodes, "mongod": self._mongo.pid, "redis": self._redis.pid})
            end = begin + timedelta(seconds=self._seconds)
            await asyncio.sleep((end - datetime.now(UTC)).total_seconds())
            used = {name: 1000 * seconds / self._seconds for name, seconds in meter.seconds().items()}
            leader = (await service.cluster.status()).leader
        client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(self._mongo.url)
        async with client:
            await client.drop_database(f"cronflow_{namespace}")
        node = sum(used[name] for name in nodes if name != leader) / (NODES - 1)
        return Spent(rate, used[leader or ""] - node, node, used["mongod"], used["redis"])


@asynccontextmanager
async def members(service: UseCases, count: int) -> AsyncIterator[None]:
    """Members that send heartbeats and take no runs."""

    async def report() -> None:
        while True:
            for n in range(count):
                await service.backends.membership.report(replace(a_report(n), draining=True), 60)
            await asyncio.sleep(REPORT_EVERY_S)

    reporting = asyncio.create_task(report())
    try:
        yield
    finally:
        reporting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reporting


def line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The intercept and the slope of the line with the least squares. ZeroDivisionError for a single x."""
    count = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / count, sum(y for _, y in points) / count
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    return mean_y - slope * mean_x, slope


def show(spent: Spent, others: int = 0) -> None:
    what = f"{spent.rate:,} runs/s" + (f", {others} other members" if others else "")
    parts = (
        f"leading {spent.leading:.1f}   a node {spent.node:.1f}   mongod {spent.mongod:.1f}   redis {spent.redis:.1f}"
    )
    say(what, f"CPU ms a second: {parts}")


async def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=20, help="of each measurement")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis = stack.enter_context(RedisServer(folder))
        mongo = stack.enter_context(MongoServer(folder))
        costs = Costs(redis, mongo, folder, options.seconds)
        found = []
        for rate in RATES:
            found.append(await costs.at(rate))
            show(found[-1])
        alone = found[RATES.index(150)]
        crowded = await costs.at(150, OTHER_MEMBERS)
        show(crowded, OTHER_MEMBERS)
    forget(COMMAND)
    idle, *busy = found
    for name, share in (("leading", 1), ("node", NODES), ("mongod", 1), ("redis", 1)):
        intercept, slope = line([(spent.rate / share, getattr(spent, name)) for spent in busy])
        record(f"cost_{name}_idle", getattr(idle, name), "ms/s", COMMAND)
        record(f"cost_{name}_second", intercept - getattr(idle, name), "ms/s", COMMAND)
        record(f"cost_{name}_run", slope, "ms", COMMAND)
        parts = f"idle {getattr(idle, name):.2f} ms/s   with due jobs {intercept:.2f} ms/s   a run {slope:.4f} ms"
        say(name, parts)
    for name in ("leading", "redis"):
        more = (getattr(crowded, name) - getattr(alone, name)) / OTHER_MEMBERS
        record(f"cost_{name}_member", more, "ms/s", COMMAND)
        say(f"{name}, for each further member", f"{more:.3f} ms/s")


if __name__ == "__main__":
    asyncio.run(main())
