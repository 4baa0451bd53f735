"""Sends a notification in the form that its receiver expects.

Rule: plain webhooks get the stored body unchanged. For people, the job and the last log lines are looked up when the
notification is sent; if that fails, it is sent without them. An address that is a secret is in clear text only here.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import orjson
import structlog

from cronflow.domain.alert_kinds import DEAD_LETTER_KINDS, AlertKind
from cronflow.domain.alert_receivers import WebhookFormat
from cronflow.domain.alerts import Alert, Answer, Notification
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.schedule.zones import find_zone
from cronflow.executors.notifications.email_text import email_message
from cronflow.executors.notifications.slack import slack_message
from cronflow.executors.notifications.summary import NotificationSummary, RunDetails, summary
from cronflow.executors.notifications.teams import teams_message
from cronflow.executors.webhook import HttpWebhookSender
from cronflow.ports import Clock, JobStore, LogStore

if TYPE_CHECKING:
    from cronflow.executors.notifications.mail_sender import MailSender

NO_MAIL_SERVER = "this process has no mail server; set CRONFLOW_SMTP_URL on every node and API"

log = structlog.get_logger("cronflow.node")


class Notifier:
    """A NotificationSender. Without `mail` it sends no e-mail; without `public_url` its messages have no links; without
    `jobs` and `logs` it looks nothing up.
    """

    def __init__(
        self,
        webhooks: HttpWebhookSender,
        mail: MailSender | None,
        jobs: JobStore | None,
        logs: LogStore | None,
        clock: Clock,
        *,
        public_url: str | None = None,
        namespace: str = "default",
    ) -> None:
        self._webhooks, self._mail = webhooks, mail
        self._jobs, self._logs = jobs, logs
        self._clock = clock
        self._public_url = public_url
        self._namespace = namespace

    @property
    def sends_mail(self) -> bool:
        return self._mail is not None

    async def send(self, alert: Alert, notification: Notification, at: datetime) -> Answer:
        webhook = alert.webhook
        if webhook is None:
            return await self._send_mail(alert, notification)
        match webhook.format:
            case WebhookFormat.JSON:
                return await self._webhooks.post(webhook, notification.id, notification.body, at)
            case WebhookFormat.PING:
                change = failed_ping if notification.kind in DEAD_LETTER_KINDS else str
                return await self._webhooks.post(webhook, notification.id, _text(notification), at, change)
            case WebhookFormat.SLACK | WebhookFormat.TEAMS:
                found = await self._summary(notification, 5)
                made = slack_message(found) if webhook.format is WebhookFormat.SLACK else teams_message(found)
                return await self._webhooks.post(webhook, notification.id, orjson.dumps(made).decode(), at)

    async def _send_mail(self, alert: Alert, notification: Notification) -> Answer:
        assert alert.email is not None
        if self._mail is None:
            return Answer(None, NO_MAIL_SERVER, 0)
        began = self._clock.monotonic()
        found = await self._summary(notification, alert.email.log_lines)
        sender = self._mail.server.sender
        message = email_message(alert, notification, found, sender=sender, namespace=self._namespace)
        done = await self._mail.send(message, alert.email.to)
        ms = round((self._clock.monotonic() - began) * 1000)
        return Answer(done.status, done.error, ms, final=done.final, partly=done.partly)

    async def _summary(self, notification: Notification, lines: int) -> NotificationSummary:
        body: dict[str, Any] = orjson.loads(notification.body)
        details = RunDetails()
        try:
            details = await self._details(body, lines)
        except BackendUnavailable as error:
            log.warning("notification sent without details", notification=notification.id, reason=str(error))
        return summary(body, details, self._public_url)

    async def _details(self, body: dict[str, Any], lines: int) -> RunDetails:
        if self._jobs is None or self._logs is None:
            return RunDetails()
        run, job = body.get("run"), body.get("job")
        found = await self._jobs.get([job]) if job else []
        wanted = lines and body["kind"] != AlertKind.RECOVERED and "test" not in body
        log_lines = await self._logs.tail(run["id"], lines) if run is not None and wanted else []
        if not found:
            return RunDetails([line.text for line in log_lines])
        zone = getattr(found[0].job.schedule, "tz", "UTC")
        next_fire = found[0].next_fire if found[0].active else None
        return RunDetails([line.text for line in log_lines], next_fire, find_zone(zone).key)


def failed_ping(url: str) -> str:
    """The address that reports a failure: `/fail` below that of the ping, before a query."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/fail"))


def _text(notification: Notification) -> str:
    text = orjson.loads(notification.body)["text"]
    assert isinstance(text, str)
    return text
