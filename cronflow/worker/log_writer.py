"""The lines of runs on their way to MongoDB.

The rule it protects: nobody waits for a line longer than MongoDB answers. While it is away lines wait in memory, up to
a limit; beyond it they are dropped, and a line in their place says how many. Outcomes are never treated like this.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cronflow.domain.errors import BackendUnavailable
from cronflow.node.role_loop import NodeRole, Outages, Wake
from cronflow.ports import Clock, LiveTail, LogLine, LogStore
from cronflow.worker.group_commit import GroupCommit

LINGER_S = 0.1
MOST_WAITING = 20_000
TAIL_LINGER_S = 0.05
ASK_EVERY_S = 1.0
IDLE_S = 60.0
MOST_UNPUBLISHED = 2000
MOST_AT_ONCE = 500


class LogWriter:
    """A group commit of lines with a limit. `run` it."""

    def __init__(
        self, logs: LogStore, live_tail: LiveTail, clock: Clock, outages: Outages, *, most_waiting: int = MOST_WAITING
    ) -> None:
        self._logs = logs
        self.live_tail_publisher = LiveTailPublisher(live_tail, clock)
        self._most_waiting = most_waiting
        self._commit = GroupCommit("log lines", self._write, clock, outages, LINGER_S)
        self._gaps: dict[tuple[str, int], tuple[LogLine, int]] = {}
        self._away = asyncio.Event()

    async def run(self) -> None:
        """Store for ever; cancel it once nobody writes any more."""
        await self._commit.run()

    def put(self, line: LogLine) -> asyncio.Future[None] | None:
        """Store a line soon. None: too many are waiting already, this one is dropped."""
        self.live_tail_publisher.put(line)
        if len(self._commit) < self._most_waiting:
            return self._commit.put(line)
        first, count = self._gaps.get((line.run, line.fence), (line, 0))
        self._gaps[line.run, line.fence] = (first, count + 1)
        return None

    def hurry(self) -> None:
        """Store the waiting lines at once."""
        self._commit.hurry()

    async def stored(self, line: asyncio.Future[None]) -> None:
        """Wait until it is stored, or MongoDB turns out to be away."""
        if line.done():
            return
        away = asyncio.ensure_future(self._away.wait())
        either: set[asyncio.Future[Any]] = {line, away}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            away.cancel()

    async def _write(self, lines: Sequence[LogLine]) -> list[None]:
        try:
            await self._logs.append(lines)
        except BackendUnavailable:
            self._away.set()
            raise
        self._away.clear()
        gaps, self._gaps = self._gaps, {}
        for first, count in gaps.values():
            # At the place of the first line that is missing, so that it reads in order.
            self._commit.put(replace(first, level="warn", text=f"{count:,} lines were dropped: MongoDB was away"))
        return [None] * len(lines)


class LiveTailPublisher:
    """Publishes lines; `role` is to be played."""

    def __init__(self, live_tail: LiveTail, clock: Clock) -> None:
        self._live_tail = live_tail
        self._clock = clock
        self._waiting: deque[LogLine] = deque(maxlen=MOST_UNPUBLISHED)
        self._nobody_until = -1.0
        self.role = NodeRole("onlookers", self.step, Wake())

    def put(self, line: LogLine) -> None:
        """A run has written a line."""
        if self._clock.monotonic() < self._nobody_until:
            return
        if not self._waiting:
            self.role.wake.set()
        self._waiting.append(line)

    async def step(self) -> float:
        """Publish what there is, or find out that nobody wants it."""
        if not self._waiting:
            return IDLE_S
        try:
            if not await self._live_tail.has_viewer():
                self._nobody_until = self._clock.monotonic() + ASK_EVERY_S
                self._waiting.clear()
                return IDLE_S
            await self._clock.sleep(TAIL_LINGER_S)
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_AT_ONCE))]
            await self._live_tail.publish(batch)
        except BackendUnavailable:
            # A hint that is lost; who looks on reads MongoDB.
            self._nobody_until = self._clock.monotonic() + ASK_EVERY_S
            self._waiting.clear()
            return IDLE_S
        return 0.0
