"""Use cases for alerts. Every change writes an entry to the audit log."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from cronflow.documents.alerts import alert_document
from cronflow.documents.notifications import TEST
from cronflow.documents.sample_notifications import plain_test, sample
from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.alert_receivers import WebhookFormat
from cronflow.domain.alerts import Alert, AlertRecord, Notification, SampleAnswer, begins_anew, overall
from cronflow.domain.applied import Result
from cronflow.domain.errors import Conflict, InvalidInput, NotFound, Problem
from cronflow.ports import Backends, Clock, NotificationSender
from cronflow.usecases.audit import Auditor, Changed

MOST_ALERTS = 500


class AlertRules:
    """Defines, deletes and tests alerts. Without a `notifier` this process cannot send test notifications."""

    def __init__(
        self,
        backends: Backends,
        clock: Clock,
        audit: Auditor,
        notifier: NotificationSender | None,
        namespace: str,
    ) -> None:
        self._alerts = backends.alerts
        self._outbox = backends.outbox
        self._clock = clock
        self._notifier = notifier
        self._namespace = namespace
        self._audit = audit

    async def find(self, *, after: str = "", limit: int = 500) -> list[AlertRecord]:
        """Alerts by name, after the name `after`."""
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
        """The notifications of an alert, newest first. `before` is the (created_at, id) of the last one on the
        previous page. Raises NotFound.
        """
        await self.get(name)
        return await self._outbox.of(name, before=before, limit=limit)

    async def create(self, alert: Alert, *, by: str = "") -> AlertRecord:
        """Raises Conflict if the name exists, InvalidInput if there are too many alerts, or no mail server for it."""
        self._check(alert)
        if len(await self._alerts.find(limit=MOST_ALERTS)) >= MOST_ALERTS:
            raise InvalidInput(Problem("", f"{MOST_ALERTS} alerts already exist", "delete one first"))
        now = self._clock.now()
        record = AlertRecord(alert=alert, since=now, judged=now, created_at=now, updated_at=now, updated_by=by)
        if not await self._alerts.create(record):
            raise Conflict(f"alert {alert.name!r} already exists")
        await self._audit.record(by, Changed("alert.create", f"alert:{alert.name}", None, _facts(alert)))
        return record

    async def define(self, alert: Alert, *, by: str = "") -> tuple[AlertRecord, Result]:
        """Create the alert or replace the one with this name. If the conditions change, only events from now on count.
        Raises InvalidInput, and Conflict if the alert changes concurrently.
        """
        self._check(alert)
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
            raise Conflict(f"alert {alert.name!r} was changed by someone else; check it and try again")
        facts = _facts(before.alert), _facts(alert)
        await self._audit.record(by, Changed("alert.change", f"alert:{alert.name}", *facts))
        return replace(after, rev=before.rev + 1), "changed"

    async def delete(self, name: str, *, by: str = "") -> None:
        """Delete the alert and its notifications; pending ones are not sent. Raises NotFound."""
        before = await self.get(name)
        if not await self._alerts.delete(name):
            raise NotFound("alert", name)
        await self._audit.record(by, Changed("alert.delete", f"alert:{name}", _facts(before.alert), None))

    async def test(self, name: str, *, by: str = "") -> list[SampleAnswer]:
        """Send a sample of each kind of the alert now from this process; to a webhook in JSON a single notification of
        the kind `test`. Returns the receiver's answers. Nothing is stored or retried. Raises NotFound, InvalidInput.
        """
        alert = (await self.get(name)).alert
        if self._notifier is None:
            raise InvalidInput("this process cannot send notifications")
        now, answers = self._clock.now(), []
        plain = alert.webhook is not None and alert.webhook.format is WebhookFormat.JSON
        for kind in (TEST,) if plain else alert.on:
            notification = f"msg_test_{secrets.token_hex(12)}"
            made = (
                sample(alert, kind, notification, now, self._namespace)
                if isinstance(kind, AlertKind)
                else plain_test(alert, notification, now, self._namespace)
            )
            answers.append(SampleAnswer(kind, notification, await self._notifier.send(alert, made, now)))
        shown = overall(answers)
        facts = {"taken": all(one.answer.taken for one in answers), "status": shown.answer.status}
        await self._audit.record(by, Changed("alert.test", f"alert:{name}", None, facts))
        return answers

    def _check(self, alert: Alert) -> None:
        """Raises InvalidInput for an alert that this cluster cannot send."""
        if alert.email is not None and self._notifier is not None and not self._notifier.sends_mail:
            remedy = "set CRONFLOW_SMTP_URL and CRONFLOW_SMTP_FROM on every node and API, and here"
            raise InvalidInput(Problem("email", "there is no mail server: SMTP_URL is not set", remedy))


def _facts(alert: Alert) -> Mapping[str, object]:
    # The audit log masks values under secret-like keys but keeps references, and this value is a reference.
    return dict(alert_document(alert))
