"""The spool: outcomes on the local disk while MongoDB does not take them.

The rules it protects: an outcome is given up by its worker only once it is on the disk; outcomes are replayed in the
order in which they came; each is removed only once MongoDB has acknowledged it. Only the loss of the disk loses one.

What it does not do: it neither decides when an outcome goes to the spool nor replays it; that is the recorder's. A disk
that does not take an outcome is an outage like any other (BackendUnavailable), told once by the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import structlog

from cronflow.domain.cluster import Backlog
from cronflow.domain.errors import BackendUnavailable, Conflict
from cronflow.ports import Clock
from cronflow.worker import finish as texts
from cronflow.worker.finish import Finish
from cronflow.worker.spool_segments import SEGMENT_BYTES, Segments

MOST_BYTES = 512 * 1024 * 1024
MOST_RECORDS = 200_000
LOCK_PATIENCE_S = 10.0
LOCK_POLL_S = 0.25
SERVICE = "the spool"

log = structlog.get_logger("cronflow.node")


class Offload(Protocol):
    """Runs what blocks somewhere else than in the event loop."""

    def __call__(self, act: Callable[..., Any], /, *args: Any) -> Awaitable[Any]:
        """As `asyncio.to_thread`."""


class Spool:
    """The spool of one node, in a folder that no other process uses. An async context manager.

    Entering raises Conflict when another process keeps the folder. A folder that cannot be used otherwise is told of
    and tried again with each outcome.
    """

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        *,
        most_bytes: int = MOST_BYTES,
        most_records: int = MOST_RECORDS,
        segment_bytes: int = SEGMENT_BYTES,
        offload: Offload = asyncio.to_thread,
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._most_bytes = most_bytes
        self._most_records = most_records
        self._offload = offload
        self._segments = Segments(folder, segment_bytes=segment_bytes)
        self._since: datetime | None = None

    async def __aenter__(self) -> Self:
        deadline = self._clock.monotonic() + LOCK_PATIENCE_S
        while True:
            try:
                await self._offload(self._segments.open)
            except BlockingIOError:
                # Its last owner may be about to end, or a neighbour may be looking into it.
                if self._clock.monotonic() >= deadline:
                    raise Conflict(f"another process uses the spool in {self._folder}") from None
                await self._clock.sleep(LOCK_POLL_S)
            except OSError as error:
                log.error(
                    "spool not usable",
                    folder=str(self._folder),
                    reason=error.strerror,
                    remedy="set SPOOL_DIR to a folder that this process may write",
                )
                break
            else:
                break
        if self.pending:
            log.warning("spool found", folder=str(self._folder), outcomes=self.pending)
            oldest = await self.read(1)
            self._since = oldest[0].late.at if oldest else self._clock.now()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._offload(self._segments.close)

    @property
    def pending(self) -> int:
        """How many outcomes wait here for MongoDB."""
        return self._segments.lines

    @property
    def backlog(self) -> Backlog:
        """The same, with its size and age. May be read from any thread."""
        return Backlog(self._segments.lines, self._segments.bytes, self._since)

    @property
    def full(self) -> bool:
        """Whether nothing more should be begun. What runs already is still taken when it ends."""
        return self._segments.lines >= self._most_records or self._segments.bytes >= self._most_bytes

    async def append(self, finishes: Sequence[Finish]) -> None:
        """Keep these. They are on the disk when this returns. Raises BackendUnavailable; then none is kept."""
        lines = [texts.to_text(finish) for finish in finishes]

        def keep() -> None:
            self._segments.open()
            self._segments.append(lines)

        await self._carefully(keep)
        self._since = self._since or finishes[0].late.at

    async def read(self, most: int) -> list[Finish]:
        """The oldest that are kept; fewer than there are, none if only damaged ones were found. Raises
        BackendUnavailable.
        """
        found = []
        for line in await self._carefully(self._segments.read, most):
            try:
                found.append(texts.from_text(line))
            except (ValueError, KeyError, TypeError) as error:
                await self._carefully(self._segments.set_aside, line, f"it cannot be read: {error!r}")
        return found

    async def acknowledge(self) -> None:
        """MongoDB has what `read` returned last. Raises BackendUnavailable."""
        await self._carefully(self._segments.acknowledge)
        if not self.pending:
            self._since = None

    async def set_aside(self, finish: Finish, why: str) -> None:
        """Keep it for people: it would stand in the way of all others for ever. Raises BackendUnavailable."""
        await self._carefully(self._segments.set_aside, texts.to_text(finish), why)

    async def _carefully(self, act: Callable[..., Any], *args: object) -> Any:
        try:
            return await self._offload(act, *args)
        except OSError as error:
            raise BackendUnavailable(SERVICE, str(self._folder), error.strerror or repr(error)) from error
