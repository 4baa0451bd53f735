"""Which role a route needs.

A route says `principal: Annotated[Principal, needs(Role.OPERATOR)]`, for which `Viewer`, `Operator` and `Admin` are
short; the gate that the application was made with finds out who asks. No route decides about access in any other way.
An API key that is for certain jobs reaches `/jobs/{…}` and `/runs/{…}` of these and nothing else: whatever is about
several jobs, or none, is refused here, so that a new route is closed to such keys until it is about one. Only who they
are themselves they may ask.
"""

from __future__ import annotations

from typing import Annotated, Any, Protocol

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant

from cronflow.domain.access import Principal, Role


class NotAuthenticated(Exception):
    """Nobody that is known asks: 401."""


class NotAllowed(Exception):
    """Whoever asks lacks the role, or the key is for other jobs: 403."""

    def __init__(self, needed: Role, principal: Principal, why: str = "") -> None:
        super().__init__(why or f"{principal.name} is {principal.role.value}; this needs {needed.value}")
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


def needs(role: Role, *, also_of_jobs: bool = False) -> Any:
    """A dependency that gives the principal. `also_of_jobs` lets in keys that are for certain jobs, wherever that is.
    Raises NotAuthenticated, NotAllowed.
    """

    async def principal(request: Request) -> Principal:
        gate: Gate = request.app.state.gate
        found = await gate.admit(request)
        if not found.role.covers(role):
            raise NotAllowed(role, found)
        if not (also_of_jobs or found.may_touch(job_of(request))):
            raise NotAllowed(role, found, f"{found.name} is for jobs such as {found.jobs[0]}, one at a time")
        return found

    principal.needed = role  # type: ignore[attr-defined]
    return Depends(principal)


def job_of(request: Request) -> str | None:
    """The job that the address is about: `/jobs/<job>` or `/runs/<job>@…`, where that word is a parameter of the route
    and no name of it.
    """
    match request.scope["path"].split("/"):
        case ["", "api", "v1", "jobs", job, *_] if job in request.path_params.values():
            return str(job)
        case ["", "api", "v1", "runs", run, *_] if "@" in run and run in request.path_params.values():
            return str(run).partition("@")[0]
    return None


def needed_by(dependant: Dependant) -> Role | None:
    """The role that a route needs; None: it has no `needs`."""
    for dependency in dependant.dependencies:
        role = getattr(dependency.call, "needed", None) or needed_by(dependency)
        if role is not None:
            return Role(role)
    return None


Anybody = Annotated[Principal, needs(Role.VIEWER, also_of_jobs=True)]
"""Whoever is known, for what is about himself alone."""
Viewer = Annotated[Principal, needs(Role.VIEWER)]
Operator = Annotated[Principal, needs(Role.OPERATOR)]
Admin = Annotated[Principal, needs(Role.ADMIN)]
