"""`make bench`: throughput, the lateness of a single job and of a herd, the cost of lists and of the live stream, and
how an API process responds under hostile requests.

It uses real servers, node processes as in production, and no-op jobs, so it measures CronFlow itself with MongoDB and
Redis on the same machine. Lateness is the time from when a run was due to the start of its attempt. Results depend on
the machine; compare ratios within one run. It asserts nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from cronflow.bootstrap.parts import VERSION
from cronflow.testing.embedded import MongoServer, RedisServer
from tests.bench import hostile, stream
from tests.bench.cluster import cluster
from tests.bench.lists import lists
from tests.bench.loads import herd, single, steady
from tests.bench.words import say


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--herd", type=int, default=1000)
    parser.add_argument("--steady", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--stored", type=int, default=1_000_000)
    parser.add_argument("--sockets", type=int, default=200)
    parser.add_argument("--hostile", type=int, default=5000)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--slots", type=int, default=64)
    options = parser.parse_args()
    say(
        f"cronflow {VERSION}, Python {platform.python_version()}",
        f"{os.cpu_count()} CPUs, {datetime.now(UTC):%Y-%m-%d %H:%MZ}",
    )
    say("nodes x slots", f"{options.nodes} x {options.slots}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis = stack.enter_context(RedisServer(folder))
        mongo = stack.enter_context(MongoServer(folder))
        async with cluster(redis.url, mongo.url, "lone", options.nodes, options.slots) as service:
            await single(service, options.seconds)
        async with cluster(redis.url, mongo.url, "herd", options.nodes, options.slots) as service:
            await herd(service, options.herd)
        async with cluster(redis.url, mongo.url, "steady", options.nodes, options.slots) as service:
            await steady(service, options.steady, options.seconds)
        await stream.ticks(redis.url, mongo.url, nodes=100)
        async with (
            cluster(redis.url, mongo.url, "stream", options.nodes, options.slots) as service,
            stream.api(redis.url, mongo.url, "stream") as (url, process),
        ):
            await stream.lines(service, url, count=100)
            await stream.sockets(service, url, process, count=options.sockets, seconds=options.seconds)
            await hostile.requests(service, url, count=options.hostile)
        await lists(redis.url, mongo.url, options.stored)


if __name__ == "__main__":
    asyncio.run(main())
