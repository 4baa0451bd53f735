"""Opens a client for a URL: one server, a master found through Sentinel, or a cluster.

    redis://host:6379/0    rediss://…    unix:///path
    redis+sentinel://[:password@]host:26379,host:26379/master-name[/db]
    redis+cluster://[:password@]host:6379,host:6379

No client retries a command by itself. A cluster redirection is not a retry: the first server did not execute it.

Time limits. COMMAND_TIMEOUT_S bounds a connect with its TLS handshake, and a reply. A call may need several of them:
the driver asks sentinels or the nodes of a cluster, looks up names, connects, logs in, and only then sends the
command. CALL_TIMEOUT_S bounds all of it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from redis.asyncio import Redis
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

from cronflow.domain.errors import InvalidInput

SENTINEL, CLUSTER = "redis+sentinel://", "redis+cluster://"
COMMAND_TIMEOUT_S = 3.0
CALL_TIMEOUT_S = 6.0
CLOSE_TIMEOUT_S = 1.0

Client = Redis | RedisCluster


@dataclass(frozen=True, slots=True)
class RedisServers:
    """A parsed URL with several hosts."""

    hosts: tuple[tuple[str, int], ...]
    username: str | None
    password: str | None
    path: tuple[str, ...]

    @property
    def address(self) -> str:
        """Without the password."""
        return ",".join(f"{host}:{port}" for host, port in self.hosts)


def parse(url: str) -> RedisServers:
    """Read a `redis+sentinel://` or `redis+cluster://` URL. Raises InvalidInput."""
    scheme, _, rest = url.partition("://")
    default_port = 26379 if url.startswith(SENTINEL) else 6379
    authority, _, path = rest.partition("/")
    login, _, hosts = authority.rpartition("@")
    username, _, password = login.partition(":")
    found = []
    for host in hosts.split(","):
        name, colon, port = host.rpartition(":")
        if not colon:
            name, port = host, str(default_port)
        if not name or not port.isdigit() or not 0 < int(port) < 65536:
            raise InvalidInput(f"{scheme}:// names {host!r}, which is not host:port")
        found.append((name.strip("[]"), int(port)))
    words = tuple(word for word in path.split("/") if word)
    if url.startswith(SENTINEL) and (not words or len(words) > 2 or (len(words) == 2 and not words[1].isdigit())):
        raise InvalidInput(
            "redis+sentinel:// needs the name of the master after the hosts: …/master-name or …/master-name/0"
        )
    if url.startswith(CLUSTER) and words:
        raise InvalidInput("redis+cluster:// takes no database: a cluster has only one")
    return RedisServers(tuple(found), unquote(username) or None, unquote(password) or None, words)


@dataclass(frozen=True, slots=True)
class Opened:
    """A client, the address for messages, and its sentinels."""

    client: Client
    address: str
    sentinel: Sentinel | None = None

    async def aclose(self) -> None:
        """Close every connection; those that do not close in time are left to the end of the process."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self.client.aclose()
                if self.sentinel is not None:
                    await self.sentinel.aclose()


def open_client(url: str) -> Opened:
    """A client, not yet connected. Raises InvalidInput."""
    options: dict[str, Any] = {
        "socket_timeout": COMMAND_TIMEOUT_S,
        "socket_connect_timeout": COMMAND_TIMEOUT_S,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
    }
    if url.startswith(SENTINEL):
        servers = parse(url)
        master, *db = servers.path
        sentinel = Sentinel(  # type: ignore[no-untyped-call]
            servers.hosts,
            # A sentinel has no data and often no password.
            sentinel_kwargs={**options, "socket_timeout": 1.0, "socket_connect_timeout": 1.0},
            username=servers.username,
            password=servers.password,
            db=int(db[0]) if db else 0,
            **options,
        )
        client: Redis = sentinel.master_for(master)
        return Opened(client, f"{master} at {servers.address}", sentinel)
    if url.startswith(CLUSTER):
        servers = parse(url)
        nodes = [ClusterNode(host, port) for host, port in servers.hosts]
        cluster = RedisCluster(
            startup_nodes=nodes,
            username=servers.username,
            password=servers.password,
            **options,
        )
        return Opened(cluster, servers.address)
    single: Redis = Redis.from_url(url, **options)
    arguments = single.connection_pool.connection_kwargs
    host, port = arguments.get("host", "localhost"), arguments.get("port", 6379)
    return Opened(single, arguments.get("path") or f"{host}:{port}")
