"""Instants and lengths of time as scripts read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

Shape = dict[str, object]


def iso(instant: datetime) -> str:
    """For scripts: `2026-11-21T12:00:00Z`."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def optional_iso(instant: datetime | None) -> str | None:
    """As `iso`; nothing stays nothing."""
    return None if instant is None else iso(instant)


def milliseconds(length: timedelta | None) -> int | None:
    """For scripts."""
    return None if length is None else round(length.total_seconds() * 1000)
