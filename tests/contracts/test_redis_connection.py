"""Connections to a real Redis through a proxy that delays replies: late replies and half-open sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

from cronflow.backends.redis.connection import MOST_CALLS, RedisConnection
from cronflow.backends.redis.queue import RedisBus, RedisQueue
from cronflow.domain.errors import BackendUnavailable
from cronflow.ports import Signal
from cronflow.testing.embedded import RedisServer
from cronflow.testing.tcp_proxy import TcpProxy
from tests.waiting import eventually

SILENCE_S = 0.5


@dataclass
class Line:
    """A connection through the proxy, and one that knows the way around it."""

    proxy: TcpProxy
    connection: RedisConnection
    direct: RedisConnection


@pytest.fixture
async def line(redis_server: RedisServer, namespace: str) -> AsyncIterator[Line]:
    url = urlsplit(redis_server.url)
    assert url.hostname
    assert url.port
    async with (
        RedisConnection(redis_server.url, namespace) as direct,
        TcpProxy(url.hostname, url.port) as proxy,
        RedisConnection(f"redis://127.0.0.1:{proxy.port}/0", namespace, ping_every_s=SILENCE_S) as connection,
    ):
        yield Line(proxy, connection, direct)


REQUESTS: dict[str, Callable[[RedisConnection], Awaitable[object]]] = {
    "command": lambda redis: redis.command("ECHO", "the reply of the cancelled one"),
    "script": lambda redis: RedisQueue(redis).take("n1#a", 5),
    "pipeline": lambda redis: redis.pipeline([("ECHO", "one"), ("ECHO", "two")]),
}


@pytest.mark.parametrize("kind", REQUESTS)
async def test_redispy_2624_after_a_cancelled_command_the_next_one_reads_its_own_reply(line: Line, kind: str) -> None:
    """redis-py #2624, #2665: a cancelled command left its reply on the connection, and every later command read that
    of the one before it.
    """
    await line.connection.command("SET", line.connection.keys.redis_epoch, "mine")
    before = line.proxy.accepted
    line.proxy.mute()
    asked = asyncio.ensure_future(REQUESTS[kind](line.connection))
    await eventually(lambda: line.proxy.kept, what="the reply is under way")
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    line.proxy.unmute()
    for _ in range(3):
        assert await line.connection.command("GET", line.connection.keys.redis_epoch) == b"mine"
    assert line.proxy.accepted == before + 1, "the connection of the cancelled command was used again"


async def test_redispy_2624_a_late_reply_is_dropped(
    redis_server: RedisServer, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """redis-py #2624: the same with a time limit, which is a cancellation too."""
    monkeypatch.setattr("cronflow.backends.redis.clients.COMMAND_TIMEOUT_S", 1.0)
    url = urlsplit(redis_server.url)
    assert url.hostname
    assert url.port
    async with (
        TcpProxy(url.hostname, url.port) as proxy,
        RedisConnection(f"redis://127.0.0.1:{proxy.port}/0", namespace) as connection,
    ):
        proxy.mute()
        with pytest.raises(BackendUnavailable, match="Timeout"):
            await connection.command("ECHO", "too late")
        assert proxy.kept
        proxy.unmute()
        assert await connection.command("ECHO", "in time") == b"in time"
        assert proxy.accepted == 2


async def test_redispy_2417_a_doorbell_connection_that_has_gone_deaf_is_made_again(line: Line) -> None:
    """redis-py #2417, kombu #2590: a socket whose other end was lost stayed open, and who listened there heard nothing
    any more, for ever.
    """
    looks: list[str] = []
    listening = asyncio.ensure_future(
        RedisBus(line.connection).listen("n1#a", {Signal.JOBS: lambda: looks.append("look")})
    )
    try:
        await eventually(lambda: looks, what="it looks once connected")
        before, pings = line.proxy.accepted, await _pings(line)
        line.proxy.mute()
        await RedisBus(line.direct).notify(Signal.JOBS)
        await eventually(lambda: line.proxy.accepted > before, what="a new connection")
        assert await _pings(line) > pings, "silence alone is no reason to leave: it may only be quiet"
        await eventually(lambda: len(looks) >= 2, what="it looks again, for what it did not hear")
        heard = len(looks)
        await RedisBus(line.direct).notify(Signal.JOBS)
        await eventually(lambda: len(looks) > heard, what="it hears again")
    finally:
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening


async def _pings(line: Line) -> int:
    stats = await line.direct.command("INFO", "commandstats")
    return int(stats.get("cmdstat_ping", {}).get("calls", 0))


async def test_any_number_of_calls_at_once_share_the_connections(redis_server: RedisServer, namespace: str) -> None:
    async with RedisConnection(redis_server.url, namespace) as connection:
        answers = await asyncio.gather(*(connection.command("ECHO", str(n)) for n in range(400)))
        assert answers == [str(n).encode() for n in range(400)]
        clients = await connection.command("CLIENT", "LIST")
        assert clients.count(b"cmd=echo") <= MOST_CALLS
