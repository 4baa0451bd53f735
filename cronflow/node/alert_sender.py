"""Sends the notifications in the outbox: on the leader, or on any node while there is no leader.

Rules: a notification is claimed before it is sent, and the claim expires, so after a crash another node sends the same
id again. The result of an attempt counts only under the claim that it was made with. A failing receiver is skipped for
a while, so that it does not delay other alerts.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from cronflow.domain import metrics
from cronflow.domain.alert_kinds import SIGNS_OF_LIFE
from cronflow.domain.alerts import Notification, NotificationState, next_delay
from cronflow.domain.events import AlertGaveUp
from cronflow.node.role_loop import NodeRole, Wake
from cronflow.ports import UNMETERED, AlertStore, Clock, EventSink, Meter, NotificationSender, Outbox, StoreAdmin

LEASE = timedelta(seconds=30)
"""Longer than an attempt takes."""
AT_ONCE = 16
REST_S = 10.0
IDLE_S = 60.0
DISABLED = "the alert is disabled"

log = structlog.get_logger("cronflow.node")


class AlertSender:
    """Run its `role`. It reads the outbox only after `ask`."""

    def __init__(
        self,
        outbox: Outbox,
        alerts: AlertStore,
        store_admin: StoreAdmin,
        notifier: NotificationSender,
        clock: Clock,
        emit: EventSink,
        meter: Meter = UNMETERED,
    ) -> None:
        self._outbox, self._alerts, self._store_admin = outbox, alerts, store_admin
        self._notifier = notifier
        self._clock = clock
        self._emit = emit
        self._meter = meter
        self._asked = False
        self._resting: dict[str, float] = {}
        self.role = NodeRole("alert sender", self.step, Wake())

    def ask(self) -> None:
        """There may be notifications to send."""
        self._asked = True
        self.role.wake.set()

    async def step(self) -> float:
        """Send the due notifications, up to `AT_ONCE` at a time."""
        if not self._asked:
            return IDLE_S
        self._asked = False
        while notifications := await self._claim():
            # By MongoDB's clock: this node's own may be wrong, which would explain a missing leader.
            at = await self._store_admin.time()
            results = await asyncio.gather(
                *(self._send(notification, at) for notification in notifications), return_exceptions=True
            )
            # Raised after all have ended, so that a failure of MongoDB interrupts no other attempt.
            for error in results:
                if isinstance(error, BaseException):
                    raise error
        return IDLE_S

    async def _claim(self) -> list[Notification]:
        now = self._clock.monotonic()
        self._resting = {alert: until for alert, until in self._resting.items() if until > now}
        resting: Collection[str] = self._resting.keys()
        return await self._outbox.claim(secrets.token_hex(8), LEASE, AT_ONCE, excluding=resting)

    async def _send(self, notification: Notification, at: datetime) -> None:
        record = await self._alerts.get(notification.alert)
        if record is None:
            await self._outbox.forget(notification)
            return
        if not record.alert.enabled:
            dropped = replace(notification, state=NotificationState.GAVE_UP, error=DISABLED, tried_at=at, ended_at=at)
            await self._outbox.record_attempt(dropped, None)
            return
        answer = await self._notifier.send(record.alert, notification, at)
        tried = replace(notification, status=answer.status, error=answer.error, tried_at=at)
        if answer.taken:
            if answer.partly:
                log.warning("notification not accepted for all", alert=notification.alert, reason=answer.error)
            self._meter.add(metrics.NOTICES, "delivered")
            await self._outbox.record_attempt(replace(tried, state=NotificationState.DELIVERED, ended_at=at), None)
            return
        self._resting[notification.alert] = self._clock.monotonic() + REST_S
        delay = (
            None if answer.final else next_delay(notification.attempts, notification.created_at, at, notification.kind)
        )
        self._meter.add(metrics.NOTICES, "gave_up" if delay is None else "failed")
        log.warning(
            "notification not accepted", alert=notification.alert, notification=notification.id, reason=answer.error
        )
        if delay is not None:
            await self._outbox.record_attempt(tried, delay)
        elif (
            await self._outbox.record_attempt(replace(tried, state=NotificationState.GAVE_UP, ended_at=at), None)
            and notification.kind not in SIGNS_OF_LIFE
        ):
            self._emit(AlertGaveUp(notification.alert, notification.subject, notification.attempts, answer.error or ""))
