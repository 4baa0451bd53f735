"""An alert's document, declared once: one form for files, JSON, REST and the store, as strict as that of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, Literal, cast, overload

from typing_extensions import TypedDict

from cronflow.documents.keys import LENGTH, LengthForm
from cronflow.documents.tables import DocumentTable, Key
from cronflow.documents.values import choice, flag, list_of, number, optional, text, under, whole
from cronflow.domain.alert_grouping import Grouping, QuietTime
from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.alert_receivers import Email, Webhook, WebhookFormat
from cronflow.domain.alerts import Alert, ReportTime
from cronflow.domain.errors import InvalidInput
from cronflow.domain.thresholds import DeadLetterLimits
from cronflow.domain.weekdays import Weekday


class WebhookForm(TypedDict):
    """A receiver of HTTP requests."""

    url: Annotated[str, Key(text, sample="http://host", missing="add the address that notifications go to")]
    """An http:// or https:// address; each notification is a POST to it. With another format than `json` it may be
    `${secret:NAME}`.
    """
    secret: Annotated[str | None, Key(optional(text))]
    """The secret that signs the requests, as `${secret:NAME}`; null: not signed. Only with the format `json`."""
    format: Annotated[WebhookFormat, Key(choice(WebhookFormat))]
    """The format of what is sent: CronFlow's JSON, a message for Slack or Microsoft Teams, or a ping."""


WEBHOOK = DocumentTable(WebhookForm, Webhook)


class EmailForm(TypedDict):
    """Recipients of e-mail. The process that sends it needs `SMTP_URL` and `SMTP_FROM`."""

    to: Annotated[
        list[str],
        Key(list_of(text, "addresses"), list, sample=("a@b.example",), missing="add the recipients as a list"),
    ]
    """The addresses."""
    log_lines: Annotated[int, Key(whole)]
    """How many of a run's last log lines a message shows; 0: none."""


EMAIL = DocumentTable(EmailForm, Email)


class GroupForm(TypedDict):
    """How notifications are combined."""

    by: Annotated[list[str], Key(list_of(text, "words"), list)]
    """What notifications of a group have in common: `job`, `kind`, `label:NAME`; empty: all form one group."""
    wait: Annotated[LengthForm, LENGTH]
    """How long the first notification of a group waits for others."""
    interval: Annotated[LengthForm, LENGTH]
    """The shortest time between two messages about a group."""


GROUP = DocumentTable(GroupForm, Grouping)
_days = list_of(choice(Weekday), "days")
_kinds = list_of(choice(AlertKind), "words")

# `from` is a word of Python, so this form is no class.
QuietForm = TypedDict(
    "QuietForm",
    {
        "from": Annotated[
            str,
            Key(text, attribute="begin", sample="22:00", missing='add the time at which it begins, like "22:00"'),
            "The time of day at which it begins.",
        ],
        "to": Annotated[
            str,
            Key(text, attribute="end", sample="07:00", missing='add the time at which it ends, like "07:00"'),
            "The time of day at which it ends, possibly on the next day.",
        ],
        "tz": Annotated[str, Key(text), "The IANA time zone of these times."],
        "days": Annotated[list[Weekday], Key(_days, list), "The days on which it begins; empty: every day."],
        "urgent": Annotated[list[AlertKind], Key(_kinds, list), "Kinds that are sent anyway."],
    },
)

QuietForm.__doc__ = "A time of day during which notifications wait; it may pass midnight."


QUIET = DocumentTable(QuietForm, QuietTime)
_first_kind = (AlertKind.FAILED,)


class DeadLettersForm(TypedDict):
    """The numbers of open dead letters at which to notify."""

    warn: Annotated[int, Key(whole)]
    """The number for a warning."""
    critical: Annotated[int, Key(whole)]
    """The number for a critical notification."""


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
        WebhookForm | None,
        Key(
            optional(WEBHOOK.read),
            optional(WEBHOOK.write),
            sample=Webhook("http://host"),
            missing="add where notifications go: webhook or email",
            shorten=optional(WEBHOOK.shorten),
        ),
    ]
    """Where notifications are sent; an alert has either a webhook or e-mail."""
    email: Annotated[EmailForm | None, Key(optional(EMAIL.read), optional(EMAIL.write))]
    """Where notifications are sent by e-mail."""
    late_after: Annotated[LengthForm, LENGTH]
    """A fire is late when no attempt has started this long after it."""
    no_leader_after: Annotated[LengthForm, LENGTH]
    """How long the cluster may have no leader."""
    retries: Annotated[int, Key(whole)]
    """A run with more retries than this is reported."""
    dead_letters: Annotated[DeadLettersForm, Key(DEAD_LETTERS.read, DEAD_LETTERS.write)]
    """The numbers of dead letters at which it notifies."""
    retry_rate: Annotated[float, Key(number)]
    """The share of retries among all attempts of the last hour, between 0 and 1, above which it notifies."""
    report: Annotated[ReportTimeForm, Key(REPORT_TIME.read, REPORT_TIME.write)]
    """When the weekly report is sent."""
    limit_wait_after: Annotated[LengthForm, LENGTH]
    """How long a run may wait for a named limit."""
    heartbeat_every: Annotated[LengthForm, LENGTH]
    """How often a heartbeat is sent while the cluster is healthy."""
    group: Annotated[GroupForm | None, Key(optional(GROUP.read), optional(GROUP.write))]
    """How notifications are combined; null: each is sent separately."""
    quiet: Annotated[QuietForm | None, Key(optional(QUIET.read), optional(QUIET.write))]
    """A quiet time: notifications wait and are sent in one message at its end; null: none."""
    enabled: Annotated[bool, Key(flag)]
    """Whether it sends notifications."""


class _WithEmail(DocumentTable[Alert]):
    """The same keys for an alert that sends e-mail: `email` is required, not `webhook`."""

    @cached_property
    def keys(self) -> dict[str, Key]:
        of_webhook, of_email = (super(_WithEmail, self).keys[name] for name in ("webhook", "email"))
        return {
            **super().keys,
            "webhook": replace(of_webhook, sample=None),
            "email": replace(of_email, sample=Email(("a@b.example",))),
        }


ALERT = DocumentTable(AlertForm, Alert)
_WITH_EMAIL = _WithEmail(AlertForm, Alert)
TABLES: tuple[DocumentTable[Any], ...] = (ALERT, WEBHOOK, EMAIL, GROUP, QUIET, DEAD_LETTERS, REPORT_TIME)


def parse_alert(document: object, place: str = "") -> Alert:
    """The alert of a document. Raises InvalidInput with everything that is wrong; each place begins with `place`."""
    try:
        sends_mail = isinstance(document, Mapping) and document.get("email") is not None
        return (_WITH_EMAIL if sends_mail else ALERT).read(document)
    except InvalidInput as error:
        raise InvalidInput(under(place, error.problems)) from None


@overload
def alert_document(alert: Alert, *, compact: Literal[False] = False) -> AlertForm: ...
@overload
def alert_document(alert: Alert, *, compact: bool) -> AlertForm | dict[str, Any]: ...
def alert_document(alert: Alert, *, compact: bool = False) -> AlertForm | dict[str, Any]:
    """The document of an alert, with every default; with `compact` without them."""
    if compact:
        return (ALERT if alert.email is None else _WITH_EMAIL).shorten(alert)
    return cast("AlertForm", ALERT.write(alert))
