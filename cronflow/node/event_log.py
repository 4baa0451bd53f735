"""The event log: writes the events of a process to MongoDB and publishes them through Redis.

Rules: `emit` never blocks and never fails its caller. Events beyond the limit are dropped, and an event reports their
number. A batch is published once, if Redis is available, and written to MongoDB, which is retried until it succeeds.
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
    """The events of one process, whose name is `source`. `emit` is an EventSink. Run its `role`. A node sets `clock` to
    the cluster clock.
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
        # Counted before the limit: dropped events have happened too.
        self._meter.add(metrics.EVENTS, event.kind)
        with self._lock:
            if len(self._waiting) >= self._most_waiting:
                self._dropped += 1
                return
            self._waiting.append(self._recorded(event))
        self.role.wake.set()

    async def step(self) -> float:
        """Collect events for a moment, then write them as one batch."""
        if not (self._waiting or self._batch):
            return IDLE_S
        await self.clock.sleep(LINGER_S)
        await self._write()
        return 0.0 if self._waiting else IDLE_S

    async def flush(self) -> None:
        """Write the waiting events when the process ends. Never raises BackendUnavailable."""
        try:
            while self._waiting or self._batch:
                await self._write()
        except BackendUnavailable as error:
            log.warning("events lost", count=len(self._waiting) + len(self._batch), reason=error.reason)

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
                batch.append(self._recorded(EventsDropped(self._dropped)))
                self._dropped = 0
        return batch

    async def _publish(self, batch: list[RecordedEvent]) -> None:
        try:
            await self._feed.event(orjson.dumps([event_schema(recorded) for recorded in batch]))
        except BackendUnavailable:
            # Live views show that Redis is unavailable; the events go to MongoDB.
            return

    def _recorded(self, event: Event) -> RecordedEvent:
        at = self.clock.now()
        # The count keeps the order of events within one microsecond.
        self._count += 1
        return RecordedEvent(event_id(at, f"{self._count % 0x10000:04x}{self._token}"), at, self._source, event)
