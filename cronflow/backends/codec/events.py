"""Events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cronflow.backends.codec.values import Document, given
from cronflow.domain.events import RecordedEvent, event_of, fields_of


def event_document(happened: RecordedEvent) -> Document:
    return {
        "_id": happened.id,
        "at": happened.at,
        "source": happened.source,
        "kind": happened.event.kind,
        "fields": fields_of(happened.event),
    }


def event(document: Mapping[str, Any]) -> RecordedEvent | None:
    """None if this version does not have the kind."""
    found = event_of(document["kind"], given(document["fields"]))
    return None if found is None else RecordedEvent(document["_id"], document["at"], document["source"], found)
