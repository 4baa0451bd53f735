"""The messages for one socket: ticks from the shared ring, and log lines of its topics.

A slow client costs a bounded amount of memory and delays no other client. It holds a position in the ring, not copies
of ticks. If it falls too far behind, it skips to the newest tick and learns how many it missed. Lines are buffered up
to a limit; beyond it they are dropped, and a gap gives their number.

For a client that asks for it, messages that are the same for all sockets are compressed; they are shared, so it costs
nothing per socket. Messages with log lines are not.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

import orjson

from cronflow.domain import metrics

if TYPE_CHECKING:
    from cronflow.live.hub import Hub

MOST_BEHIND = 10
MOST_LINES = 5000


class StreamSession:
    """One socket. `next` waits for the next message to send."""

    def __init__(self, hub: Hub, since: str | None, *, compressed: bool = False) -> None:
        self._hub = hub
        self._compressed = compressed
        self._generation = hub.generation
        self._place = hub.place_after(since)
        self._catching_up = True
        self._messages: deque[str] = deque()
        self._chunks: deque[tuple[str, str, int]] = deque()
        self._lines = 0
        self._gaps: dict[str, int | None] = {}
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """Check for messages to send."""
        self._changed.set()

    def send(self, message: object) -> None:
        """Send a message between the ticks."""
        self._messages.append(orjson.dumps(message).decode())
        self.wake()

    def lines(self, topic: str, chunk: str, count: int) -> None:
        """Add lines of a topic to the next tick; `chunk` is their JSON."""
        # After a gap, drop lines until the gap is sent, to keep them in order.
        if topic in self._gaps or self._lines + count > MOST_LINES:
            missed = self._gaps.get(topic, 0)
            self._gaps[topic] = None if missed is None else missed + count
            return
        self._chunks.append((topic, chunk, count))
        self._lines += count

    async def next(self) -> str | bytes:
        """The next message; bytes are compressed."""
        while True:
            found = self._ready()
            if found is not None:
                return found
            self._changed.clear()
            await self._changed.wait()

    def _ready(self) -> str | bytes | None:
        hub = self._hub
        if self._messages:
            return self._messages.popleft()
        if self._generation != hub.generation or (self._place is not None and self._place < hub.oldest):
            self._generation, self._place = hub.generation, None
        if self._place is None:
            if not hub.ticks:
                return None
            self._place = hub.end
            snapshot = hub.snapshot_message()
            return snapshot.compressed if self._compressed else snapshot.text
        if self._place >= hub.end:
            self._catching_up = False
            return None
        dropped = 0
        # A reconnecting client replays what is still buffered; a slow client skips ahead.
        if not self._catching_up and hub.end - self._place > MOST_BEHIND:
            dropped = hub.end - self._place - 1
            self._place += dropped
            hub.meter.add(metrics.STREAM_DROPPED, by=dropped)
        tick = hub.tick_at(self._place)
        self._place += 1
        lines = self._take_lines()
        if self._compressed and not lines and not dropped:
            return tick.compressed
        return tick.message(lines, dropped)

    def _take_lines(self) -> list[str]:
        found = [chunk for _, chunk, _ in self._chunks]
        found += [gap_chunk(topic, missed) for topic, missed in self._gaps.items()]
        self._chunks.clear()
        self._gaps.clear()
        self._lines = 0
        return found


def gap_chunk(topic: str, missed: int | None) -> str:
    """A gap in the lines of a topic; None: the number is unknown."""
    return orjson.dumps({"topic": topic, "gap": missed, "lines": []}).decode()
