"""Lines that runs write: their levels, and how they are searched."""

from __future__ import annotations

from collections.abc import Collection

from cronflow.domain.errors import InvalidInput, Problem

PROGRESS = "progress"
"""The level of a line that says how far a handler is: `12/40`, or `12` where the total is not known. It stands beside
the others: no level is below or above it.
"""
LEVELS = ("debug", "info", "success", "warn", "error")
GRAVE = frozenset({"warn", "error"})
"""Levels that have an index of their own: they are rare, and they are what is looked for."""


def at_least(level: str) -> Collection[str]:
    """This level and all above it, whichever case it is written in; progress stands alone. Raises InvalidInput."""
    name = level.lower()
    if name == PROGRESS:
        return frozenset({PROGRESS})
    if name not in LEVELS:
        raise InvalidInput(
            Problem("level", f"there is no level {level!r}", f"it is one of {', '.join((*LEVELS, PROGRESS))}")
        )
    return frozenset(LEVELS[LEVELS.index(name) :])


def says(text: str, wanted: str) -> bool:
    """Whether a text contains what is looked for, in whatever case."""
    return wanted.casefold() in text.casefold()
