"""Alerts on lost nodes, and on runs that a named limit keeps waiting.

Rules: a lost node is reported from its event, which the node monitor emits once; the id of the event is the subject. A
wait for a limit is reported once per run and limit. Without such alerts nothing is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from cronflow.documents.notifications import limit_wait_text, node_lost_text
from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.alerts import AlertRecord, Notification
from cronflow.domain.events import NodeLost, kind_of
from cronflow.leader.notification_writer import NotificationWriter
from cronflow.ports import Clock, EventStore, LimitStore

MOST_EVENTS = 100
MOST_WAITERS = 100
NOT_OLDER = timedelta(hours=24)


class ClusterConditions:
    def __init__(self, events: EventStore, limits: LimitStore, writer: NotificationWriter, clock: Clock) -> None:
        self._events, self._limits, self._writer = events, limits, writer
        self._clock = clock

    async def look(self, records: Sequence[AlertRecord]) -> None:
        """Evaluate the alerts that have one of these kinds."""
        await self._nodes([record for record in records if record.alert.wants(AlertKind.NODE_LOST)])
        await self._waits([record for record in records if record.alert.wants(AlertKind.LIMIT_WAIT)])

    async def _nodes(self, records: Sequence[AlertRecord]) -> None:
        if not records:
            return
        since = max(min(record.since for record in records), self._clock.now() - NOT_OLDER)
        found = await self._events.find(kinds={kind_of(NodeLost)}, since=since, limit=MOST_EVENTS)
        notifications: list[Notification] = []
        for recorded in reversed(found):
            event = recorded.event
            if not isinstance(event, NodeLost):
                continue
            text = node_lost_text(event.node, event.in_flight)
            subject = f"{event.node} {recorded.id}"
            notifications += [
                self._writer.make(record, AlertKind.NODE_LOST, subject, recorded.at, text, details={"node": event.node})
                for record in records
                if recorded.at >= record.since
            ]
        await self._writer.put(notifications)

    async def _waits(self, records: Sequence[AlertRecord]) -> None:
        if not records:
            return
        now = self._clock.now()
        notifications: list[Notification] = []
        for state in await self._limits.named():
            for waiter in await self._limits.waiting(state.id, MOST_WAITERS):
                job = waiter.run.partition("@")[0]
                notifications += [
                    self._writer.make(
                        record,
                        AlertKind.LIMIT_WAIT,
                        f"{waiter.run} {state.id}",
                        now,
                        limit_wait_text(waiter.run, state.name, waiter.since),
                        job=job,
                        details={"limit": state.name},
                    )
                    for record in records
                    if record.alert.concerns(job) and waiter.since <= now - record.alert.limit_wait_after
                ]
        await self._writer.put(notifications)
