"""Lines for onlookers: what runs write, published while somebody follows it.

The rules it protects: while nobody looks on, a node that writes lines asks Redis once a second and sends none; and
nothing waits for this. What is not published is in MongoDB, where onlookers find it by its number.
"""

from __future__ import annotations

from collections import deque

from cronflow.domain.errors import BackendUnavailable
from cronflow.node.role_loop import NodeRole, Wake
from cronflow.ports import Clock, LiveTail, LogLine

LINGER_S = 0.05
ASK_EVERY_S = 1.0
IDLE_S = 60.0
MOST_WAITING = 2000
MOST_AT_ONCE = 500


class LiveTailPublisher:
    """Publishes lines; `role` is to be played."""

    def __init__(self, live_tail: LiveTail, clock: Clock) -> None:
        self._live_tail = live_tail
        self._clock = clock
        self._waiting: deque[LogLine] = deque(maxlen=MOST_WAITING)
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
            await self._clock.sleep(LINGER_S)
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_AT_ONCE))]
            await self._live_tail.publish(batch)
        except BackendUnavailable:
            # A hint that is lost; who looks on reads MongoDB.
            self._nobody_until = self._clock.monotonic() + ASK_EVERY_S
            self._waiting.clear()
            return IDLE_S
        return 0.0
