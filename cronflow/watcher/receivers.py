"""Sends the messages about findings to the receivers of the watcher's own file, without any store.

Rule: each receiver gets the messages in their order. One that does not accept a message gets it again in the next
round, for a day. A ping is sent in each round without an open finding; a service that waits for it notices when the
watcher itself dies.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import structlog

from cronflow.documents.notifications import WATCHER, message
from cronflow.domain.access import Secret
from cronflow.domain.alert_kinds import GIVE_UP_AFTER, AlertKind
from cronflow.domain.alert_receivers import WebhookFormat
from cronflow.domain.alerts import Alert, Notification
from cronflow.domain.watch import WatchMessage, WatchStage
from cronflow.ports import NotificationSender

MOST_WAITING = 100
"""Messages that wait for one receiver; older ones are dropped."""

log = structlog.get_logger("cronflow.watcher")


class GivenSecrets:
    """A SecretReader of secrets that the watcher was given, so that it needs no store to sign and to address."""

    def __init__(self, secrets: Mapping[str, Secret]) -> None:
        self._secrets = secrets

    async def get(self, names: Collection[str]) -> list[Secret]:
        return [self._secrets[name] for name in names if name in self._secrets]


class Receivers:
    """All receivers, each an alert of which only the receiver counts."""

    def __init__(self, alerts: Sequence[Alert], sender: NotificationSender, namespace: str) -> None:
        self._pinged = [alert for alert in alerts if _is_pinged(alert)]
        self._queues = {alert.name: deque[Notification]() for alert in alerts if not _is_pinged(alert)}
        self._alerts = {alert.name: alert for alert in alerts}
        self._sender = sender
        self._namespace = namespace

    async def send(self, messages: Sequence[WatchMessage], now: datetime, *, well: bool) -> None:
        """Send these messages, and what waits. `well`: no finding is open."""
        for name, queue in self._queues.items():
            queue.extend(self._notification(name, one) for one in messages)
            while len(queue) > MOST_WAITING or (queue and now - queue[0].created_at > GIVE_UP_AFTER):
                log.error("message given up", receiver=name, text=queue.popleft().subject)
        opened = [one for one in messages if one.stage is WatchStage.OPENED]
        await asyncio.gather(
            *(self._drain(name, now) for name, queue in self._queues.items() if queue),
            *(self._ping(alert, now, opened, well=well) for alert in self._pinged),
        )

    async def _drain(self, name: str, now: datetime) -> None:
        queue = self._queues[name]
        while queue:
            answer = await self._sender.send(self._alerts[name], queue[0], now)
            if not answer.taken and not answer.final:
                log.warning("message not accepted", receiver=name, reason=answer.error)
                return
            if not answer.taken:
                log.error("message refused", receiver=name, reason=answer.error)
            queue.popleft()

    async def _ping(self, alert: Alert, now: datetime, opened: Sequence[WatchMessage], *, well: bool) -> None:
        if not well and not opened:
            return
        text = "; ".join(one.text for one in opened) or "the watcher finds nothing wrong"
        kind = AlertKind.FAILED if opened else AlertKind.HEARTBEAT
        body = message("ping", alert.name, kind, now, self._namespace, text)
        ping = Notification(
            id=_id(alert.name, "ping", now),
            alert=alert.name,
            kind=kind,
            subject=text,
            job=None,
            body=body,
            created_at=now,
        )
        answer = await self._sender.send(alert, ping, now)
        if not answer.taken:
            log.warning("ping not accepted", receiver=alert.name, reason=answer.error)

    def _notification(self, alert: str, one: WatchMessage) -> Notification:
        level = "ok" if one.stage is WatchStage.CLOSED else "critical"
        name = _id(alert, f"{one.kind} {one.stage}", one.at)
        body = message(
            name,
            alert,
            WATCHER,
            one.since if one.stage is not WatchStage.CLOSED else one.at,
            self._namespace,
            one.text,
            details={"level": level, "finding": one.kind},
        )
        # The kind of its record is that of a condition that is never held back.
        return Notification(
            id=name, alert=alert, kind=AlertKind.NO_LEADER, subject=one.text, job=None, body=body, created_at=one.at
        )


def _is_pinged(alert: Alert) -> bool:
    return alert.webhook is not None and alert.webhook.format is WebhookFormat.PING


def _id(alert: str, subject: str, at: datetime) -> str:
    return "msg_" + hashlib.sha256(f"{alert}\nwatcher\n{subject}\n{at.isoformat()}".encode()).hexdigest()[:32]
