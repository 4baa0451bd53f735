"""`/users`, `/api-keys`, `/secrets` and `/audit`: for admins."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Path, Query, Response
from pydantic import Field

from cronflow.api.access import Admin
from cronflow.api.bodies import Before, From, Input, Uses, body, reads, secret_text
from cronflow.api.pagination import Cursor, Limit, first_of, name_key
from cronflow.api.responses import may, new_router
from cronflow.documents.values import choice, flag, instant, optional
from cronflow.domain.access import LONGEST_PASSWORD, Role
from cronflow.domain.secret import LONGEST as LONGEST_SECRET
from cronflow.ports import AuditQuery
from cronflow.schemas import Schema
from cronflow.schemas.access import (
    AuditSchema,
    KeySchema,
    NewKeySchema,
    SecretSchema,
    SecretSetSchema,
    SecretUseSchema,
    UserSchema,
    audit_schema,
    key_schema,
    secret_schema,
    secret_use_schema,
    user_schema,
)
from cronflow.usecases.secret_uses import secret_uses

users = new_router("users")
keys = new_router("api-keys")
secrets = new_router("secrets")
audit = new_router("audit")

_role = reads(choice(Role), Role)
_password = secret_text(LONGEST_PASSWORD)
Patterns = Annotated[list[str] | None, Field(max_length=100)]
USER = {"name": "grace", "role": "operator", "password": "a long password"}
KEY = {"name": "deploy", "role": "editor", "jobs": ["billing-*"], "allow_shell": True}
SECRET = {"name": "shop-token", "value": "what the shop gave us"}


class UserInput(Input, json_schema_extra={"examples": [USER]}):
    """A new user."""

    name: str
    """The name."""
    password: Annotated[str, _password]
    """The password, at least 8 characters."""
    role: Annotated[Role, _role] = Role.VIEWER
    """What the user may do."""
    jobs: Patterns = None
    """Patterns of the names of the jobs that an editor may change and run; absent: all."""
    allow_shell: bool = False
    """Whether an editor may write jobs that run commands."""
    allow_secrets: bool = False
    """Whether an editor may write jobs that use secrets."""


class UserPatch(Input, json_schema_extra={"examples": [{"enabled": False}]}):
    """The fields of a user to change."""

    role: Annotated[Role | None, _role] = None
    """What the user may do. A user who is no longer an editor loses the patterns and rights of one."""
    jobs: Patterns = None
    """Patterns of the names of the jobs that an editor may change and run."""
    allow_shell: bool | None = None
    """Whether an editor may write jobs that run commands."""
    allow_secrets: bool | None = None
    """Whether an editor may write jobs that use secrets."""
    enabled: Annotated[bool | None, reads(flag, bool)] = None
    """Whether the user may log in."""
    password: Annotated[str | None, _password] = None
    """The password."""


class KeyInput(Input, json_schema_extra={"examples": [KEY]}):
    """A new API key."""

    name: str
    """The name."""
    role: Annotated[Role, _role] = Role.VIEWER
    """What the key may do."""
    jobs: Patterns = None
    """Patterns of job names that the key is limited to, such as `billing-*`; absent: no limit. An admin has none."""
    allow_shell: bool = False
    """Whether an editor may write jobs that run commands."""
    allow_secrets: bool = False
    """Whether an editor may write jobs that use secrets."""
    expires_at: Annotated[datetime | None, reads(optional(instant), str | None)] = None
    """When the key expires; null: never."""


class SecretInput(Input, json_schema_extra={"examples": [SECRET]}):
    """A secret."""

    name: str
    """The name."""
    value: Annotated[str, secret_text(LONGEST_SECRET)]
    """The value."""


class UserPage(Schema):
    """Users, by name."""

    items: list[UserSchema]
    """The users; the admin from the settings is not included."""
    next_cursor: str | None
    """For the next page; null: this is the last page."""


class KeyPage(Schema):
    """API keys, by name."""

    items: list[KeySchema]
    """The keys."""
    next_cursor: str | None
    """For the next page; null: this is the last page."""


class SecretPage(Schema):
    """The names of secrets."""

    items: list[SecretSchema]
    """The names."""
    next_cursor: str | None
    """For the next page; null: this is the last page."""


class SecretUsePage(Schema):
    """Where secrets are used."""

    items: list[SecretUseSchema]
    """The secrets that jobs and alerts refer to, by name, also those that are not set."""
    next_cursor: None
    """Always null: there is one page."""
    jobs_read: int
    """How many jobs were read; at most 20,000."""
    complete: bool
    """Whether these are all jobs."""


class AuditPage(Schema):
    """Entries of the audit log, newest first."""

    items: list[AuditSchema]
    """The entries."""
    next_cursor: str | None
    """For the next page; null: this is the last page."""


Name = Annotated[str, Path(description="Its name.")]


@users.get("/users")
async def list_users(service: Uses, _: Admin, cursor: Cursor = None, limit: Limit = 50) -> UserPage:
    """Users, by name. The admin of the settings is not included."""
    found = await service.users.find(after=name_key(cursor), limit=limit + 1)
    shown, after = first_of(found, limit, lambda user: user.name)
    return {"items": [user_schema(user) for user in shown], "next_cursor": after}


@users.post("/users", status_code=201, responses=may(409))
async def create_user(service: Uses, by: Admin, asked: Annotated[UserInput, body(UserInput)]) -> UserSchema:
    """Create a user. 409 when the name exists."""
    return user_schema(
        await service.users.create(
            asked.name,
            asked.role,
            asked.password,
            jobs=asked.jobs,
            allow_shell=asked.allow_shell,
            allow_secrets=asked.allow_secrets,
            by=by.name,
        )
    )


@users.patch("/users/{name}", responses=may(404, 409))
async def change_user(service: Uses, by: Admin, name: Name, asked: Annotated[UserPatch, body(UserPatch)]) -> UserSchema:
    """Change a user's role or password, or disable or enable the user. The user's sessions end."""
    return user_schema(
        await service.users.change(
            name,
            role=asked.role,
            enabled=asked.enabled,
            password=asked.password,
            jobs=asked.jobs,
            allow_shell=asked.allow_shell,
            allow_secrets=asked.allow_secrets,
            by=by.name,
        )
    )


@users.delete("/users/{name}", status_code=204, response_class=Response, responses=may(404))
async def delete_user(service: Uses, by: Admin, name: Name) -> None:
    """Delete a user. The user's sessions end."""
    await service.users.delete(name, by=by.name)


