"""A TCP proxy in the event loop that breaks the network between a client and a server.

What it can do, alone or together:

* `cut`: a silent partition. Connections stay open and accept data, also new ones, but nothing arrives in either
  direction. A killed server would close them instead.
* `mute`: half-open connections. What the server answers on the connections of this moment is kept back; a new
  connection works. So looks a connection whose other end was lost without a word.
* `drop_replies`: requests arrive and are executed; their answers never come, and the connection is reset instead.
* `refuse`: every connection is reset, and so is each new one.
* `delay_s`: each chunk arrives later, in both directions.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Self
from urllib.parse import SplitResult, urlsplit

CHUNK = 65536
RESET_ON_CLOSE = struct.pack("ii", 1, 0)

Replies = Callable[[asyncio.StreamReader], AsyncIterator[bytes]]
"""Reads what a server sends, in pieces that may be changed."""


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while data := await reader.read(CHUNK):
        yield data


class TcpProxy:
    """Forwards to a server, as an async context manager. With `tls` clients speak TLS to the proxy, and it speaks
    plainly to the server. `replies` may change what the server sends.

    `accepted` counts the connections so far, `kept` the bytes of answers that were kept back by `mute`.
    """

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None = None, *, replies: Replies = _chunks) -> None:
        self._host, self._port, self._tls = host, port, tls
        self._replies = replies
        self._to: SplitResult | None = None
        self._cut = self._refusing = self._dropping_replies = False
        self._gates: set[asyncio.Event] = set()
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self.accepted = self.kept = self.port = 0
        self.delay_s = 0.0

    @classmethod
    def to(cls, url: str) -> Self:
        """A proxy to the server of a URL, with a `url` of its own."""
        to = urlsplit(url)
        found = cls(to.hostname or "127.0.0.1", to.port or 0)
        found._to = to
        return found

    @property
    def url(self) -> str:
        """The URL of a server behind a proxy that was made by `to`; RuntimeError for any other."""
        if self._to is None:
            raise RuntimeError("this proxy was made without a URL")
        credentials, at, _ = self._to.netloc.rpartition("@")
        # Without directConnection, a replica set would redirect the client around the proxy.
        path = "/?directConnection=true" if self._to.scheme == "mongodb" else "/0"
        return f"{self._to.scheme}://{credentials}{at}127.0.0.1:{self.port}{path}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        await self._end_all()

    def redirect(self, port: int) -> None:
        """Forward new connections to another port."""
        self._port = port

    def mute(self) -> None:
        """Keep back the answers on the present connections."""
        for gate in self._gates:
            gate.clear()

    def unmute(self) -> None:
        """Deliver what was kept back, on the connections that still exist."""
        for gate in self._gates:
            gate.set()

    def cut(self) -> None:
        """Drop all traffic from now on."""
        self._cut = True

    def refuse(self) -> None:
        """Reset all connections, and each new one."""
        self._refusing = True
        self.reset()

    def drop_replies(self) -> None:
        """From now on, drop each answer and reset its connection."""
        self._dropping_replies = True

    def reset(self) -> None:
        """Reset the present connections."""
        for writer in self._connections.values():
            _abort(writer)

    async def mend(self) -> None:
        """Forward new connections as at first; close the old ones, which may have lost data."""
        broken = self._cut or self._refusing or self._dropping_replies
        self._cut = self._refusing = self._dropping_replies = False
        self.delay_s = 0.0
        self.unmute()
        if broken:
            await self._end_all()

    async def _end_all(self) -> None:
        # Repeat, because a pending connection may be accepted meanwhile.
        while self._connections:
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        if self._refusing:
            _abort(writer)
            return
        connection = asyncio.ensure_future(self._serve(reader, writer))
        self._connections[connection] = writer
        connection.add_done_callback(self._connections.pop)
        # Also for a connection that ends before it has reached the server.
        connection.add_done_callback(lambda _: writer.close())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers, questions = await asyncio.open_connection(self._host, self._port)
        except OSError:
            # The server is away: the client sees a closed connection.
            writer.close()
            return
        gate = asyncio.Event()
        gate.set()
        self._gates.add(gate)
        ways = [
            asyncio.ensure_future(self._ask(reader, questions)),
            asyncio.ensure_future(self._answer(answers, writer, gate)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._gates.discard(gate)
            # Before the first await, because the task may be cancelled again.
            questions.close()
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            await self._pass_on(data, writer)
        await self._closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event) -> None:
        async for data in self._replies(reader):
            if self._dropping_replies:
                _abort(writer)
                return
            if not gate.is_set():
                self.kept += len(data)
                await gate.wait()
            await self._pass_on(data, writer)
        await self._closed()

    async def _pass_on(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        if not self._cut:
            writer.write(data)
            await writer.drain()

    async def _closed(self) -> None:
        """One end has closed the connection. A partition does not forward that either."""
        if self._cut:
            await asyncio.get_running_loop().create_future()


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close a connection with a reset instead of a proper end."""
    end: socket.socket | None = writer.get_extra_info("socket")
    if end is not None and end.fileno() != -1:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    writer.transport.abort()
