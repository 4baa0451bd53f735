"""The public JSON objects: the output of `-o json` and the responses of the REST API.

Every object of a kind has the same fields; a field without a value is null. Instants are ISO 8601 in UTC, and the name
of a duration ends in its unit. Nothing here makes decisions.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from typing_extensions import TypedDict


class Schema(TypedDict):
    """An object of plain values. The string below a field is its description in the OpenAPI document."""


def iso(instant: datetime) -> str:
    """ISO 8601 in UTC, such as `2026-11-21T12:00:00Z`."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def optional_iso(instant: datetime | None) -> str | None:
    return None if instant is None else iso(instant)


def milliseconds(length: timedelta) -> int:
    return round(length.total_seconds() * 1000)


def optional_milliseconds(length: timedelta | None) -> int | None:
    return None if length is None else milliseconds(length)
