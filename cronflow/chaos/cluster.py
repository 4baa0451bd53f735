"""The cluster of `cronflow chaos`: nodes, a Redis and three members of MongoDB, with a proxy on every connection.

Nodes are processes as in production. Each reaches the servers by proxies of its own, so one node can be cut off; this
process reaches them directly.
"""

from __future__ import annotations

import asyncio
import resource
import secrets
import shutil
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from cronflow.backends.clock import SystemClock
from cronflow.bootstrap.backends import open_backends
from cronflow.chaos.jobs import MODULE
from cronflow.chaos.mongo_replies import renaming
from cronflow.chaos.sink import Sink
from cronflow.domain.cluster import node_name
from cronflow.domain.errors import BackendUnavailable
from cronflow.node.timings import Timings
from cronflow.testing.child_process import Child, base_environment
from cronflow.testing.embedded import MongoReplicaSet, RedisServer
from cronflow.testing.embedded.server import free_port
from cronflow.testing.offset_clock import write_offset
from cronflow.testing.tcp_proxy import TcpProxy
from cronflow.usecases import UseCases

NAMESPACE = "chaos"
DRAIN_S = 10.0
NO_LEADER_FOR_S = 90.0
POLL_S = 0.1

Limits = Mapping[str, timedelta]
"""Settings of the nodes by name, without `CRONFLOW_`."""


def limits_for(leader_ttl: timedelta, look_ahead: timedelta) -> Limits:
    """The time limits of nodes with another LEADER_TTL, in the proportions of the defaults. Raises InvalidInput if a
    node would refuse them.
    """
    Timings(leader_ttl=leader_ttl.total_seconds(), leader_renew=0, look_ahead=look_ahead.total_seconds())
    return {
        "LOOK_AHEAD": look_ahead,
        "LEADER_TTL": leader_ttl,
        "LEADER_RENEW": leader_ttl / 2,
        "FAILOVER_CHECK": leader_ttl * 1.5,
        "HEARTBEAT": leader_ttl / 6,
        "NODE_TTL": leader_ttl / 2,
        "RUN_LEASE": leader_ttl * 1.5,
        "LOCK_BUFFER": leader_ttl / 6,
    }


@dataclass(frozen=True, slots=True)
class Links:
    """The proxies by which a node reaches the servers."""

    redis: TcpProxy
    mongo: Sequence[TcpProxy]

    @property
    def all(self) -> Sequence[TcpProxy]:
        return [self.redis, *self.mongo]


