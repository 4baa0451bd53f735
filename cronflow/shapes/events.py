"""An event."""

from __future__ import annotations

from cronflow.domain.events import Happened, fields_of
from cronflow.shapes.plain import Shape, iso


def event_shape(happened: Happened) -> Shape:
    """An event. `text` is its sentence for people, `fields` what it is made of; `id` is the cursor."""
    return {
        "id": happened.id,
        "at": iso(happened.at),
        "kind": happened.event.kind,
        "gravity": happened.event.gravity.value,
        "source": happened.source,
        "text": happened.event.text,
        "fields": fields_of(happened.event),
    }
