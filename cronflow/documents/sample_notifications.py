"""Samples of notifications, one for each kind, with which people try out the receiver of an alert."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import orjson

from cronflow.documents.notifications import TEST, message
from cronflow.documents.values import instant_text
from cronflow.domain.alert_kinds import DEAD_LETTER_KINDS, AlertKind
from cronflow.domain.alerts import Alert, Notification

JOB, NODE = "sample-job", "node-1"
OF_JOBS = frozenset(AlertKind) - {
    AlertKind.NO_LEADER,
    AlertKind.DEAD_LETTERS,
    AlertKind.RETRY_RATE,
    AlertKind.REPORT,
    AlertKind.NODE_LOST,
    AlertKind.HEARTBEAT,
}


def plain_test(alert: Alert, name: str, at: datetime, namespace: str) -> Notification:
    """What a webhook in JSON gets: a notification of the kind `test`, which no receiver takes for a real one."""
    body = message(name, alert.name, TEST, at, namespace, f"a test of the alert {alert.name}")
    return _notification(alert, alert.on[0], name, body, at)


def sample(alert: Alert, kind: AlertKind, name: str, at: datetime, namespace: str) -> Notification:
    """A sample of this kind."""
    body: dict[str, Any] = {
        "id": name,
        "alert": alert.name,
        "kind": kind.value,
        "at": instant_text(at),
        "namespace": namespace,
        "text": f"a test of the alert {alert.name}; nothing has happened",
        "test": True,
    }
    if kind in OF_JOBS:
        failed = kind in DEAD_LETTER_KINDS
        body["job"] = JOB
        body["run"] = {
            "id": f"{JOB}@{at:%Y%m%dT%H%M%SZ}",
            "state": "failed" if failed else "succeeded",
            "kind": "cron",
            "fire_at": instant_text(at),
            "attempt": 1,
            "max_attempts": 1,
            "outcome": "error" if failed else "ok",
            "error": "ValueError: a sample of an error" if failed else None,
            "reason": None,
            "node": f"{NODE}#0",
            "started_at": instant_text(at),
            "ended_at": instant_text(at),
        }
    if kind is AlertKind.NODE_LOST:
        body["node"] = NODE
    if kind in (AlertKind.DEAD_LETTERS, AlertKind.RETRY_RATE):
        body["level"] = "warn"
    return _notification(alert, kind, name, orjson.dumps(body).decode(), at)


def _notification(alert: Alert, kind: AlertKind, name: str, body: str, at: datetime) -> Notification:
    return Notification(
        id=name,
        alert=alert.name,
        kind=kind,
        subject=f"test {name}",
        job=JOB if kind in OF_JOBS else None,
        body=body,
        created_at=at,
    )