class ChaosCluster:
    """The nodes by name, and the servers. `service` connects to the servers directly."""

    def __init__(self, folder: Path, redis: RedisServer, mongo: MongoReplicaSet, sink: Sink, service: UseCases) -> None:
        self.folder = folder
        self.redis, self.mongo = redis, mongo
        self.sink = sink
        self.service = service
        self.links: dict[str, Links] = {}
        self.nodes: dict[str, Child] = {}
        self.metrics_ports: dict[str, int] = {}

    @property
    def names(self) -> Sequence[str]:
        return list(self.nodes)

    def log(self, node: str) -> Path:
        return self.folder / "logs" / f"{node}.log"

    async def leader(self) -> str | None:
        """The name of the node that holds the lead; None if there is none, or Redis does not answer."""
        try:
            held = await self.service.backends.election.holder()
        except BackendUnavailable:
            return None
        return None if held is None else node_name(held[0])

    async def some_leader(self) -> str | None:
        """Wait for a leader for at most a minute and a half."""
        try:
            async with asyncio.timeout(NO_LEADER_FOR_S):
                while (found := await self.leader()) is None:
                    await asyncio.sleep(POLL_S)
                return found
        except TimeoutError:
            return None

    async def term(self) -> int:
        """The highest term so far; 0 before the first one. Raises BackendUnavailable."""
        record = await self.service.backends.control.leader()
        return 0 if record is None else record.term

    async def is_whole(self) -> bool:
        """Whether all nodes are up and one of them leads."""
        try:
            members = {member.report.name for member in await self.service.cluster.members()}
        except BackendUnavailable:
            return False
        return members >= set(self.nodes) and await self.leader() is not None

    def kill(self, node: str) -> None:
        """SIGKILL. The node starts again when `may_start` of its process is set."""
        self.nodes[node].may_start.clear()
        self.nodes[node].send_signal(signal.SIGKILL)

    def step_clock(self, node: str, seconds: float) -> None:
        """Set how far the clock of a node is off."""
        write_offset(self._offset(node), seconds)

    def limit_files(self, node: str, size: int) -> None:
        """Let writes of the node to any file beyond this size fail; -1 to allow all."""
        pid = self.nodes[node].pid
        if pid is not None:
            _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard if size < 0 else size, hard))

    async def roll_back_redis(self, seconds: float) -> None:
        """After `seconds`, restore the data that Redis has now, like a failover to a replica that lagged behind."""
        data, copy = self.redis.data_dir / self.redis.name, self.folder / "redis-before"

        def keep() -> None:
            shutil.rmtree(copy, ignore_errors=True)
            self.redis.pause()
            try:
                shutil.copytree(data, copy)
            finally:
                self.redis.resume()

        def put_back() -> None:
            self.redis.kill()
            shutil.rmtree(data)
            shutil.copytree(copy, data)
            self.redis.restart()

        await asyncio.to_thread(keep)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(put_back)

    def _offset(self, node: str) -> Path:
        return self.folder / f"{node}.clock"

    def add(self, name: str, links: Links, limits: Limits) -> None:
        """One more node, which is not running yet."""
        self.step_clock(name, 0)
        self.metrics_ports[name] = free_port()
        environment = {
            **base_environment(),
            "CRONFLOW_NAMESPACE": NAMESPACE,
            "CRONFLOW_REDIS_URL": links.redis.url,
            "CRONFLOW_MONGO_URL": self.mongo.url_by([f"127.0.0.1:{proxy.port}" for proxy in links.mongo]),
            "CRONFLOW_ALLOW_PYTHON": MODULE,
            "CRONFLOW_METRICS_PORT": str(self.metrics_ports[name]),
            "CRONFLOW_SPOOL_DIR": str((self.folder / "spool").absolute()),
            "CRONFLOW_DRAIN_TIMEOUT": f"{DRAIN_S:g}s",
            # Nobody approves missed runs after an outage.
            "CRONFLOW_RECOVERY_LIMIT": "0",
            # The experiment reads the elections from the log.
            "CRONFLOW_LOG_FORMAT": "text",
            **{f"CRONFLOW_{key}": f"{value / timedelta(milliseconds=1):.0f}ms" for key, value in limits.items()},
        }
        words = ["node", "--name", name, "--clock-offset", str(self._offset(name))]
        self.links[name] = links
        self.nodes[name] = Child(name, words, environment, self.log(name), lambda *_: None)

    async def stop_nodes(self) -> None:
        """Stop all nodes with SIGTERM; they record their last outcomes before they exit."""
        await asyncio.gather(*(child.stop(2 * DRAIN_S) for child in self.nodes.values()))


@asynccontextmanager
async def chaos_cluster(folder: Path, nodes: int, limits: Limits) -> AsyncIterator[ChaosCluster]:
    """Start everything in a new folder; stop it at the end. Raises CannotStart with the remedy."""
    async with AsyncExitStack() as stack:
        (folder / "logs").mkdir(mode=0o700)
        password = secrets.token_hex(24)
        redis, mongo = RedisServer(folder, password=password), MongoReplicaSet(folder, password=password)
        for server in (redis, mongo):
            await asyncio.to_thread(server.__enter__)
            stack.push_async_callback(asyncio.to_thread, server.__exit__, None, None, None)
        sink = await stack.enter_async_context(Sink(folder / "sink"))
        backends = await stack.enter_async_context(open_backends(redis.url, mongo.url, NAMESPACE))
        cluster = ChaosCluster(folder, redis, mongo, sink, UseCases(backends, SystemClock()))
        for number in range(1, nodes + 1):
            cluster.add(f"node-{number}", await _links(stack, redis, mongo), limits)
        running = [asyncio.create_task(child.run(), name=name) for name, child in cluster.nodes.items()]
        try:
            yield cluster
        finally:
            await cluster.stop_nodes()
            for task in running:
                task.cancel()
            await asyncio.wait(running)


async def _links(stack: AsyncExitStack, redis: RedisServer, mongo: MongoReplicaSet) -> Links:
    """The proxies of a node. Each replaces the addresses of the members with those of the proxies."""
    addresses: dict[str, str] = {}
    members = [
        await stack.enter_async_context(TcpProxy("127.0.0.1", member.port, replies=renaming(addresses)))
        for member in mongo.members
    ]
    for address, proxy in zip(mongo.addresses, members, strict=True):
        addresses[address] = f"127.0.0.1:{proxy.port}"
    return Links(await stack.enter_async_context(TcpProxy.to(redis.url)), members)