@keys.get("/api-keys")
async def list_keys(service: Uses, _: Admin, cursor: Cursor = None, limit: Limit = 50) -> KeyPage:
    """API keys, by name."""
    found = await service.keys.find(after=name_key(cursor), limit=limit + 1)
    shown, after = first_of(found, limit, lambda key: key.name)
    return {"items": [key_schema(key) for key in shown], "next_cursor": after}


@keys.post("/api-keys", status_code=201, responses=may(409))
async def create_key(service: Uses, by: Admin, asked: Annotated[KeyInput, body(KeyInput)]) -> NewKeySchema:
    """Create an API key. `key` is shown only this once. 409 when the name exists."""
    key, made = await service.keys.create(
        asked.name,
        asked.role,
        jobs=asked.jobs,
        allow_shell=asked.allow_shell,
        allow_secrets=asked.allow_secrets,
        expires_at=asked.expires_at,
        by=by.name,
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


@secrets.get("/secrets/uses")
async def list_secret_uses(service: Uses, _: Admin) -> SecretUsePage:
    """The jobs and alerts that refer to secrets, also to those that are not set."""
    found = await secret_uses(service.backends.jobs, service.backends.alerts)
    return {
        "items": [secret_use_schema(name, use) for name, use in found.by_secret.items()],
        "next_cursor": None,
        "jobs_read": found.jobs_read,
        "complete": found.complete,
    }


@secrets.post(
    "/secrets",
    status_code=201,
    responses={200: {"model": SecretSetSchema, "description": "Replaced."}},
)
async def set_secret(
    service: Uses, by: Admin, asked: Annotated[SecretInput, body(SecretInput)], response: Response
) -> SecretSetSchema:
    """Create or replace a secret."""
    new = await service.secrets.set(asked.name, asked.value, by=by.name)
    response.status_code = 201 if new else 200
    return {"name": asked.name, "new": new}


@secrets.delete("/secrets/{name}", status_code=204, response_class=Response, responses=may(404))
async def delete_secret(service: Uses, by: Admin, name: Name) -> None:
    """Delete a secret."""
    await service.secrets.delete(name, by=by.name)


@audit.get("/audit")
async def list_changes(
    service: Uses,
    _: Admin,
    by: Annotated[str | None, Query(max_length=300, description="Only changes by this principal.")] = None,
    action: Annotated[str | None, Query(max_length=100, description="Only this action, such as `job.change`.")] = None,
    target: Annotated[str | None, Query(max_length=300, description="Only this target, such as `job:report`.")] = None,
    job: Annotated[str | None, Query(max_length=300, description="Only this job and its runs.")] = None,
    since: From = None,
    until: Before = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> AuditPage:
    """Who changed what and who logged in, newest first."""
    before = name_key(cursor) or None
    query = AuditQuery(
        by=by, action=action, target=target, job=job, since=since, until=until, before=before, limit=limit + 1
    )
    found = await service.backends.audit.find(query)
    shown, after = first_of(found, limit, lambda entry: entry.id)
    return {"items": [audit_schema(entry) for entry in shown], "next_cursor": after}
