"""`/sessions`: who is logged in, and how to end it. Everybody sees and revokes their own sessions, an admin all."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Response

from cronflow.api.access import NotAllowed, Viewer
from cronflow.api.bodies import Uses
from cronflow.api.pagination import Cursor, Limit, first_of, name_key
from cronflow.api.responses import may, new_router
from cronflow.domain.access import Principal, Role
from cronflow.domain.errors import NotFound
from cronflow.schemas import Schema
from cronflow.schemas.access import RevokedSchema, SessionSchema, session_schema

router = new_router("sessions")


class SessionPage(Schema):
    """Sessions."""

    items: list[SessionSchema]
    """The sessions."""
    next_cursor: str | None
    """For the next page; null: this is the last page."""


OfUser = Annotated[str | None, Query(max_length=300, description="Only sessions of this user.")]
OfOne = Annotated[str, Query(max_length=300, description="The user.")]


@router.get("/sessions")
async def list_sessions(
    service: Uses, principal: Viewer, user: OfUser = None, cursor: Cursor = None, limit: Limit = 50
) -> SessionPage:
    """The sessions of all users for an admin, your own for everybody else."""
    if user is None and principal.role is not Role.ADMIN:
        user = principal.name
    _check(principal, user)
    found = await service.sessions.find(user=user, after=name_key(cursor), limit=limit + 1)
    shown, after = first_of(found, limit, lambda session: f"{session.short_id}~")
    return {"items": [session_schema(session, principal.login) for session in shown], "next_cursor": after}


@router.delete("/sessions", responses=may(403))
async def revoke_sessions(service: Uses, principal: Viewer, user: OfOne) -> RevokedSchema:
    """Revoke all sessions of a user, and return them."""
    _check(principal, user)
    ended = await service.sessions.revoke_all(user, by=principal.name)
    return {"sessions": [session_schema(session, principal.login) for session in ended]}


@router.delete("/sessions/{id}", status_code=204, response_class=Response, responses=may(404))
async def revoke_session(
    service: Uses, principal: Viewer, name: Annotated[str, Path(alias="id", max_length=100, description="The session.")]
) -> None:
    """Revoke a session. 404 for those of others, unless you are an admin."""
    session = await service.sessions.get(name)
    if principal.role is not Role.ADMIN and session.user != principal.name:
        raise NotFound("session", name)
    await service.sessions.revoke(session, by=principal.name)


def _check(principal: Principal, user: str | None) -> None:
    if principal.role is not Role.ADMIN and user != principal.name:
        raise NotAllowed(Role.ADMIN, principal, f"{principal.name} may only see and revoke their own sessions")
