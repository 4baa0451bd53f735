"""Alerts, their notifications, and responses of receivers."""

from __future__ import annotations

from collections.abc import Sequence

from cronflow.documents.alerts import AlertForm, alert_document
from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.alerts import AlertRecord, Notification, NotificationState, SampleAnswer, overall
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
    """The subject: a run id, the end of a leader's term, a level with the number of its crossing, the instant of a
    report, a node, or how many a digest combines.
    """
    job: str | None
    """The job; null: not about a job."""
    state: NotificationState
    """A waiting notification is retried. A held one waits for its digest, and a grouped one is part of it."""
    group: str | None
    """Of a digest: what its notifications have in common."""
    digest: str | None
    """Of a grouped notification: the id of its digest."""
    attempts: int
    """Number of attempts."""
    status: int | None
    """HTTP status of the latest response, or the code of the mail server; null: no response."""
    error: str | None
    """Why the latest attempt failed."""
    created_at: str
    """When the condition was detected."""
    tried_at: str | None
    """When it was last sent."""
    ended_at: str | None
    """When it was delivered or given up."""


class SampleAnswerSchema(Schema):
    """Response of a receiver to a sample."""

    kind: str
    """The kind of the sample; `test` for a webhook in JSON."""
    id: str
    """`webhook-id` of the notification."""
    taken: bool
    """Whether it was accepted."""
    status: int | None
    """HTTP status, or the code of the mail server; null: not reached."""
    error: str | None
    """Why it was not reached, or the text of the response."""
    ms: int
    """Duration in milliseconds."""


class AnswerSchema(Schema):
    """Responses of a receiver to samples. The other keys are those of the first one that was not accepted, or of the
    last one.
    """

    samples: list[SampleAnswerSchema]
    """A sample for each kind of the alert."""
    id: str
    """`webhook-id` of the notification."""
    taken: bool
    """Whether all were accepted."""
    status: int | None
    """HTTP status, or the code of the mail server; null: not reached."""
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
        "group": notification.group,
        "digest": notification.digest,
        "attempts": notification.attempts,
        "status": notification.status,
        "error": notification.error,
        "created_at": iso(notification.created_at),
        "tried_at": optional_iso(notification.tried_at),
        "ended_at": optional_iso(notification.ended_at),
    }


def answer_schema(answers: Sequence[SampleAnswer]) -> AnswerSchema:
    samples = [_sample(one) for one in answers]
    shown = _sample(overall(answers))
    return {
        "samples": samples,
        "id": shown["id"],
        "taken": shown["taken"],
        "status": shown["status"],
        "error": shown["error"],
        "ms": shown["ms"],
    }


def _sample(one: SampleAnswer) -> SampleAnswerSchema:
    answer = one.answer
    return {
        "kind": one.kind,
        "id": one.id,
        "taken": answer.taken,
        "status": answer.status,
        "error": answer.error,
        "ms": answer.ms,
    }
