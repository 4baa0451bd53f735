"""An alert's document, declared once: one form for files, JSON, REST and the store, as strict as that of jobs."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast, overload

from typing_extensions import TypedDict

from cronflow.documents.keys import LENGTH, LengthForm
from cronflow.documents.tables import DocumentTable, Key
from cronflow.documents.values import choice, flag, list_of, number, optional, text, under, whole
from cronflow.domain.alerts import Alert, AlertKind, ReportTime, Webhook, Weekday
from cronflow.domain.errors import InvalidInput
from cronflow.domain.thresholds import DeadLetterLimits


class WebhookForm(TypedDict):
    """Where notifications are sent."""

    url: Annotated[str, Key(text, sample="http://host", missing="add the address that notifications go to")]
    """An http:// or https:// address; each notification is a POST to it."""
    secret: Annotated[str | None, Key(optional(text))]
    """The secret that signs them, as `${secret:NAME}`; null: not signed."""


WEBHOOK = DocumentTable(WebhookForm, Webhook)
_kinds = list_of(choice(AlertKind), "words")
_first_kind = (AlertKind.FAILED,)


class DeadLettersForm(TypedDict):
    """From how many open dead letters on to notify."""

    warn: Annotated[int, Key(whole)]
    """A warning."""
    critical: Annotated[int, Key(whole)]
    """A critical notification."""


DEAD_LETTERS = DocumentTable(DeadLettersForm, DeadLetterLimits)


class ReportTimeForm(TypedDict):
    """When the weekly report is sent."""

    day: Annotated[Weekday, Key(choice(Weekday))]
    """The day of the week."""
    time: Annotated[str, Key(text)]
    """The time of day, such as "08:00"."""
    tz: Annotated[str, Key(text)]
    """The IANA time zone of that time."""


REPORT_TIME = DocumentTable(ReportTimeForm, ReportTime)


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
    retries: Annotated[int, Key(whole)]
    """A run with more retries than this is reported."""
    dead_letters: Annotated[DeadLettersForm, Key(DEAD_LETTERS.read, DEAD_LETTERS.write)]
    """From how many dead letters on it notifies."""
    retry_rate: Annotated[float, Key(number)]
    """The share of retries among all attempts of the last hour, between 0 and 1, above which it notifies."""
    report: Annotated[ReportTimeForm, Key(REPORT_TIME.read, REPORT_TIME.write)]
    """When the weekly report is sent."""
    enabled: Annotated[bool, Key(flag)]
    """Whether it sends notifications."""


ALERT = DocumentTable(AlertForm, Alert)
TABLES: tuple[DocumentTable[Any], ...] = (ALERT, WEBHOOK, DEAD_LETTERS, REPORT_TIME)


def parse_alert(document: object, place: str = "") -> Alert:
    """The alert of a document. Raises InvalidInput with everything that is wrong; each place begins with `place`."""
    try:
        return ALERT.read(document)
    except InvalidInput as error:
        raise InvalidInput(under(place, error.problems)) from None


@overload
def alert_document(alert: Alert, *, compact: Literal[False] = False) -> AlertForm: ...
@overload
def alert_document(alert: Alert, *, compact: bool) -> AlertForm | dict[str, Any]: ...
def alert_document(alert: Alert, *, compact: bool = False) -> AlertForm | dict[str, Any]:
    """The document of an alert, with every default; with `compact` without them."""
    return ALERT.shorten(alert) if compact else cast("AlertForm", ALERT.write(alert))
