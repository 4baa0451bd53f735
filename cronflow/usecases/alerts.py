"""Alerts, for those who manage them. Every change has its entry in the audit log."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Literal

from cronflow.documents.alerts import alert_document
from cronflow.documents.messages import TEST, message
from cronflow.domain.alerts import Alert, AlertRecord, Answer, Notification, begins_anew
from cronflow.domain.errors import Conflict, InvalidInput, NotFound, Problem
from cronflow.ports import Backends, Clock, WebhookSender
from cronflow.usecases.audit import Auditor, Changed

MOST_ALERTS = 500

Result = Literal["created", "changed", "unchanged"]


class AlertRules:
    """Defining, deleting and trying out alerts. `webhook_sender` None: nothing can be sent from here."""

    def __init__(self, backends: Backends, clock: Clock, webhook_sender: WebhookSender | None, namespace: str) -> None:
        self._alerts = backends.alerts
        self._outbox = backends.outbox
        self._clock = clock
        self._postman = webhook_sender
        self._namespace = namespace
        self._auditor = Auditor(backends.audit, clock)

    async def find(self, *, after: str = "", limit: int = 500) -> list[AlertRecord]:
        """By name, those behind `after`."""
        return await self._alerts.find(after=after, limit=limit)

    async def get(self, name: str) -> AlertRecord:
        """Raises NotFound."""
        found = await self._alerts.get(name)
        if found is None:
            raise NotFound("alert", name)
        return found

    async def notifications(
        self, name: str, *, before: tuple[datetime, str] | None = None, limit: int = 100
    ) -> list[Notification]:
        """What it had to tell, the newest first; `before` is the (created_at, id) of the last one of the page before.
        Raises NotFound.
        """
        await self.get(name)
        return await self._outbox.of(name, before=before, limit=limit)

    async def create(self, alert: Alert, *, by: str = "") -> AlertRecord:
        """Raises Conflict when the name exists, InvalidInput when there are too many."""
        if len(await self._alerts.find(limit=MOST_ALERTS)) >= MOST_ALERTS:
            raise InvalidInput(Problem("", f"there are {MOST_ALERTS} alerts already", "delete one first"))
        now = self._clock.now()
        record = AlertRecord(alert=alert, since=now, judged=now, created_at=now, updated_at=now, updated_by=by)
        if not await self._alerts.create(record):
            raise Conflict(f"there is an alert {alert.name!r} already")
        await self._auditor.record(by, Changed("alert.create", f"alert:{alert.name}", None, _facts(alert)))
        return record

    async def define(self, alert: Alert, *, by: str = "") -> tuple[AlertRecord, Result]:
        """Create it, or put it in the place of the one of this name. Returns it, and what was done. What it did not
        tell of before it tells of from now on. Raises InvalidInput; Conflict when somebody else changes it meanwhile.
        """
        before = await self._alerts.get(alert.name)
        if before is None:
            return await self.create(alert, by=by), "created"
        if before.alert == alert:
            return before, "unchanged"
        now = self._clock.now()
        after = replace(before, alert=alert, updated_at=now, updated_by=by)
        if begins_anew(before.alert, alert):
            after = replace(after, since=now, judged=now)
        if not await self._alerts.replace(after, before.rev):
            raise Conflict(f"the alert {alert.name!r} was changed by somebody else; look again")
        facts = _facts(before.alert), _facts(alert)
        await self._auditor.record(by, Changed("alert.change", f"alert:{alert.name}", *facts))
        return replace(after, rev=before.rev + 1), "changed"

    async def delete(self, name: str, *, by: str = "") -> None:
        """Delete it with its notices; those that wait are not sent. Raises NotFound."""
        before = await self.get(name)
        if not await self._alerts.delete(name):
            raise NotFound("alert", name)
        await self._auditor.record(by, Changed("alert.delete", f"alert:{name}", _facts(before.alert), None))

    async def test(self, name: str, *, by: str = "") -> tuple[str, Answer]:
        """Send one notice now, from here, and return its id and what the receiver said; it is kept nowhere and not
        tried again. Raises NotFound, InvalidInput.
        """
        record = await self.get(name)
        if self._postman is None:
            raise InvalidInput("nothing can be sent from here")
        notification, now = f"msg_test_{secrets.token_hex(12)}", self._clock.now()
        text = f"a test of the alert {name}"
        body = message(notification, name, TEST, now, self._namespace, text)
        answer = await self._postman.post(record.alert.webhook, notification, body, now)
        facts = {"taken": answer.taken, "status": answer.status}
        await self._auditor.record(by, Changed("alert.test", f"alert:{name}", None, facts))
        return notification, answer


def _facts(alert: Alert) -> Mapping[str, object]:
    # Under a key that speaks of secrets the audit log shows references alone, and this is one.
    return dict(alert_document(alert))
