"""`/users`, `/api-keys`, `/secrets` and `/audit`: for admins."""

from __future__ import annotations

from typing import Annotated, NotRequired

from fastapi import Path, Query, Response

from cronflow.api.access import Admin
from cronflow.api.bodies import Body, Uses, at_most, fields_of, takes
from cronflow.api.pagination import Cursor, Limit, first_of, name_key
from cronflow.api.responses import may, new_router
from cronflow.documents.values import choice, flag, instant, list_of, optional, text
from cronflow.domain.access import LONGEST_PASSWORD, Role
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.secret import LONGEST as LONGEST_SECRET
from cronflow.ports import AuditQuery
from cronflow.schemas import Schema
from cronflow.schemas.access import (
    AuditSchema,
    KeySchema,
    NewKeySchema,
    SecretSchema,
    SecretSetSchema,
    UserSchema,
    audit_schema,
    key_schema,
    secret_schema,
    user_schema,
)

users = new_router("users")
keys = new_router("api-keys")
secrets = new_router("secrets")
audit = new_router("audit")

MOST_PATTERNS = 100


class UserInput(Schema):
    """A new user."""

    name: str
    """The name."""
    password: str
    """The password, 8 characters or more."""
    role: NotRequired[Role]
    """What the user may do; viewer unless it is given."""


class UserPatch(Schema):
    """What of a user is to change."""

    role: NotRequired[Role]
    """What the user may do."""
    enabled: NotRequired[bool]
    """Whether the user may log in."""
    password: NotRequired[str]
    """The password."""


class KeyInput(Schema):
    """A new API key."""

    name: str
    """The name."""
    role: NotRequired[Role]
    """What it may do; viewer unless it is given."""
    jobs: NotRequired[list[str]]
    """Patterns of the names of the jobs that it is for, such as `billing-*`; everything unless they are given."""
    expires_at: NotRequired[str | None]
    """Until when it is good; for ever unless it is given."""


class SecretInput(Schema):
    """A secret."""

    name: str
    """The name."""
    value: str
    """The value."""


class UserPage(Schema):
    """Users, by name."""

    items: list[UserSchema]
    """The users; the admin of the settings is none of them."""
    next_cursor: str | None
    """For the next page; null: this is the last one."""


class KeyPage(Schema):
    """API keys, by name."""

    items: list[KeySchema]
    """The keys."""
    next_cursor: str | None
    """For the next page; null: this is the last one."""


class SecretPage(Schema):
    """The names of secrets."""

    items: list[SecretSchema]
    """The names."""
    next_cursor: str | None
    """For the next page; null: this is the last one."""


class AuditPage(Schema):
    """Entries of the audit log, the newest first."""

    items: list[AuditSchema]
    """The entries."""
    next_cursor: str | None
    """For the next page; null: this is the last one."""


Name = Annotated[str, Path(description="Its name.")]
_password = at_most(LONGEST_PASSWORD)
_role = choice(Role)
_USER_PATCH = {"role": _role, "enabled": flag, "password": _password}
_USER = {"name": text, "role": _role, "password": _password}
_KEY = {"name": text, "role": _role, "jobs": list_of(text, "patterns"), "expires_at": optional(instant)}
_SECRET = {"name": text, "value": at_most(LONGEST_SECRET)}


@users.get("/users")
async def list_users(service: Uses, _: Admin, cursor: Cursor = None, limit: Limit = 50) -> UserPage:
    """Users, by name. The admin of the settings is none of them."""
    found = await service.users.find(after=name_key(cursor), limit=limit + 1)
    shown, after = first_of(found, limit, lambda user: user.name)
    return {"items": [user_schema(user) for user in shown], "next_cursor": after}


@users.post(
    "/users",
    status_code=201,
    responses=may(409),
    openapi_extra=takes("UserInput", {"name": "grace", "role": "operator", "password": "a long password"}),
)
async def create_user(service: Uses, by: Admin, body: Body) -> UserSchema:
    """Create a user. 409 when the name exists."""
    asked = fields_of(body, _USER, ["name", "password"])
    return user_schema(
        await service.users.create(asked["name"], asked.get("role", Role.VIEWER), asked["password"], by=by.name)
    )


