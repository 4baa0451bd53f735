"""An alert as a plain document, and back: one shape for files, JSON, REST and the store, as strict as that of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import TypedDict

from cronflow.documents.forms import LengthForm
from cronflow.documents.mappings import build, read_fields
from cronflow.documents.values import Reader, choice, duration, flag, list_of, optional, text, under
from cronflow.domain.alerts import Alert, AlertKind, Webhook
from cronflow.domain.durations import format_duration
from cronflow.domain.errors import InvalidInput, Problem


class WebhookForm(TypedDict):
    """Where notices go."""

    url: str
    """An http:// or https:// address, which gets a POST for each notice."""
    secret: str | None
    """The secret that signs them, as `${secret:NAME}`; null: they are not signed."""


class AlertForm(TypedDict):
    """Of what somebody is to be told, and how, with every default."""

    name: str
    """1 to 100 of a-z, 0-9, '.', '_', '-', beginning with a letter or digit."""
    on: list[AlertKind]
    """What it tells of."""
    jobs: list[str]
    """Patterns of the names of the jobs that it is about, such as `billing-*`; empty: all."""
    webhook: WebhookForm
    """Who is told."""
    late_after: LengthForm
    """A fire is late when no attempt has started so long after it."""
    no_leader_after: LengthForm
    """How long there may be no leader."""
    enabled: bool
    """Whether it tells of anything at all."""


def parse_alert(document: object, place: str = "") -> Alert:
    """The alert of a document. Raises InvalidInput with everything that is wrong; `place` is put in front."""
    try:
        found, problems = read_fields(document, _ALERT)
        assert isinstance(document, Mapping)
        problems += [Problem(key, "missing", remedy) for key, remedy in _NEEDED.items() if key not in document]
        return build(Alert, found, problems, document, samples=_SAMPLES)
    except InvalidInput as error:
        raise InvalidInput(under(place, error.problems)) from None


def alert_document(alert: Alert) -> AlertForm:
    """The document of an alert, with every default."""
    return {
        "name": alert.name,
        "on": list(alert.on),
        "jobs": list(alert.jobs),
        "webhook": {"url": alert.webhook.url, "secret": alert.webhook.secret},
        "late_after": format_duration(alert.late_after),
        "no_leader_after": format_duration(alert.no_leader_after),
        "enabled": alert.enabled,
    }


def _webhook(value: object) -> Webhook:
    found, problems = read_fields(value, _WEBHOOK)
    assert isinstance(value, Mapping)
    if "url" not in value:
        problems.append(Problem("url", "missing", "write the address that notices go to"))
    return build(Webhook, found, problems, value, samples={"url": "http://host"})


_WEBHOOK: Mapping[str, Reader] = {"url": text, "secret": optional(text)}
_ALERT: Mapping[str, Reader] = {
    "name": text,
    "on": list_of(choice(AlertKind), "words"),
    "jobs": list_of(text, "patterns"),
    "webhook": _webhook,
    "late_after": duration,
    "no_leader_after": duration,
    "enabled": flag,
}
_NEEDED = {
    "name": "give it a name",
    "on": f"name at least one of {', '.join(AlertKind)}",
    "webhook": "say where notices go",
}
_SAMPLES: Mapping[str, Any] = {"name": "alert", "on": (AlertKind.FAILED,), "webhook": Webhook("http://host")}
