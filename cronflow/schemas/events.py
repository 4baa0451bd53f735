"""An event."""

from __future__ import annotations

from collections.abc import Mapping

from cronflow.domain.events import RecordedEvent, Severity, fields_of
from cronflow.schemas.base import Schema, iso


class EventSchema(Schema):
    """Something that happened in the cluster."""

    id: str
    """Ids sort by time."""
    at: str
    """When."""
    kind: str
    """What, such as `leader_elected`."""
    severity: Severity
    """How much it asks of whoever reads it."""
    source: str
    """The node that told it, or `api`."""
    text: str
    """Its sentence for people."""
    fields: Mapping[str, object]
    """What it is made of; which there are depends on the kind."""


def event_schema(happened: RecordedEvent) -> EventSchema:
    """An event."""
    return {
        "id": happened.id,
        "at": iso(happened.at),
        "kind": happened.event.kind,
        "severity": happened.event.severity,
        "source": happened.source,
        "text": happened.event.text,
        "fields": fields_of(happened.event),
    }