@users.patch("/users/{name}", responses=may(404, 409), openapi_extra=takes("UserPatch", {"enabled": False}))
async def change_user(service: Uses, by: Admin, name: Name, body: Body) -> UserSchema:
    """Change a user's role or password, or disable or enable the user; the user's sessions end."""
    return user_schema(await service.users.change(name, **fields_of(body, _USER_PATCH), by=by.name))


@users.delete("/users/{name}", status_code=204, response_class=Response, responses=may(404))
async def delete_user(service: Uses, by: Admin, name: Name) -> None:
    """Delete a user; the user's sessions end."""
    await service.users.delete(name, by=by.name)


@keys.get("/api-keys")
async def list_keys(service: Uses, _: Admin, cursor: Cursor = None, limit: Limit = 50) -> KeyPage:
    """API keys, by name."""
    found = await service.keys.find(after=name_key(cursor), limit=limit + 1)
    shown, after = first_of(found, limit, lambda key: key.name)
    return {"items": [key_schema(key) for key in shown], "next_cursor": after}


@keys.post(
    "/api-keys",
    status_code=201,
    responses=may(409),
    openapi_extra=takes("KeyInput", {"name": "deploy", "role": "operator", "jobs": ["billing-*"]}),
)
async def create_key(service: Uses, by: Admin, body: Body) -> NewKeySchema:
    """Create an API key. `key` is shown this once. 409 when the name exists."""
    asked = fields_of(body, _KEY, ["name"])
    jobs = asked.get("jobs", ())
    if len(jobs) > MOST_PATTERNS:
        raise InvalidInput(Problem("jobs", f"has {len(jobs)} patterns; at most {MOST_PATTERNS} are allowed"))
    key, made = await service.keys.create(
        asked["name"], asked.get("role", Role.VIEWER), jobs=jobs, expires_at=asked.get("expires_at"), by=by.name
    )
    return {**key_schema(key), "key": made}


@keys.delete("/api-keys/{name}", status_code=204, response_class=Response, responses=may(404))
async def delete_key(service: Uses, by: Admin, name: Name) -> None:
    """Delete an API key."""
    await service.keys.delete(name, by=by.name)


@secrets.get("/secrets")
async def list_secrets(service: Uses, _: Admin, cursor: Cursor = None, limit: Limit = 50) -> SecretPage:
    """The names of the secrets."""
    found = await service.secrets.find(after=name_key(cursor), limit=limit + 1)
    shown, after = first_of(found, limit, lambda secret: secret.name)
    return {"items": [secret_schema(secret) for secret in shown], "next_cursor": after}


@secrets.post(
    "/secrets",
    status_code=201,
    responses={200: {"model": SecretSetSchema, "description": "It was replaced."}},
    openapi_extra=takes("SecretInput", {"name": "shop-token", "value": "what the shop gave us"}),
)
async def set_secret(service: Uses, by: Admin, body: Body, response: Response) -> SecretSetSchema:
    """Set a secret, new or not."""
    asked = fields_of(body, _SECRET, ["name", "value"])
    new = await service.secrets.set(asked["name"], asked["value"], by=by.name)
    response.status_code = 201 if new else 200
    return {"name": asked["name"], "new": new}


@secrets.delete("/secrets/{name}", status_code=204, response_class=Response, responses=may(404))
async def delete_secret(service: Uses, by: Admin, name: Name) -> None:
    """Delete a secret."""
    await service.secrets.delete(name, by=by.name)


@audit.get("/audit")
async def list_changes(
    service: Uses,
    _: Admin,
    by: Annotated[str | None, Query(max_length=300, description="By this one alone.")] = None,
    action: Annotated[str | None, Query(max_length=100, description="Only these, such as `job.change`.")] = None,
    target: Annotated[str | None, Query(max_length=300, description="Only of this, such as `job:report`.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> AuditPage:
    """Who changed what, the newest first."""
    query = AuditQuery(by=by, action=action, target=target, before=name_key(cursor) or None, limit=limit + 1)
    found = await service.backends.audit.find(query)
    shown, after = first_of(found, limit, lambda entry: entry.id)
    return {"items": [audit_schema(entry) for entry in shown], "next_cursor": after}
