"""The log of one attempt: its first and its last lines, and the exact number of those in between.

Rules: lines are stored as they are written, up to the limit. Beyond it the newest ones wait in memory and are stored
when the attempt ends; then those in between are deleted, and one line in their place has their number. Memory is
bounded, whatever the attempt writes. A live tail gets every line.
"""

from __future__ import annotations

import asyncio
from collections import deque
from datetime import UTC, datetime
from functools import partial

from cronflow.domain.storable import storable_text
from cronflow.ports import Assignment, Clock, LogLine
from cronflow.worker.log_writer import LogWriter

LINES_PER_RUN = 10_000
LONGEST_LINE = 8 * 1024
"""In characters."""
MOST_TEXT = 4 * 1024 * 1024
"""In characters: of the lines stored as they are written, and of those in memory."""
AT_ONCE = 1000
NOT_READ = datetime.min.replace(tzinfo=UTC)


class AttemptLog:
    """The log of the attempt on the node `node`. Of `limit` lines, the first fifth are the first ones."""

    def __init__(self, writer: LogWriter, assignment: Assignment, node: str, clock: Clock, limit: int) -> None:
        self._writer = writer
        self._run, self._fence = assignment.run, assignment.fence
        self._line = partial(
            LogLine,
            run=assignment.run,
            job=assignment.job.name,
            fence=assignment.fence,
            attempt=assignment.attempt,
            node=node,
        )
        self._clock = clock
        self._at, self._read_at = NOT_READ, -1.0
        self._limit = limit
        self._most_last = limit - limit // 5
        self._count = self._stored = self._stored_text = self._last_text = 0
        self._last: deque[LogLine] = deque()
        self.last_stored: asyncio.Future[None] | None = None

    def add(self, level: str, text: str) -> None:
        if len(text) > LONGEST_LINE:
            text = f"{text[:LONGEST_LINE]}… ({len(text) - LONGEST_LINE:,} characters were cut)"
        line = self._line(n=self._count, at=self._now(), level=level, text=storable_text(text))
        self._count += 1
        self._writer.publish(line)
        if line.n == self._stored < self._limit and self._stored_text + len(text) <= MOST_TEXT:
            self._stored += 1
            self._stored_text += len(text)
            self._store(line)
            return
        self._last.append(line)
        self._last_text += len(text)
        while len(self._last) > self._most_last or self._last_text > MOST_TEXT:
            self._last_text -= len(self._last.popleft().text)

    async def end(self) -> None:
        """Store the last lines, and the number of those that were left out. Does not wait while MongoDB is away."""
        if not self._last:
            return
        first, until = min(self._limit // 5, self._stored), self._count - self._most_last
        if (evicted := self._last[0].n) > self._stored:
            until = evicted
        if until > first:
            self._writer.remove(self._run, self._fence, first, until)
            last = self._count - until
            text = f"{until - first:,} lines were left out here; the first {first:,} and the last {last:,} are kept"
            # The last number of the gap: a client that follows the run has seen some of the earlier ones.
            self._store(self._line(n=until - 1, at=self._now(), level="warn", text=text))
        for place, line in enumerate(self._last):
            if line.n >= until:
                self._store(line)
            if place % AT_ONCE == AT_ONCE - 1 and self.last_stored is not None:
                self._writer.hurry()
                await self._writer.stored(self.last_stored)
        self._last.clear()

    def _now(self) -> datetime:
        """The cluster's time, read once a millisecond: a flood of lines must not occupy the event loop."""
        if (now := self._clock.monotonic()) - self._read_at >= 0.001:
            self._at, self._read_at = self._clock.now(), now
        return self._at

    def _store(self, line: LogLine) -> None:
        self.last_stored = self._writer.store(line) or self.last_stored
