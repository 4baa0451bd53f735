"""Instants and lengths of time out of plain values; the counterpart of `cronflow.schemas.base`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeVar

from cronflow.domain.errors import CronFlowError

Schema = TypeVar("Schema")
Value = TypeVar("Value")


def understood(read: Callable[[Schema], Value], shape: Schema) -> Value:
    """What the shape says. Raises CronFlowError when it is not as this version knows it."""
    try:
        return read(shape)
    except (KeyError, TypeError, ValueError, CronFlowError) as error:
        reason = f"{type(error).__name__}: {error}"
        made = CronFlowError(f"the API answered with what this version of CronFlow cannot read ({reason})")
        made.add_note("install the version of the API here; cronflow version tells which one this is")
        raise made from error


def instant(text: str) -> datetime:
    """Of ISO 8601, with its offset. Raises ValueError."""
    return datetime.fromisoformat(text)


def optional_instant(text: str | None) -> datetime | None:
    """As `instant`; nothing stays nothing."""
    return None if text is None else instant(text)


def length(milliseconds: int) -> timedelta:
    """As long as that."""
    return timedelta(milliseconds=milliseconds)
