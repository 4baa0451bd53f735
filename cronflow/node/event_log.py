"""The journal: where a process tells its events, and how they reach MongoDB and whoever looks on.

The rules it protects: telling never blocks and never fails what it tells of; what is too many is dropped, counted, and
told as an event of its own. A batch is published once, at once, as far as Redis carries it, and kept in MongoDB, which
is asked again until it has it.
"""

from __future__ import annotations

import secrets
import threading
from collections import deque

import orjson
import structlog

from cronflow.domain import metrics
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.events import Event, EventsDropped, RecordedEvent, event_id
from cronflow.node.role_loop import NodeRole, Wake
from cronflow.ports import UNMETERED, Clock, EventStore, Feed, Meter
from cronflow.schemas.stream import event_schema

LINGER_S = 0.2
IDLE_S = 60.0
MOST_WAITING = 200
MOST_AT_ONCE = 50

log = structlog.get_logger("cronflow.node")


class EventLog:
    """The events of one process, whose name is `source`. `emit` is the Tell port; `role` is to be played. A node sets
    `clock` to the cluster's.
    """

    def __init__(
        self,
        events: EventStore,
        feed: Feed,
        clock: Clock,
        source: str,
        *,
        most_waiting: int = MOST_WAITING,
        meter: Meter = UNMETERED,
    ) -> None:
        self._events, self._feed = events, feed
        self.clock = clock
        self._source = source
        self._most_waiting = most_waiting
        self._meter = meter
        self._waiting: deque[RecordedEvent] = deque()
        self._batch: list[RecordedEvent] = []
        self._dropped = 0
        self._count = 0
        self._token = secrets.token_hex(4)
        self._lock = threading.Lock()
        self.role = NodeRole("events", self.step, Wake())

    def emit(self, event: Event) -> None:
        """Take an event."""
        # Those that are dropped below have happened too.
        self._meter.add(metrics.EVENTS, event.kind)
        with self._lock:
            if len(self._waiting) >= self._most_waiting:
                self._dropped += 1
                return
            self._waiting.append(self._happened(event))
        self.role.wake.set()

    async def step(self) -> float:
        """Linger for what belongs together, then write it."""
        if not (self._waiting or self._batch):
            return IDLE_S
        await self.clock.sleep(LINGER_S)
        await self._write()
        return 0.0 if self._waiting else IDLE_S

    async def flush(self) -> None:
        """Write what there is, as far as MongoDB allows, because the process ends. Never raises BackendUnavailable."""
        try:
            while self._waiting or self._batch:
                await self._write()
        except BackendUnavailable as error:
            log.warning("events not kept", count=len(self._waiting) + len(self._batch), reason=error.reason)

    async def _write(self) -> None:
        if not self._batch:
            self._batch = self._take()
            await self._publish(self._batch)
        await self._events.append(self._batch)
        self._batch = []

    def _take(self) -> list[RecordedEvent]:
        with self._lock:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_AT_ONCE))]
            if self._dropped:
                batch.append(self._happened(EventsDropped(self._dropped)))
                self._dropped = 0
        return batch

    async def _publish(self, batch: list[RecordedEvent]) -> None:
        try:
            await self._feed.event(orjson.dumps([event_schema(happened) for happened in batch]))
        except BackendUnavailable:
            # Whoever looks on sees that Redis is away; the events are in MongoDB.
            return

    def _happened(self, event: Event) -> RecordedEvent:
        at = self.clock.now()
        # The count keeps the order of what one process tells within a microsecond.
        self._count += 1
        return RecordedEvent(event_id(at, f"{self._count % 0x10000:04x}{self._token}"), at, self._source, event)
