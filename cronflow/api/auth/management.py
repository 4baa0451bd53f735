"""`/users`, `/api-keys`, `/secrets` and `/audit`: for admins."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import AwareDatetime, Field

from cronflow.api.access import needs
from cronflow.api.auth.bodies import Body, Cursor, Limit, Page, page
from cronflow.domain.access import LONGEST_PASSWORD, Principal, Role
from cronflow.domain.secret import LONGEST as LONGEST_SECRET
from cronflow.ports import AuditQuery
from cronflow.service import Service
from cronflow.shapes.access import audit_shape, key_shape, secret_shape, user_shape
from cronflow.shapes.plain import Shape

Admin = Annotated[Principal, needs(Role.ADMIN)]
Text = Annotated[str, Field(max_length=200)]
Password = Annotated[str, Field(max_length=LONGEST_PASSWORD)]


class NewUser(Body):
    """A user."""

    name: Text
    role: Role = Role.VIEWER
    password: Password


class UserChange(Body):
    """What of a user is to change."""

    role: Role | None = None
    enabled: bool | None = None
    password: Password | None = None


class NewKey(Body):
    """An API key; `jobs` are patterns of the names of the jobs that it is for, none means everything."""

    name: Text
    role: Role = Role.VIEWER
    jobs: list[Text] = Field(default_factory=list, max_length=100)
    expires_at: AwareDatetime | None = None


class NewSecret(Body):
    """A secret."""

    name: Text
    value: str = Field(max_length=LONGEST_SECRET)


def management_routes(service: Service) -> APIRouter:
    """The routes of those who manage who may ask, and what jobs keep secret."""
    router = APIRouter()
    for add in (_users, _keys, _secrets, _audit):
        add(router, service)
    return router


def _users(router: APIRouter, service: Service) -> None:
    @router.get("/users", tags=["users"])
    async def users(_: Admin, cursor: Cursor = "", limit: Limit = 100) -> Page:
        """Users by name; the admin of the settings is none of them."""
        found = await service.users.find(after=cursor, limit=limit + 1)
        return page(found, limit, user_shape, lambda user: user.name)

    @router.post("/users", status_code=201, tags=["users"])
    async def create(body: NewUser, principal: Admin) -> Shape:
        """Create a user."""
        return user_shape(await service.users.create(body.name, body.role, body.password, by=principal.name))

    @router.patch("/users/{name}", tags=["users"])
    async def change(name: str, body: UserChange, principal: Admin) -> Shape:
        """Change a user's role or password, or disable or enable them; their sessions end."""
        changed = await service.users.change(
            name, role=body.role, enabled=body.enabled, password=body.password, by=principal.name
        )
        return user_shape(changed)

    @router.delete("/users/{name}", status_code=204, tags=["users"])
    async def delete(name: str, principal: Admin) -> None:
        """Delete a user; their sessions end."""
        await service.users.delete(name, by=principal.name)


def _keys(router: APIRouter, service: Service) -> None:
    @router.get("/api-keys", tags=["api-keys"])
    async def keys(_: Admin, cursor: Cursor = "", limit: Limit = 100) -> Page:
        """API keys by name."""
        found = await service.keys.find(after=cursor, limit=limit + 1)
        return page(found, limit, key_shape, lambda key: key.name)

    @router.post("/api-keys", status_code=201, tags=["api-keys"])
    async def create(body: NewKey, principal: Admin) -> Shape:
        """Create an API key. `key` is shown this once."""
        key, text = await service.keys.create(
            body.name, body.role, jobs=tuple(body.jobs), expires_at=_utc(body.expires_at), by=principal.name
        )
        return {**key_shape(key), "key": text}

    @router.delete("/api-keys/{name}", status_code=204, tags=["api-keys"])
    async def delete(name: str, principal: Admin) -> None:
        """Delete an API key."""
        await service.keys.delete(name, by=principal.name)


def _secrets(router: APIRouter, service: Service) -> None:
    @router.get("/secrets", tags=["secrets"])
    async def secrets(_: Admin, cursor: Cursor = "", limit: Limit = 100) -> Page:
        """The names of the secrets."""
        found = await service.secrets.find(after=cursor, limit=limit + 1)
        return page(found, limit, secret_shape, lambda secret: secret.name)

    @router.post("/secrets", status_code=201, tags=["secrets"], responses={200: {"description": "It was replaced."}})
    async def put(body: NewSecret, principal: Admin, response: Response) -> Shape:
        """Set a secret, new or not."""
        new = await service.secrets.set(body.name, body.value, by=principal.name)
        response.status_code = 201 if new else 200
        return {"name": body.name, "new": new}

    @router.delete("/secrets/{name}", status_code=204, tags=["secrets"])
    async def delete(name: str, principal: Admin) -> None:
        """Delete a secret."""
        await service.secrets.delete(name, by=principal.name)


def _audit(router: APIRouter, service: Service) -> None:
    @router.get("/audit", tags=["audit"])
    async def audit(
        _: Admin,
        cursor: Cursor = "",
        limit: Limit = 100,
        by: Annotated[str | None, Query(max_length=300)] = None,
        action: Annotated[str | None, Query(max_length=100)] = None,
        target: Annotated[str | None, Query(max_length=300)] = None,
    ) -> Page:
        """Who changed what, the newest first."""
        query = AuditQuery(by=by, action=action, target=target, before=cursor or None, limit=limit + 1)
        return page(await service.audit(query), limit, audit_shape, lambda entry: entry.id)


def _utc(instant: datetime | None) -> datetime | None:
    return None if instant is None else instant.astimezone(UTC)
