"""Writes notifications into the outbox, each once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from cronflow.documents.notifications import MessageDetails, notification_of
from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.alerts import AlertRecord, Notification
from cronflow.domain.run import Run
from cronflow.ports import Clock, Outbox

MOST_REMEMBERED = 10_000
MILLISECOND = timedelta(milliseconds=1)


class NotificationWriter:
    """One per leader, because it also keeps the order of the notifications of an alert and job."""

    def __init__(self, outbox: Outbox, clock: Clock, namespace: str) -> None:
        self._outbox = outbox
        self._clock = clock
        self._namespace = namespace
        self._recent: dict[str, None] = {}
        self._created_at = datetime.min.replace(tzinfo=UTC)

    def about(
        self, record: AlertRecord, kind: AlertKind, run: Run, at: datetime, text: str, *, subject: str = ""
    ) -> Notification:
        """A notification about a run. The default subject is the run's id."""
        return self.make(record, kind, subject or run.id, at, text, job=run.job, run=run)

    def make(
        self,
        record: AlertRecord,
        kind: AlertKind,
        subject: str,
        at: datetime,
        text: str,
        *,
        job: str | None = None,
        run: Run | None = None,
        details: MessageDetails | None = None,
    ) -> Notification:
        # Notifications of an alert and job are delivered in the order of their creation, so no two share a millisecond.
        self._created_at = max(self._clock.now(), self._created_at + MILLISECOND)
        return notification_of(
            record,
            kind,
            subject,
            at,
            self._namespace,
            text,
            created_at=self._created_at,
            job=job,
            run=run,
            details=details,
        )

    async def put(self, notifications: Sequence[Notification]) -> None:
        """Put the notifications into the outbox that this node has not put there recently."""
        fresh = [notification for notification in notifications if notification.id not in self._recent]
        if not fresh:
            return
        await self._outbox.put(fresh)
        if len(self._recent) > MOST_REMEMBERED:
            self._recent.clear()
        self._recent |= dict.fromkeys(notification.id for notification in fresh)
