"""Reads systemd's unit files: sections, continued lines, keys that occur several times, drop-ins, time spans.

The rule: an empty value resets a key, as in systemd, and a drop-in is read after its unit. Specifiers other than those
of an instance are left to the caller.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from pathlib import PurePath

from cronflow.domain.errors import InvalidInput, Problem

_UNITS = {
    "us": 1e-6, "usec": 1e-6, "ms": 1e-3, "msec": 1e-3,
    "": 1, "s": 1, "sec": 1, "second": 1, "seconds": 1,
    "m": 60, "min": 60, "minute": 60, "minutes": 60,
    "h": 3600, "hr": 3600, "hour": 3600, "hours": 3600,
    "d": 86400, "day": 86400, "days": 86400,
    "w": 604800, "week": 604800, "weeks": 604800,
    "M": 2629800, "month": 2629800, "months": 2629800,
    "y": 31557600, "year": 31557600, "years": 31557600,
}  # fmt: skip
_SPAN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_FRAGMENT = re.compile(r"^# (/\S+\.(?:timer|service|conf))$", re.MULTILINE)
MOST_CHARACTERS_OF_SPAN = 100


class UnitFile:
    """The values of a unit, by section and key, and the pairs in the order of the file."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self._values: dict[tuple[str, str], list[str]] = {}
        section = ""
        for line in _lines(text):
            if line.startswith("[") and line.endswith("]"):
                section = line[1:-1]
                continue
            key, sign, value = line.partition("=")
            if not sign:
                raise InvalidInput(Problem(name, f"{line[:80]!r} is not a line of a unit file", "write KEY=VALUE"))
            values = self._values.setdefault((section, key.strip()), [])
            if value.strip():
                values.append(value.strip())
            else:
                values.clear()

    def all(self, section: str, key: str) -> list[str]:
        return self._values.get((section, key), [])

    def last(self, section: str, key: str) -> str | None:
        values = self.all(section, key)
        return values[-1] if values else None

    def flag(self, section: str, key: str) -> bool:
        return (self.last(section, key) or "").lower() in ("1", "yes", "true", "on", "y", "t")

    def others(self, section: str, known: Iterable[str]) -> list[str]:
        """The lines of a section whose keys are not known."""
        left_out = set(known)
        return [
            f"{key}={value}"
            for (where, key), values in self._values.items()
            if where == section and key not in left_out
            for value in values
        ]


def units_in(text: str) -> dict[str, str]:
    """The text of each unit in the output of `systemctl cat`, by name; drop-ins follow their unit."""
    found: dict[str, str] = {}
    parts = _FRAGMENT.split(text)
    for path, part in zip(parts[1::2], parts[2::2], strict=True):
        where = PurePath(path)
        name = where.parent.name.removesuffix(".d") if where.suffix == ".conf" else where.name
        found[name] = found.get(name, "") + part
    return found


def parse_span(text: str) -> timedelta:
    """A time span such as `1h 30min`; a number alone is seconds. Raises InvalidInput."""
    total, position = 0.0, 0
    while position < len(text) <= MOST_CHARACTERS_OF_SPAN:
        found = _SPAN.match(text, position)
        if found is None or found[2] not in _UNITS:
            break
        total += float(found[1]) * _UNITS[found[2]]
        position = found.end()
    if not text.strip() or text[position:].strip():
        raise InvalidInput(Problem("", f"{text[:80]!r} is not a time span", "write it like 1h 30min"))
    try:
        return timedelta(seconds=total)
    except OverflowError:
        raise InvalidInput(Problem("", f"{text[:80]!r} is too long", "write a shorter one")) from None


def _lines(text: str) -> Iterable[str]:
    begun = ""
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith(("#", ";")):
            continue
        if line.endswith("\\"):
            begun += line[:-1].strip() + " "
            continue
        whole = (begun + stripped).strip()
        begun = ""
        if whole:
            yield whole
    if begun.strip():
        yield begun.strip()
