"""Alerts, their crossings and notifications."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cronflow.backends.codec.values import Document, plain
from cronflow.documents.alerts import alert_document, parse_alert
from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.alerts import AlertRecord, Notification, NotificationState
from cronflow.domain.thresholds import AlertLevel, Crossing


def alert_record_document(record: AlertRecord) -> Document:
    """An alert's document, which contains the rule as its plain document, without defaults: a node of 0.9 refuses an
    alert with keys that it does not know.
    """
    return {
        "_id": record.name,
        "alert": alert_document(record.alert, compact=True),
        "rev": record.rev,
        "since": record.since,
        "judged": record.judged,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "updated_by": record.updated_by,
    }


def alert_record(document: Mapping[str, Any]) -> AlertRecord:
    fields = {name: value for name, value in document.items() if name not in ("_id", "alert")}
    return AlertRecord(alert=parse_alert(document["alert"]), **fields)


def crossing_document(crossing: Crossing) -> Document:
    """The latest crossing of an alert and kind."""
    return {
        "_id": crossing.place,
        "alert": crossing.alert,
        "kind": crossing.kind,
        "number": crossing.number,
        "before": crossing.before.word,
        "level": crossing.level.word,
        "figure": crossing.figure,
        "at": crossing.at,
    }


def crossing(document: Mapping[str, Any]) -> Crossing:
    fields = {name: document[name] for name in ("alert", "kind", "number", "figure", "at")}
    before, level = (AlertLevel[document[name].upper()] for name in ("before", "level"))
    return Crossing(before=before, level=level, **fields)


DIGEST_KEYS = ("number", "group", "members", "digest")


def notification_document(notification: Notification) -> Document:
    """A notification's document. `waiting` is stored for the sender's partial index, and `held` for that of the leader.
    What only digests and their members have is left out of others.
    """
    names = Notification.__dataclass_fields__.keys() - {"id", *(DIGEST_KEYS if notification.number is None else ())}
    document = {"_id": notification.id, **{name: plain(getattr(notification, name)) for name in sorted(names)}}
    if notification.state is NotificationState.HELD:
        return {**document, "held": True}
    return {**document, "waiting": True, "due_at": notification.created_at}


def notification(document: Mapping[str, Any]) -> Notification:
    fields = {name: document[name] for name in Notification.__dataclass_fields__ if name in document}
    kind, state = AlertKind(document["kind"]), NotificationState(document["state"])
    fields["members"] = tuple(document.get("members") or ())
    return Notification(**{**fields, "id": document["_id"], "kind": kind, "state": state})
