"""An alert's document, declared once: one form for files, JSON, REST and the store, as strict as that of jobs."""

from __future__ import annotations

from typing import Annotated, Any, cast

from typing_extensions import TypedDict

from cronflow.documents.jobs import LENGTH, LengthForm
from cronflow.documents.tables import Key, Table
from cronflow.documents.values import choice, flag, list_of, optional, text, under
from cronflow.domain.alerts import Alert, AlertKind, Webhook
from cronflow.domain.errors import InvalidInput


class WebhookForm(TypedDict):
    """Where notifications are sent."""

    url: Annotated[str, Key(text, sample="http://host", missing="add the address that notifications go to")]
    """An http:// or https:// address; each notification is a POST to it."""
    secret: Annotated[str | None, Key(optional(text))]
    """The secret that signs them, as `${secret:NAME}`; null: not signed."""


WEBHOOK = Table(WebhookForm, Webhook)
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


ALERT = Table(AlertForm, Alert)
TABLES: tuple[Table[Any], ...] = (ALERT, WEBHOOK)


def parse_alert(document: object, place: str = "") -> Alert:
    """The alert of a document. Raises InvalidInput with everything that is wrong; each place begins with `place`."""
    try:
        return ALERT.read(document)
    except InvalidInput as error:
        raise InvalidInput(under(place, error.problems)) from None


def alert_document(alert: Alert) -> AlertForm:
    """The document of an alert, with every default."""
    return cast("AlertForm", ALERT.write(alert))
