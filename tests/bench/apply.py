"""The speed of `cronflow jobs apply` with many jobs: from a YAML file to the servers, and through the API.

`python -m tests.bench.apply --jobs 20000`. Each way is measured with new jobs, with the same jobs again and with a
change in every one of `--changed`. The rate is that of the whole command without its start, which is the time that it
takes for a single job. It runs the command as people do, on servers of its own, and asserts nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import psutil

from cronflow.backends.clock import SystemClock
from cronflow.bootstrap.backends import open_backends
from cronflow.domain.access import Role
from cronflow.testing.embedded import MongoServer, RedisServer
from cronflow.usecases import UseCases
from tests.bench import stream
from tests.bench.results import forget, record
from tests.bench.words import say
from tests.children import cluster_environment, python

COMMAND = "python -m tests.bench.apply"
STARTS = 4
"""How often a single job is applied; the fastest counts. The first one creates the collections."""
JOB = """\
- name: {prefix}-{n:07}
  description: {description}
  schedule: {{cron: "{minute} {hour} * * *", tz: Europe/Berlin}}
  run:
    argv: [/opt/bin/report, --shard, "{n}"]
  timeout: 10m
  labels: {{team: billing}}
"""


class Spent(NamedTuple):
    """Seconds: of the clock, of CPU in the command, and of CPU in the servers."""

    wall: float
    command: float
    servers: float

    def less(self, start: Spent) -> Spent:
        """RuntimeError if nothing is left, because there were too few jobs."""
        left = Spent(*(part - other for part, other in zip(self, start, strict=True)))
        if left.wall <= 0:
            raise RuntimeError("applying all jobs took no longer than applying one; give more jobs")
        return left


def write_file(path: Path, prefix: str, count: int, description: str = "Writes a report") -> Path:
    """A file of daily jobs."""
    with path.open("w") as file:
        file.write("jobs:\n")
        for n in range(count):
            minute, hour = n % 60, n // 60 % 24
            file.write(JOB.format(prefix=prefix, n=n, description=description, minute=minute, hour=hour))
    return path


def applied(file: Path, environment: Mapping[str, str], servers: Sequence[psutil.Process]) -> Spent:
    """Apply a file. The servers are idle otherwise, so what they use belongs to it."""
    before, began = _cpu(servers), time.perf_counter()
    with file.with_suffix(".out").open("wb") as out:
        child = subprocess.Popen(
            python("-m", "cronflow", "jobs", "apply", "-f", file), env=dict(environment), stdout=out, stderr=out
        )
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - began
    if child.returncode:
        raise SystemExit(f"{file}: {file.with_suffix('.out').read_text()[-500:]}")
    return Spent(wall, usage.ru_utime + usage.ru_stime, _cpu(servers) - before)


def compare(
    way: str,
    folder: Path,
    options: argparse.Namespace,
    environment: Mapping[str, str],
    servers: Sequence[psutil.Process],
) -> None:
    """Apply new, equal and changed jobs in one way."""
    prefix = way.lower()
    single = write_file(folder / f"{prefix}-single.yaml", f"{prefix}-single", 1)
    start = min(applied(single, environment, servers) for _ in range(STARTS))
    say(f"{way}: a single job", f"{start.wall:6.2f} s")
    file = write_file(folder / f"{prefix}.yaml", prefix, options.jobs)
    few = write_file(folder / f"{prefix}-changed.yaml", prefix, options.changed, description="Writes another report")
    for what, one, count in (
        ("new", file, options.jobs),
        ("unchanged", file, options.jobs),
        ("changed", few, options.changed),
    ):
        spent = applied(one, environment, servers).less(start)
        cpu = f"CPU a job: command {spent.command / count * 1e3:.3f} ms, servers {spent.servers / count * 1e3:.3f} ms"
        say(f"{way}: {count:,} {what} jobs", f"{count / spent.wall:8,.0f} jobs/s   {cpu}")
        if what == "new":
            record(f"apply_{prefix}", count / spent.wall, "jobs/s", f"{COMMAND} --jobs {count}")


def _cpu(processes: Sequence[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--changed", type=int, default=2000)
    options = parser.parse_args()
    forget(COMMAND)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis = stack.enter_context(RedisServer(folder))
        mongo = stack.enter_context(MongoServer(folder))
        servers = [psutil.Process(server.pid) for server in (redis, mongo)]
        direct = cluster_environment(redis.url, mongo.url, "apply")
        await asyncio.to_thread(compare, "file", folder, options, direct, servers)
        async with (
            open_backends(redis.url, mongo.url, "apply") as backends,
            stream.api(redis.url, mongo.url, "apply") as (url, process),
        ):
            _, key = await UseCases(backends, SystemClock()).keys.create("bench", Role.ADMIN)
            through = {**direct, "CRONFLOW_API_URL": url, "CRONFLOW_API_KEY": key}
            for name in ("CRONFLOW_REDIS_URL", "CRONFLOW_MONGO_URL", "CRONFLOW_NAMESPACE"):
                del through[name]
            await asyncio.to_thread(compare, "REST", folder, options, through, [*servers, process])


if __name__ == "__main__":
    asyncio.run(main())
