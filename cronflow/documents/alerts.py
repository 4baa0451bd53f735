"""An alert's document, declared once: one form for files, JSON, REST and the store, as strict as that of jobs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, NotRequired, cast

import orjson
from typing_extensions import TypedDict

from cronflow.documents.keys import LENGTH, LengthForm
from cronflow.documents.tables import DocumentTable, Key
from cronflow.documents.values import choice, flag, instant_text, list_of, optional, text, under
from cronflow.domain.alerts import Alert, AlertKind, AlertRecord, Failing, Notification, Webhook, notification_id
from cronflow.domain.errors import InvalidInput
from cronflow.domain.placement import Waiting
from cronflow.domain.run import Kind, Outcome, Run, RunState


class WebhookForm(TypedDict):
    """Where notifications are sent."""

    url: Annotated[str, Key(text, sample="http://host", missing="add the address that notifications go to")]
    """An http:// or https:// address; each notification is a POST to it."""
    secret: Annotated[str | None, Key(optional(text))]
    """The secret that signs them, as `${secret:NAME}`; null: not signed."""


WEBHOOK = DocumentTable(WebhookForm, Webhook)
_kinds = list_of(choice(AlertKind), "words")
_first_kind = (AlertKind.FAILED,)


class AlertForm(TypedDict):
    """Which events send a notification, and where, with every default."""

    name: Annotated[str, Key(text, sample="alert", missing="give the alert a name")]
    """1 to 100 of a-z, 0-9, '.', '_', '-', beginning with a letter or digit."""
    on: Annotated[
        list[AlertKind], Key(_kinds, list, sample=_first_kind, missing=f"add at least one of {', '.join(AlertKind)}")
    ]
    """What it notifies about."""
    jobs: Annotated[list[str], Key(list_of(text, "patterns"), list)]
    """Patterns of job names, such as `billing-*`; empty: all jobs."""
    webhook: Annotated[
        WebhookForm,
        Key(WEBHOOK.read, WEBHOOK.write, sample=Webhook("http://host"), missing="add where notifications go"),
    ]
    """Where notifications are sent."""
    late_after: Annotated[LengthForm, LENGTH]
    """A fire is late when no attempt has started this long after it."""
    no_leader_after: Annotated[LengthForm, LENGTH]
    """How long the cluster may have no leader."""
    enabled: Annotated[bool, Key(flag)]
    """Whether it sends notifications."""


ALERT = DocumentTable(AlertForm, Alert)
TABLES: tuple[DocumentTable[Any], ...] = (ALERT, WEBHOOK)


def parse_alert(document: object, place: str = "") -> Alert:
    """The alert of a document. Raises InvalidInput with everything that is wrong; each place begins with `place`."""
    try:
        return ALERT.read(document)
    except InvalidInput as error:
        raise InvalidInput(under(place, error.problems)) from None


def alert_document(alert: Alert) -> AlertForm:
    """The document of an alert, with every default."""
    return cast("AlertForm", ALERT.write(alert))


MOST_OF_ERROR = 500
TEST = "test"


class MessageRunForm(TypedDict):
    """A run in a notification."""

    id: str
    """Its id."""
    state: RunState
    """Its state."""
    kind: Kind
    """Why it was created."""
    fire_at: str
    """The fire that it belongs to."""
    attempt: int
    """Its latest attempt."""
    max_attempts: int
    """The most attempts it may have."""
    outcome: Outcome | None
    """The outcome of the latest attempt."""
    error: str | None
    """The error, at most 500 characters."""
    reason: str | None
    """Why it did not run."""
    node: str | None
    """The node that ran it last."""
    started_at: str | None
    """When its latest attempt started."""
    ended_at: str | None
    """When the run ended."""


class MessageForm(TypedDict):
    """The body of a notification."""

    id: str
    """The same as in the header `webhook-id`."""
    alert: str
    """The alert."""
    kind: str
    """What happened: `failed`, `recovered`, `dead_letter`, `late`, `no_leader`; or `test`."""
    at: str
    """When it happened."""
    namespace: str
    """The cluster."""
    job: NotRequired[str]
    """The job, if there is one."""
    run: NotRequired[MessageRunForm]
    """The run, if there is one."""
    text: str
    """A sentence for people."""


def message(
    notification: str,
    alert: str,
    kind: str,
    at: datetime,
    namespace: str,
    text: str,
    job: str | None = None,
    run: Run | None = None,
) -> str:
    """The body of a notification, as JSON."""
    body: MessageForm = {
        "id": notification,
        "alert": alert,
        "kind": kind,
        "at": instant_text(at),
        "namespace": namespace,
        "text": text,
    }
    if job is not None:
        body["job"] = job
    if run is not None:
        body["run"] = _run(run)
    return orjson.dumps(body).decode()


def notification_of(
    record: AlertRecord,
    kind: AlertKind,
    subject: str,
    at: datetime,
    namespace: str,
    text: str,
    *,
    created_at: datetime,
    job: str | None = None,
    run: Run | None = None,
) -> Notification:
    """A new notification of the alert about the subject."""
    name = notification_id(record.name, kind, subject)
    return Notification(
        id=name,
        alert=record.name,
        kind=kind,
        subject=subject,
        job=job,
        body=message(name, record.name, kind, at, namespace, text, job, run),
        created_at=created_at,
    )


def failure_text(run: Run) -> str:
    if run.state is RunState.LOST:
        return f"{run.id} was lost with its node and is not restarted, because its job must not run twice"
    why = run.error or run.reason or (run.outcome.value if run.outcome else "")
    attempts = "1 attempt" if run.attempt == 1 else f"{run.attempt} attempts"
    return f"{run.id} failed after {attempts}: {why[:MOST_OF_ERROR]}".removesuffix(": ")


def recovery_text(failing: Failing, run: Run) -> str:
    return f"{failing.job} recovered: {run.id} succeeded after the failure of {failing.run}"


def late_text(run: str, started_at: datetime | None, after_s: float) -> str:
    if started_at is None:
        return f"{run} is late: it has not started {after_s:g} s after it was due"
    return f"{run} was late: it started at {instant_text(started_at)}, more than {after_s:g} s after it was due"


def unplaced_text(run: str, waiting: Waiting) -> str:
    return f"{run} has waited for a node since {instant_text(waiting.since)}: {waiting}"


def leaderless_text(since: datetime, node: str, term: int) -> str:
    return f"the cluster has no leader since {instant_text(since)}; the last one was {node}, term {term}"


def _run(run: Run) -> MessageRunForm:
    return {
        "id": run.id,
        "state": run.state,
        "kind": run.kind,
        "fire_at": instant_text(run.fire_at),
        "attempt": run.attempt,
        "max_attempts": run.max_attempts,
        "outcome": run.outcome,
        "error": None if run.error is None else run.error[:MOST_OF_ERROR],
        "reason": run.reason,
        "node": run.node,
        "started_at": None if run.started_at is None else instant_text(run.started_at),
        "ended_at": None if run.ended_at is None else instant_text(run.ended_at),
    }
