"""The sink: what handlers report about their starts and ends, in a file that nothing else writes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Self

from cronflow.testing.history.history import END, Noted, noted


class Sink:
    """Listens on a port of 127.0.0.1, as an async context manager. `lines` are the reports, in their order of
    arrival; each is in the file before it is acknowledged.
    """

    def __init__(self, file: Path) -> None:
        self._path = file
        self.lines: list[Noted] = []
        self.ended = 0
        self.port = 0

    async def __aenter__(self) -> Self:
        self._file = self._path.open("a", encoding="utf-8", buffering=1)
        self._server = await asyncio.start_server(self._receive, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self._file.close()

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = (await reader.readline()).decode()
            # A handler that was killed in the middle of its report has not reported.
            if line.endswith("\n"):
                self._file.write(line)
                found = noted(line)
                self.lines.append(found)
                self.ended += found.word == END
                writer.write(b"\n")
                await writer.drain()
        except ConnectionError:
            return  # Its node was killed.
        finally:
            writer.close()
