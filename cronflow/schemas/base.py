"""The base of all shapes, and instants and lengths of time as scripts read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from typing_extensions import TypedDict


class Schema(TypedDict):
    """An object of plain values. The texts below its fields are their descriptions, for `cronflow.api.field_docs`."""


def iso(instant: datetime) -> str:
    """For scripts: `2026-11-21T12:00:00Z`."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def optional_iso(instant: datetime | None) -> str | None:
    """As `iso`; nothing stays nothing."""
    return None if instant is None else iso(instant)


def milliseconds(length: timedelta) -> int:
    """For scripts."""
    return round(length.total_seconds() * 1000)


def optional_milliseconds(length: timedelta | None) -> int | None:
    """As `milliseconds`; nothing stays nothing."""
    return None if length is None else milliseconds(length)
