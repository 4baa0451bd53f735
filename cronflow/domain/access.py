"""Who asks, and what that allows.

Three roles, each of which may do all that the one before it may: a viewer reads; an operator runs, pauses, retries,
cancels and drains; an admin changes jobs, users, keys and settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What somebody may do."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def covers(self, needed: Role) -> bool:
        """Whether it allows what `needed` allows."""
        order = list(Role)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks. `name` is what versions, runs and the audit log keep as the author of a change."""

    name: str
    role: Role
