"""Events as they are stored and shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Any

from cronflow.domain.events.base import KINDS, Event, current_kind


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An event as stored and shown. `id` grows with time and is the cursor too; `source` is the id of the node that
    emitted it, or `api`.
    """

    id: str
    at: datetime
    source: str
    event: Event


def cursor_of(at: datetime) -> str:
    """A lower bound for the ids of events from `at` on: microseconds as hexadecimal digits."""
    return f"{int(at.astimezone(UTC).timestamp() * 1_000_000):014x}"


def event_id(at: datetime, token: str) -> str:
    """The id of an event; `token` distinguishes those of one microsecond."""
    return f"{cursor_of(at)}-{token}"


def fields_of(happened: Event) -> dict[str, Any]:
    """Its fields, with long texts cut."""
    found = asdict(happened)
    return {name: value[: happened.longest] if isinstance(value, str) else value for name, value in found.items()}


def event_of(kind: str, found: Mapping[str, Any]) -> Event | None:
    """The event of this kind, by its present or its old name; None when this version does not have it. A field with a
    default may be missing: earlier versions did not have it.
    """
    known = KINDS.get(current_kind(kind))
    if known is None or {one.name for one in fields(known) if one.default is MISSING} - found.keys():
        return None
    return known(**{one.name: found[one.name] for one in fields(known) if one.name in found})
