"""Users, API keys, secrets and audit entries. Credentials appear only in the one response that hands them out."""

from __future__ import annotations

from typing import Literal, TypedDict

from cronflow.domain.access import ApiKey, AuditEntry, Principal, Role, Secret, User
from cronflow.schemas import Schema, iso, optional_iso


class AccessSchema(Schema):
    """An access token."""

    access_token: str
    """Send it as `Authorization: Bearer …`."""
    expires_in: int
    """Lifetime of the access token in seconds."""
    token_type: Literal["Bearer"]
    """Authentication scheme."""


class TokensSchema(AccessSchema):
    """The tokens of a login or refresh."""

    refresh_token: str
    """Exchange it once for new tokens."""


class TicketSchema(Schema):
    """A ticket for opening the live stream."""

    ticket: str
    """Valid for one connection."""
    expires_in: float
    """Lifetime in seconds."""


class PrincipalSchema(Schema):
    """The authenticated user or key."""

    name: str
    """User name, or `key:` and the name of the key; recorded as the author of changes."""
    role: Role
    """Role."""
    jobs: list[str]
    """Name patterns of the jobs to which the role is limited; empty: no limit."""
    allow_shell: bool
    """Whether an editor may write jobs that run commands."""
    allow_secrets: bool
    """Whether an editor may write jobs that use secrets."""


class UserSchema(Schema):
    """A user."""

    name: str
    """The name."""
    role: Role
    """Role of the user."""
    jobs: list[str]
    """Name patterns of the jobs that an editor may change and run; empty: no limit."""
    allow_shell: bool
    """Whether an editor may write jobs that run commands."""
    allow_secrets: bool
    """Whether an editor may write jobs that use secrets."""
    enabled: bool
    """Whether the user may log in."""
    created_at: str
    """When it was created."""


class KeySchema(Schema):
    """An API key, without its text."""

    name: str
    """The name."""
    role: Role
    """Role of the key."""
    jobs: list[str]
    """Name patterns of the jobs to which the key is limited; empty: no limit."""
    allow_shell: bool
    """Whether an editor may write jobs that run commands."""
    allow_secrets: bool
    """Whether an editor may write jobs that use secrets."""
    created_at: str
    """When it was created."""
    created_by: str | None
    """Who created it."""
    expires_at: str | None
    """When it expires; null: never."""
    last_used_at: str | None
    """When it was last used, with a precision of five minutes; null: never."""


class NewKeySchema(KeySchema):
    """A new API key."""

    key: str
    """The text of the key. It is shown only once."""


class SecretSchema(Schema):
    """The name of a secret."""

    name: str
    """The name."""
    updated_at: str
    """When it was set."""
    updated_by: str | None
    """Who set it."""


class SecretSetSchema(Schema):
    """A secret that was set."""

    name: str
    """The name."""
    new: bool
    """Whether the secret is new."""


class AuditSchema(Schema):
    """An entry of the audit log."""

    id: str
    """Ids sort by time."""
    at: str
    """When."""
    by: str | None
    """Who did it."""
    action: str
    """Action, such as `job.change`."""
    target: str
    """Target, such as `job:nightly-report`."""
    before: object
    """State before the change; null: it did not exist."""
    after: object
    """State after the change; null: it no longer exists."""
    address: str | None
    """Client address; null: changed from the command line."""


class _Rights(TypedDict):
    role: Role
    jobs: list[str]
    allow_shell: bool
    allow_secrets: bool


def _rights(holder: Principal | User | ApiKey) -> _Rights:
    return {
        "role": holder.role,
        "jobs": list(holder.jobs),
        "allow_shell": holder.allow_shell,
        "allow_secrets": holder.allow_secrets,
    }


def principal_schema(principal: Principal) -> PrincipalSchema:
    """The authenticated user or key."""
    return {"name": principal.name, **_rights(principal)}


def user_schema(user: User) -> UserSchema:
    return {"name": user.name, **_rights(user), "enabled": user.enabled, "created_at": iso(user.created_at)}


def key_schema(key: ApiKey) -> KeySchema:
    """An API key."""
    return {
        "name": key.name,
        **_rights(key),
        "created_at": iso(key.created_at),
        "created_by": key.created_by or None,
        "expires_at": optional_iso(key.expires_at),
        "last_used_at": optional_iso(key.last_used_at),
    }


def secret_schema(secret: Secret) -> SecretSchema:
    return {"name": secret.name, "updated_at": iso(secret.updated_at), "updated_by": secret.updated_by or None}


def audit_schema(entry: AuditEntry) -> AuditSchema:
    return {
        "id": entry.id,
        "at": iso(entry.at),
        "by": entry.by or None,
        "action": entry.action,
        "target": entry.target,
        "before": entry.before,
        "after": entry.after,
        "address": entry.address,
    }
