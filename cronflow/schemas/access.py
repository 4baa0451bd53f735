"""Users, API keys, secrets and audit entries. Credentials appear only in the one response that hands them out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

from cronflow.domain.access import ApiKey, AuditEntry, LoginMethod, Principal, Role, Secret, Session, User, UserSource
from cronflow.schemas import Schema, iso, optional_iso

if TYPE_CHECKING:
    from cronflow.usecases.secret_uses import SecretUse

MOST_JOBS_SHOWN = 50


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


class SignInSchema(Schema):
    """Single sign-on."""

    name: str
    """The name on the login button: Sign in with …."""
    url: str
    """The address that a browser opens."""


class LoginOptionsSchema(Schema):
    """How people can log in."""

    password: bool
    """Whether users have passwords; if not, only the admin from the settings has one."""
    single_sign_on: SignInSchema | None
    """Single sign-on; null: it is not configured."""


class DeviceLoginSchema(Schema):
    """A login that waits for a code to be entered in a browser."""

    handle: str
    """Ask for the tokens with it. Keep it secret."""
    user_code: str
    """The code to enter."""
    verification_uri: str
    """Where to enter it."""
    verification_uri_complete: str | None
    """The same address with the code; null: there is none."""
    interval: float
    """The minimum number of seconds between two requests for the tokens."""
    expires_in: float
    """Lifetime of the code in seconds."""


class PendingLoginSchema(Schema):
    """A login that is not complete."""

    slow_down: bool
    """Whether to ask less often."""


class LoopbackLoginSchema(Schema):
    """A login that waits for an answer on the machine of the client."""

    handle: str
    """Ask for the tokens with it. Keep it secret."""
    state: str
    """The answer must have this `state`."""
    url: str
    """The address to open in a browser."""
    expires_in: float
    """Lifetime of the login in seconds."""


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
    source: UserSource
    """`local`: created here, with a password; `oidc`: a person of the identity provider, whose groups determine the
    role.
    """
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


class SecretUseSchema(Schema):
    """Where a secret is used."""

    name: str
    """The secret, which may not be set."""
    jobs: list[str]
    """The first 50 jobs that refer to it, by name."""
    job_count: int
    """How many jobs refer to it."""
    alerts: list[str]
    """The alerts that refer to it."""


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


class SessionSchema(Schema):
    """A login that has not ended."""

    id: str
    """The id, by which it can be revoked."""
    user: str
    """The user."""
    method: LoginMethod
    """How it began: `password`, `oidc` (single sign-on in a browser) or `device` (with a code for devices)."""
    address: str | None
    """The address from which the user logged in; null: unknown."""
    agent: str
    """The program with which the user logged in, as it named itself; may be empty."""
    created_at: str | None
    """When it began; null: unknown."""
    last_used_at: str | None
    """When it was last used, with a precision of five minutes; null: unknown."""
    expires_at: str
    """When it expires at the latest."""
    current: bool
    """Whether this request belongs to it."""


class RevokedSchema(Schema):
    """Sessions that were revoked."""

    sessions: list[SessionSchema]
    """The sessions."""


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
    return {
        "name": user.name,
        **_rights(user),
        "enabled": user.enabled,
        "source": user.source,
        "created_at": iso(user.created_at),
    }


def session_schema(session: Session, current: str = "") -> SessionSchema:
    """A session; `current` is the id of the one that asks."""
    return {
        "id": session.short_id,
        "user": session.user,
        "method": session.method,
        "address": session.address,
        "agent": session.agent,
        "created_at": optional_iso(session.created_at),
        "last_used_at": optional_iso(session.last_used_at),
        "expires_at": iso(session.expires_at),
        "current": session.id == current,
    }


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


def secret_use_schema(name: str, use: SecretUse) -> SecretUseSchema:
    return {
        "name": name,
        "jobs": list(use.jobs[:MOST_JOBS_SHOWN]),
        "job_count": len(use.jobs),
        "alerts": list(use.alerts),
    }


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
