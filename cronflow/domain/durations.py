"""Durations and instants as text: parses `500ms`, `30s`, `1h30m` or a number of seconds, and formats for people."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from cronflow.domain.errors import InvalidInput

Duration = timedelta | str | int | float

UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_COARSE_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")
LONGEST = timedelta(days=36_500)
_ZERO = timedelta(0)
REMEMBERED = 4096
"""Many jobs have the same few durations."""


def parse_duration(value: Duration) -> timedelta:
    """Raises InvalidInput for anything that is not a duration, is negative, not finite, or longer than a century."""
    if isinstance(value, str):
        return _parsed(value)
    if isinstance(value, timedelta):
        return value if _ZERO <= value <= LONGEST else _within_limits(value.total_seconds(), value)
    if isinstance(value, bool):
        raise InvalidInput(f"{value!r} is not a duration; write 500ms, 30s, 5m, 2h or 1d")
    # Compared first: an int may be too large for a float.
    seconds = float(value) if abs(value) <= LONGEST.total_seconds() else math.copysign(math.inf, value)
    return _within_limits(seconds, value)


@lru_cache(maxsize=REMEMBERED)
def _parsed(value: str) -> timedelta:
    text = value.strip()
    if text.startswith("-"):
        raise InvalidInput(f"{value!r} is a negative duration; it must be zero or more")
    if not _WHOLE.fullmatch(text):
        raise InvalidInput(f"{value!r} is not a duration; write 500ms, 30s, 5m, 2h or 1d")
    return _within_limits(sum(float(number) * UNITS[unit] for number, unit in _PART.findall(text)), value)


def _within_limits(seconds: float, value: Duration) -> timedelta:
    if seconds < 0:
        raise InvalidInput(f"{value!r} is a negative duration; it must be zero or more")
    if not seconds <= LONGEST.total_seconds():
        raise InvalidInput(f"{value!r} is too long; the limit is a hundred years")
    return timedelta(seconds=seconds)


@lru_cache(maxsize=REMEMBERED)
def format_duration(value: timedelta) -> str:
    """Format a duration in the largest unit that divides it; `parse_duration` parses the same value back."""
    ms = round(value.total_seconds() * 1000)
    for unit in ("d", "h", "m", "s"):
        size = round(UNITS[unit] * 1000)
        if ms and ms % size == 0:
            return f"{ms // size}{unit}"
    return f"{ms}ms" if ms else "0s"


def absolute(instant: datetime) -> str:
    """For people: `2026-11-21 12:00:00Z`."""
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def to_the_minute(instant: datetime) -> str:
    """For sentences: `2026-11-21 12:00 UTC`; seconds only when there are any."""
    utc = instant.astimezone(UTC)
    return f"{utc:%Y-%m-%d %H:%M:%S} UTC" if utc.second else f"{utc:%Y-%m-%d %H:%M} UTC"


def span(length: timedelta) -> str:
    """How long something took: `340ms`, `3.2s`, `12m`, `3h 12m`."""
    seconds = length.total_seconds()
    if seconds < 0:
        return f"-{span(-length)}"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms"
    return f"{seconds:.1f}s" if seconds < 9.95 else coarse(round(seconds))


def coarse(seconds: int) -> str:
    """The two largest units; one where the second would be noise."""
    for place, (size, unit) in enumerate(_COARSE_UNITS):
        count, rest = divmod(seconds, size)
        if not count:
            continue
        if place + 1 < len(_COARSE_UNITS) and (count < 10 or unit == "h"):
            size, small = _COARSE_UNITS[place + 1]
            if rest // size:
                return f"{count}{unit} {rest // size}{small}"
        return f"{count}{unit}"
    return "0s"
