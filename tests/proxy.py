"""A TCP proxy in the event loop of a test, which can keep back what a server answers.

The rule: only the connections that stand when it is muted are concerned; a new one works. That is what a socket looks
like whose other end was lost without a word: everything can be written to it and nothing comes back.
"""

from __future__ import annotations

import asyncio
import ssl
from types import TracebackType
from typing import Self

CHUNK = 65536


class Proxy:
    """Forwards to a server, as an async context manager. `accepted` counts the connections there have been, `kept` the
    bytes of answers that are kept back. With `tls` clients speak TLS to the proxy, and it speaks plainly to the server.
    """

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._host, self._port, self._tls = host, port, tls
        self._open: set[asyncio.Event] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.accepted = self.kept = self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        # More than once: one that had come already may be taken meanwhile.
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def turn(self, port: int) -> None:
        """New connections go to another port."""
        self._port = port

    def mute(self) -> None:
        """Keep back the answers on the connections that stand."""
        for gate in self._open:
            gate.clear()

    def unmute(self) -> None:
        """Deliver what was kept back, to those who are still there."""
        for gate in self._open:
            gate.set()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Also of one that is ended before it has reached the server.
        task.add_done_callback(lambda _: writer.close())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers, questions = await asyncio.open_connection(self._host, self._port)
        except OSError:
            # The server is away; so the client sees an end.
            writer.close()
            return
        gate = asyncio.Event()
        gate.set()
        self._open.add(gate)
        ways = [
            asyncio.ensure_future(_pass_on(reader, questions)),
            asyncio.ensure_future(self._answer(answers, writer, gate)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._open.discard(gate)
            # Before anything is awaited: the proxy may be leaving, and would cancel that.
            questions.close()
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event) -> None:
        while data := await reader.read(CHUNK):
            if not gate.is_set():
                self.kept += len(data)
                await gate.wait()
            writer.write(data)
            await writer.drain()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
