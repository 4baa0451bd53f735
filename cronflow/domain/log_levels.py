"""The levels of a run's log lines, and how lines are searched."""

from __future__ import annotations

from collections.abc import Collection

from cronflow.domain.errors import InvalidInput, Problem

PROGRESS = "progress"
"""The level of a progress line: `12/40`, or `12` without a total. No level is below or above it."""
LEVELS = ("debug", "info", "success", "warn", "error")
GRAVE = frozenset({"warn", "error"})
"""Levels with an index of their own: they are rare and searched for most."""


def at_least(level: str) -> Collection[str]:
    """This level and all above it, in any case; progress stands alone. Raises InvalidInput."""
    name = level.lower()
    if name == PROGRESS:
        return frozenset({PROGRESS})
    if name not in LEVELS:
        raise InvalidInput(
            Problem("level", f"there is no level {level!r}", f"it is one of {', '.join((*LEVELS, PROGRESS))}")
        )
    return frozenset(LEVELS[LEVELS.index(name) :])


def says(text: str, wanted: str) -> bool:
    """Whether a text contains another one, ignoring case."""
    return wanted.casefold() in text.casefold()
