"""Writes the log lines of runs to MongoDB and publishes them to live tails.

Rule: no attempt waits for its lines while MongoDB is unavailable. Lines then wait in memory up to a limit; beyond it
they are dropped, and one line in their place reports the number. Outcomes are never dropped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

import structlog

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

log = structlog.get_logger("cronflow.node")


class _Removal(NamedTuple):
    run: str
    fence: int
    first: int
    end: int


class LogWriter:
    def __init__(
        self, logs: LogStore, live_tail: LiveTail, clock: Clock, outages: Outages, *, most_waiting: int = MOST_WAITING
    ) -> None:
        self._logs = logs
        self.live_tail_publisher = LiveTailPublisher(live_tail, clock)
        self._most_waiting = most_waiting
        self._commit: GroupCommit[LogLine | _Removal, None] = GroupCommit(
            "log lines", self._write, clock, outages, LINGER_S
        )
        self._gaps: dict[tuple[str, int], tuple[LogLine, int]] = {}
        self._away = asyncio.Event()

    async def run(self) -> None:
        """Write lines until cancelled."""
        await self._commit.run()

    def publish(self, line: LogLine) -> None:
        """Send the line to live tails, without storing it."""
        self.live_tail_publisher.put(line)

    def store(self, line: LogLine) -> asyncio.Future[None] | None:
        """Queue a line. Returns None when too many are waiting and the line is dropped."""
        if len(self._commit) < self._most_waiting:
            return self._commit.put(line)
        first, count = self._gaps.get((line.run, line.fence), (line, 0))
        self._gaps[line.run, line.fence] = (first, count + 1)
        return None

    def remove(self, run: str, fence: int, first: int, end: int) -> None:
        """Delete the lines of the attempt from number `first` to before `end`, after those queued before."""
        self._commit.put(_Removal(run, fence, first, end))

    def hurry(self) -> None:
        self._commit.hurry()

    async def stored(self, line: asyncio.Future[None]) -> None:
        """Wait until the line is stored, or MongoDB turns out to be unavailable."""
        if line.done():
            return
        away = asyncio.ensure_future(self._away.wait())
        either: set[asyncio.Future[Any]] = {line, away}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            away.cancel()

    async def _write(self, items: Sequence[LogLine | _Removal]) -> list[None]:
        try:
            for removes, group in groupby(items, lambda item: isinstance(item, _Removal)):
                if removes:
                    for removal in group:
                        assert isinstance(removal, _Removal)
                        await self._logs.remove(removal.run, removal.fence, removal.first, removal.end)
                else:
                    await self._logs.append([line for line in group if isinstance(line, LogLine)])
        except BackendUnavailable:
            self._away.set()
            raise
        except Exception:
            # MongoDB refuses one of them for good. Raised here, it would end the node.
            log.exception("log lines refused", lines=len(items))
        self._away.clear()
        gaps, self._gaps = self._gaps, {}
        for first, count in gaps.values():
            # At the position of the first missing line, so that the log reads in order.
            self._commit.put(replace(first, level="warn", text=f"{count:,} lines were dropped: MongoDB was away"))
        return [None] * len(items)


class LiveTailPublisher:
    """Publishes new lines while somebody follows a live tail. Run its `role`."""

    def __init__(self, live_tail: LiveTail, clock: Clock) -> None:
        self._live_tail = live_tail
        self._clock = clock
        self._waiting: deque[LogLine] = deque(maxlen=MOST_UNPUBLISHED)
        self._unwanted_until = -1.0
        self.role = NodeRole("live tail", self.step, Wake())

    def put(self, line: LogLine) -> None:
        if self._clock.monotonic() < self._unwanted_until:
            return
        if not self._waiting:
            self.role.wake.set()
        self._waiting.append(line)

    async def step(self) -> float:
        if not self._waiting:
            return IDLE_S
        try:
            if not await self._live_tail.has_viewer():
                self._unwanted_until = self._clock.monotonic() + ASK_EVERY_S
                self._waiting.clear()
                return IDLE_S
            await self._clock.sleep(TAIL_LINGER_S)
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_AT_ONCE))]
            await self._live_tail.publish(batch)
        except BackendUnavailable:
            # Live lines are a hint: a tail reads the missing ones from MongoDB.
            self._unwanted_until = self._clock.monotonic() + ASK_EVERY_S
            self._waiting.clear()
            return IDLE_S
        return 0.0
