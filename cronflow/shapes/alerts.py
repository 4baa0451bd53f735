"""Alerts, their notices, and what receivers say."""

from __future__ import annotations

from cronflow.documents.alerts import AlertForm, alert_document
from cronflow.domain.alerts import AlertKind, AlertRecord, Answer, Notice, NoticeState
from cronflow.shapes.plain import Shape, iso, optional_iso


class AlertShape(Shape, AlertForm):
    """An alert's document with every default, and beside it what the cluster keeps of it."""

    since: str
    """What happened before is not told."""
    created_at: str
    """When it was defined."""
    updated_at: str
    """When it was last edited."""
    updated_by: str | None
    """Who edited it last."""


class NoticeShape(Shape):
    """What an alert had to tell once."""

    id: str
    """Its `webhook-id`, the same in every attempt."""
    kind: AlertKind
    """What it tells."""
    subject: str
    """Of what: the id of a run, or the end of a leader's term."""
    job: str | None
    """The job; null: it is not about one."""
    state: NoticeState
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


class AnswerShape(Shape):
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


def alert_shape(record: AlertRecord) -> AlertShape:
    """An alert."""
    return {
        **alert_document(record.alert),
        "since": iso(record.since),
        "created_at": iso(record.created_at),
        "updated_at": iso(record.updated_at),
        "updated_by": record.updated_by or None,
    }


def notice_shape(notice: Notice) -> NoticeShape:
    """A notice."""
    return {
        "id": notice.id,
        "kind": notice.kind,
        "subject": notice.subject,
        "job": notice.job,
        "state": notice.state,
        "attempts": notice.attempts,
        "status": notice.status,
        "error": notice.error,
        "created_at": iso(notice.created_at),
        "tried_at": optional_iso(notice.tried_at),
        "ended_at": optional_iso(notice.ended_at),
    }


def answer_shape(notice: str, answer: Answer) -> AnswerShape:
    """What a receiver said."""
    return {"id": notice, "taken": answer.taken, "status": answer.status, "error": answer.error, "ms": answer.ms}
