"""Instants and lengths of time in words: `2026-11-21 12:00:00Z`, `3h 12m`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))


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
    for place, (size, unit) in enumerate(_UNITS):
        count, rest = divmod(seconds, size)
        if not count:
            continue
        if place + 1 < len(_UNITS) and (count < 10 or unit == "h"):
            size, small = _UNITS[place + 1]
            if rest // size:
                return f"{count}{unit} {rest // size}{small}"
        return f"{count}{unit}"
    return "0s"
