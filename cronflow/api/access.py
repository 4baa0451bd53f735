"""Which role a route needs.

A route says `principal: Annotated[Principal, needs(Role.OPERATOR)]`, for which `Viewer`, `Operator` and `Admin` are
short; the gate that the application was made with finds out who asks. No route decides about access in any other way.
"""

from __future__ import annotations

from typing import Annotated, Any, Protocol

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant

from cronflow.domain.access import Principal, Role


class NotAuthenticated(Exception):
    """Nobody that is known asks: 401."""


class NotAllowed(Exception):
    """Whoever asks lacks the role: 403."""

    def __init__(self, needed: Role, principal: Principal) -> None:
        super().__init__(f"{principal.name} is {principal.role.value}; this needs {needed.value}")
        self.needed = needed


class Gate(Protocol):
    """Finds out who asks."""

    async def admit(self, request: Request) -> Principal:
        """Raises NotAuthenticated."""


class ClosedGate:
    """Admits nobody."""

    async def admit(self, request: Request) -> Principal:
        """Raises NotAuthenticated."""
        raise NotAuthenticated


def needs(role: Role) -> Any:
    """A dependency that gives the principal. Raises NotAuthenticated, NotAllowed."""

    async def principal(request: Request) -> Principal:
        gate: Gate = request.app.state.gate
        found = await gate.admit(request)
        if not found.role.covers(role):
            raise NotAllowed(role, found)
        return found

    principal.needed = role  # type: ignore[attr-defined]
    return Depends(principal)


def needed_by(dependant: Dependant) -> Role | None:
    """The role that a route needs; None: it has no `needs`."""
    for dependency in dependant.dependencies:
        role = getattr(dependency.call, "needed", None) or needed_by(dependency)
        if role is not None:
            return Role(role)
    return None


Viewer = Annotated[Principal, needs(Role.VIEWER)]
Operator = Annotated[Principal, needs(Role.OPERATOR)]
Admin = Annotated[Principal, needs(Role.ADMIN)]
