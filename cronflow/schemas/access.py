"""Users, API keys, secrets and audit entries. What logs in, or is secret, has no shape, but for the one time that it is
given out.
"""

from __future__ import annotations

from typing import Literal

from cronflow.domain.access import ApiKey, AuditEntry, Principal, Role, Secret, User
from cronflow.schemas.base import Schema, iso, optional_iso


class TokensSchema(Schema):
    """What a login, or a refresh, gave."""

    access_token: str
    """For `Authorization: Bearer …`."""
    refresh_token: str
    """For new tokens, once."""
    expires_in: int
    """How long the access token is good for, in seconds."""
    token_type: Literal["Bearer"]
    """How it is sent."""


class TicketSchema(Schema):
    """A ticket for the stream."""

    ticket: str
    """For one entrance."""
    expires_in: float
    """For how long, in seconds."""


class PrincipalSchema(Schema):
    """Who asks."""

    name: str
    """The user, or `key:` and the name of the key: the author of what is changed."""
    role: Role
    """What may be done."""
    jobs: list[str]
    """Patterns of the names of the jobs that the role is for; empty: everything."""


class UserSchema(Schema):
    """Somebody with a password."""

    name: str
    """The name."""
    role: Role
    """What the user may do."""
    enabled: bool
    """Whether the user may log in."""
    created_at: str
    """When it was created."""


class KeySchema(Schema):
    """An API key, without what it logs in with."""

    name: str
    """The name."""
    role: Role
    """What it may do."""
    jobs: list[str]
    """Patterns of the names of the jobs that it is for; empty: everything."""
    created_at: str
    """When it was created."""
    created_by: str | None
    """Who created it."""
    expires_at: str | None
    """Until when it is good; null: for ever."""
    last_used_at: str | None
    """When it was last used, exact to some minutes; null: never."""


class NewKeySchema(KeySchema):
    """An API key as it was made."""

    key: str
    """What it logs in with. It is shown this once."""


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
    """Whether there was none of this name."""


class AuditSchema(Schema):
    """A change that somebody made."""

    id: str
    """Ids sort by time."""
    at: str
    """When."""
    by: str | None
    """Who."""
    action: str
    """What was done, such as `job.change`."""
    target: str
    """To what, such as `job:nightly-report`."""
    before: object
    """What was changed, as it was; null: it did not exist."""
    after: object
    """What it became; null: it does not exist any more."""
    address: str | None
    """From where; null: by the command line."""


def principal_schema(principal: Principal) -> PrincipalSchema:
    """Who asks."""
    return {"name": principal.name, "role": principal.role, "jobs": list(principal.jobs)}


def user_schema(user: User) -> UserSchema:
    """A user."""
    return {"name": user.name, "role": user.role, "enabled": user.enabled, "created_at": iso(user.created_at)}


def key_schema(key: ApiKey) -> KeySchema:
    """An API key."""
    return {
        "name": key.name,
        "role": key.role,
        "jobs": list(key.jobs),
        "created_at": iso(key.created_at),
        "created_by": key.created_by or None,
        "expires_at": optional_iso(key.expires_at),
        "last_used_at": optional_iso(key.last_used_at),
    }


def secret_schema(secret: Secret) -> SecretSchema:
    """The name of a secret, and who set it."""
    return {"name": secret.name, "updated_at": iso(secret.updated_at), "updated_by": secret.updated_by or None}


def audit_schema(entry: AuditEntry) -> AuditSchema:
    """An entry of the audit log."""
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
