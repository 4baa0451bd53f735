"""Python peers under load: how fast worker processes drain a queue, and how late APScheduler starts jobs.

Drains: all tasks are enqueued first; then the workers start. Start-up does not count: the clock starts at the first
execution of the worker process that was last to execute one, and only executions after that count. It stops at the
last execution. What a library does after an execution, such as an acknowledgement, does not count either.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psutil
from redis import Redis

from cronflow.operating_system import tied_to_parent
from cronflow.testing.embedded import RedisServer
from tests.bench.peers import ledger
from tests.children import ROOT, child_environment

ENVIRONMENTS = ROOT / "build" / "peers"
MOST = "most"
OWN_ENVIRONMENT = {"arq": "arq"}
"""Peer -> environment, for peers that cannot share one: arq needs an older client for Redis."""
POLL_S = 0.25
COUNTED = 0.3
"""The least part of the executions from which a rate is computed."""
LIMIT_S = 120.0
STOP_S = 10.0


@dataclass(frozen=True, slots=True)
class PeerDrain:
    """Executions per second, and CPU milliseconds of the workers per execution."""

    per_second: float
    cpu_ms: float


def drain(redis: RedisServer, peer: str, tasks: int, processes: int, **settings: str) -> PeerDrain:
    """Enqueue tasks, start workers, and wait until all tasks were executed. TimeoutError if that takes too long.

    `settings` are environment variables of the peer.
    """
    with Redis.from_url(redis.url) as client:
        client.flushall()
    with tempfile.TemporaryDirectory() as folder:
        own = {"HOME": folder, ledger.FOLDER: f"{folder}/ledger", "PEERS_REDIS_URL": redis.url, **settings}
        environment = child_environment(**own)
        Path(folder, "ledger").mkdir()
        subprocess.run(_command(peer, "enqueue", str(tasks)), env=environment, cwd=ROOT, check=True)
        with _workers(peer, processes, environment) as workers:
            times, cpu_ms = _executed(Path(folder, "ledger"), tasks, workers)
    return PeerDrain(rate(times), cpu_ms)


def rate(processes: Sequence[Sequence[float]]) -> float:
    """Executions per second after the first one of the process that was last to execute one. RuntimeError if few
    executions are left.
    """
    began = max(times[0] for times in processes)
    ended = max(times[-1] for times in processes)
    count = sum(time > began for times in processes for time in times)
    if count < COUNTED * sum(map(len, processes)):
        raise RuntimeError(f"only {count:,} executions came after the start of the last process")
    return count / (ended - began)


def herd(executor: str, trigger: str, jobs: int) -> list[timedelta]:
    """The sorted lateness of APScheduler's jobs that are all due at one instant."""
    command = [*_python(MOST), "-m", "tests.bench.peers.apscheduler_herd", executor, trigger, str(jobs)]
    with tempfile.TemporaryDirectory() as folder:
        found = subprocess.run(
            command, env=child_environment(HOME=folder), cwd=ROOT, check=True, capture_output=True, text=True
        )
    return sorted(timedelta(milliseconds=float(late)) for late in found.stdout.split())


def _executed(folder: Path, tasks: int, workers: Sequence[int]) -> tuple[list[list[float]], float]:
    """The times of all executions by process, and the CPU time of an execution between the first and the last look."""
    deadline = time.monotonic() + LIMIT_S
    samples: list[tuple[int, float]] = []
    while True:
        times = ledger.read(folder)
        count = sum(map(len, times))
        if count:
            samples.append((count, _cpu_s(workers)))
        if count >= tasks:
            (first, before), (last, after) = samples[0], samples[-1]
            return times, 1000 * (after - before) / (last - first) if last > first else float("nan")
        if time.monotonic() > deadline:
            raise TimeoutError(f"{count:,} of {tasks:,} tasks were executed")
        time.sleep(POLL_S)


def _cpu_s(workers: Sequence[int]) -> float:
    roots = [psutil.Process(worker) for worker in workers]
    families = [process for root in roots for process in (root, *root.children(recursive=True))]
    return sum(sum(process.cpu_times()[:2]) for process in families)


@contextmanager
def _workers(peer: str, processes: int, environment: Mapping[str, str]) -> Iterator[list[int]]:
    workers = [
        subprocess.Popen(
            _command(peer, "work"),
            env=environment,
            cwd=ROOT,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(processes)
    ]
    try:
        yield [worker.pid for worker in workers]
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            try:
                worker.wait(STOP_S)
            except subprocess.TimeoutExpired:
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()


def _command(peer: str, *action: str) -> list[str]:
    return [*_python(OWN_ENVIRONMENT.get(peer, MOST)), "-m", "tests.bench.peers.run", f"with_{peer}", *action]


def _python(environment: str) -> list[str]:
    return [*tied_to_parent(), str(ENVIRONMENTS / environment / "bin" / "python")]
