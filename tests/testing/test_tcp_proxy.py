"""The TCP proxy, between a client and an echo server on loopback: every way to break a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from cronflow.testing.tcp_proxy import TcpProxy
from tests.waiting import eventually

SILENT_S = 0.2
"""How long a test listens where nothing must come."""


@dataclass
class Echo:
    """A server that answers every line, and remembers it."""

    lines: list[bytes] = field(default_factory=list)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            self.lines.append(line)
            writer.write(line)
        writer.close()


@asynccontextmanager
async def proxied() -> AsyncIterator[tuple[TcpProxy, Echo]]:
    echo = Echo()
    server = await asyncio.start_server(echo.answer, "127.0.0.1", 0)
    try:
        async with TcpProxy("127.0.0.1", server.sockets[0].getsockname()[1]) as proxy:
            yield proxy, echo
    finally:
        server.close()


@asynccontextmanager
async def connected(proxy: TcpProxy) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def silent(reader: asyncio.StreamReader) -> bool:
    """Whether nothing comes, neither data nor the end."""
    try:
        async with asyncio.timeout(SILENT_S):
            await reader.read(1)
    except TimeoutError:
        return True
    return False


async def test_a_cut_is_silent_in_both_directions_and_a_new_connection_works_after_it() -> None:
    async with proxied() as (proxy, echo), connected(proxy) as (reader, writer):
        writer.write(b"before\n")
        assert await reader.readline() == b"before\n"
        proxy.cut()
        writer.write(b"lost\n")
        async with connected(proxy) as (other, to_other):
            to_other.write(b"lost too\n")
            assert await silent(reader)
            assert await silent(other)
        await proxy.mend()
        assert await reader.read() == b""
        async with connected(proxy) as (again, to_again):
            to_again.write(b"after\n")
            assert await again.readline() == b"after\n"
        assert echo.lines == [b"before\n", b"after\n"]


async def test_refused_connections_are_reset_the_present_ones_and_new_ones() -> None:
    async with proxied() as (proxy, echo), connected(proxy) as (reader, writer):
        writer.write(b"before\n")
        await reader.readline()
        proxy.refuse()
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        with pytest.raises(ConnectionResetError):
            async with connected(proxy) as (other, _):
                await other.read(1)
        await proxy.mend()
        async with connected(proxy) as (again, to_again):
            to_again.write(b"after\n")
            assert await again.readline() == b"after\n"
        assert echo.lines == [b"before\n", b"after\n"]


async def test_a_reset_ends_the_present_connections_only() -> None:
    async with proxied() as (proxy, _), connected(proxy) as (reader, writer):
        writer.write(b"before\n")
        await reader.readline()
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        async with connected(proxy) as (again, to_again):
            to_again.write(b"after\n")
            assert await again.readline() == b"after\n"


async def test_a_request_whose_reply_is_dropped_has_arrived() -> None:
    async with proxied() as (proxy, echo), connected(proxy) as (reader, writer):
        proxy.drop_replies()
        writer.write(b"executed\n")
        with pytest.raises(ConnectionResetError):
            await reader.readline()
        assert echo.lines == [b"executed\n"]
        await proxy.mend()
        async with connected(proxy) as (again, to_again):
            to_again.write(b"after\n")
            assert await again.readline() == b"after\n"


async def test_half_open_connections_get_their_answers_late_and_a_new_one_at_once() -> None:
    async with proxied() as (proxy, echo), connected(proxy) as (reader, writer):
        writer.write(b"before\n")
        await reader.readline()
        proxy.mute()
        writer.write(b"kept back\n")
        await eventually(lambda: proxy.kept == len(b"kept back\n"), what="the answer is kept back")
        assert echo.lines[-1] == b"kept back\n"
        async with connected(proxy) as (other, to_other):
            to_other.write(b"new\n")
            assert await other.readline() == b"new\n"
        proxy.unmute()
        assert await reader.readline() == b"kept back\n"


async def test_a_delayed_answer_comes_in_the_end() -> None:
    async with proxied() as (proxy, _), connected(proxy) as (reader, writer):
        proxy.delay_s = SILENT_S
        writer.write(b"slow\n")
        assert await silent(reader)
        assert await reader.readline() == b"slow\n"


async def test_the_url_of_a_proxy_keeps_the_password_and_leads_to_it() -> None:
    async with TcpProxy.to("redis://:secret@127.0.0.1:6379/0") as redis:
        assert redis.url == f"redis://:secret@127.0.0.1:{redis.port}/0"
    async with TcpProxy.to("mongodb://user:secret@127.0.0.1:27017/?replicaSet=rs0") as mongo:
        assert mongo.url == f"mongodb://user:secret@127.0.0.1:{mongo.port}/?directConnection=true"
    async with TcpProxy("127.0.0.1", 1) as plain:
        with pytest.raises(RuntimeError):
            assert plain.url
