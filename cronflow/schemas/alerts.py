"""Alerts, their notifications, and responses of receivers."""

from __future__ import annotations

from cronflow.documents.alerts import AlertForm, alert_document
from cronflow.domain.alerts import AlertKind, AlertRecord, Answer, Notification, NotificationState
from cronflow.schemas import Schema, iso, optional_iso


class AlertSchema(Schema, AlertForm):
    """An alert's document with all defaults, and its state in the cluster."""

    since: str
    """Events before this instant are ignored."""
    created_at: str
    """When it was defined."""
    updated_at: str
    """When it was last edited."""
    updated_by: str | None
    """Who last edited it."""


class NotificationSchema(Schema):
    """A notification of an alert."""

    id: str
    """Its `webhook-id`, the same in every attempt."""
    kind: AlertKind
    """Kind of alert."""
    subject: str
    """The subject: a run id, the end of a leader's term, a level with the number of its crossing, or the instant of a
    report.
    """
    job: str | None
    """The job; null: not about a job."""
    state: NotificationState
    """A waiting notification is retried."""
    attempts: int
    """Number of attempts."""
    status: int | None
    """HTTP status of the latest response; null: no response."""
    error: str | None
    """Why the latest attempt failed."""
    created_at: str
    """When the condition was detected."""
    tried_at: str | None
    """When it was last sent."""
    ended_at: str | None
    """When it was delivered or given up."""


class AnswerSchema(Schema):
    """Response of a receiver to a notification."""

    id: str
    """`webhook-id` of the notification."""
    taken: bool
    """Whether the response was 2xx."""
    status: int | None
    """HTTP status; null: not reached."""
    error: str | None
    """Why it was not reached, or the text of the response."""
    ms: int
    """Duration in milliseconds."""


def alert_schema(record: AlertRecord) -> AlertSchema:
    """An alert."""
    return {
        **alert_document(record.alert),
        "since": iso(record.since),
        "created_at": iso(record.created_at),
        "updated_at": iso(record.updated_at),
        "updated_by": record.updated_by or None,
    }


def notification_schema(notification: Notification) -> NotificationSchema:
    return {
        "id": notification.id,
        "kind": notification.kind,
        "subject": notification.subject,
        "job": notification.job,
        "state": notification.state,
        "attempts": notification.attempts,
        "status": notification.status,
        "error": notification.error,
        "created_at": iso(notification.created_at),
        "tried_at": optional_iso(notification.tried_at),
        "ended_at": optional_iso(notification.ended_at),
    }


def answer_schema(notification: str, answer: Answer) -> AnswerSchema:
    return {"id": notification, "taken": answer.taken, "status": answer.status, "error": answer.error, "ms": answer.ms}
