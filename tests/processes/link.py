"""A proxy between one node and one server that can drop all traffic, in the event loop of a test.

A cut is silent: connections stay open and accept data, new connections are accepted too, but nothing arrives in either
direction. This is how a broken network looks to a node; connections to a killed server would be closed instead.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

CHUNK = 65536


class Link:
    """Forwards to the server of `url`, as an async context manager."""

    def __init__(self, url: str) -> None:
        self._to = urlsplit(url)
        self._cut = False
        self._connections: set[asyncio.Task[None]] = set()
        self._port = 0

    @property
    def url(self) -> str:
        """The URL of the proxy. Without directConnection, a replica set would redirect the client around it."""
        aside = "/?directConnection=true" if self._to.scheme == "mongodb" else "/0"
        return f"{self._to.scheme}://127.0.0.1:{self._port}{aside}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        await self._end_all()

    def cut(self) -> None:
        """Drop all traffic from now on."""
        self._cut = True

    async def mend(self) -> None:
        """Forward new connections; close the old ones, which have lost data."""
        self._cut = False
        await self._end_all()

    async def _end_all(self) -> None:
        # Repeat, because a pending connection may be accepted meanwhile.
        while self._connections:
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.ensure_future(self._serve(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)
        # Also for a connection that ends before it has reached the server.
        connection.add_done_callback(lambda _: writer.close())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, questions = await asyncio.open_connection(self._to.hostname, self._to.port)
        ways = [asyncio.ensure_future(self._pass_on(*way)) for way in ((reader, questions), (answers, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Before the first await, because the task may be cancelled again.
            questions.close()
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            if not self._cut:
                writer.write(data)
                await writer.drain()
        if self._cut:
            # Do not forward the close either.
            await asyncio.get_running_loop().create_future()
