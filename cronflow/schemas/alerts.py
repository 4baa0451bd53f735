"""Alerts, their notices, and what receivers say."""

from __future__ import annotations

from cronflow.documents.alerts import AlertForm, alert_document
from cronflow.domain.alerts import AlertKind, AlertRecord, Answer, Notification, NotificationState
from cronflow.schemas.base import Schema, iso, optional_iso


class AlertSchema(Schema, AlertForm):
    """An alert's document with every default, and beside it what the cluster keeps of it."""

    since: str
    """What happened before is not told."""
    created_at: str
    """When it was defined."""
    updated_at: str
    """When it was last edited."""
    updated_by: str | None
    """Who edited it last."""


class NotificationSchema(Schema):
    """What an alert had to tell once."""

    id: str
    """Its `webhook-id`, the same in every attempt."""
    kind: AlertKind
    """What it tells."""
    subject: str
    """Of what: the id of a run, or the end of a leader's term."""
    job: str | None
    """The job; null: it is not about one."""
    state: NotificationState
    """A waiting one is tried again."""
    attempts: int
    """How often it was sent."""
    status: int | None
    """The status of the latest answer; null: there was none."""
    error: str | None
    """Why the latest attempt was no success."""
    created_at: str
    """When it was found."""
    tried_at: str | None
    """When it was last tried."""
    ended_at: str | None
    """When it was taken or given up."""


class AnswerSchema(Schema):
    """What a receiver said to a notice."""

    id: str
    """The notice's `webhook-id`."""
    taken: bool
    """Whether it answered with a 2xx."""
    status: int | None
    """The status; null: it was not reached."""
    error: str | None
    """Why it was not reached, or what it said."""
    ms: int
    """How long it took, in milliseconds."""


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
    """A notice."""
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
    """What a receiver said."""
    return {"id": notification, "taken": answer.taken, "status": answer.status, "error": answer.error, "ms": answer.ms}
