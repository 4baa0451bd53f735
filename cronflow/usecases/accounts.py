"""Use cases for users, API keys and secrets. Every change writes an entry to the audit log."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from cronflow.auth.passwords import Passwords
from cronflow.auth.tokens import hashed, key_parts, key_text, random_text
from cronflow.auth.vault import Vault
from cronflow.domain.access import ApiKey, Principal, Role, Secret, User, UserSource, check_limits, check_password
from cronflow.domain.errors import BackendUnavailable, Conflict, InvalidInput, NotFound, Problem
from cronflow.domain.job import check_name
from cronflow.domain.secret import check_secret_name, check_secret_value
from cronflow.ports import Clock, KeyStore, SecretStore, UserStore
from cronflow.usecases.audit import Auditor, Changed

TOUCH_AFTER = timedelta(minutes=5)
"""The last use of a key is stored with this precision."""
KEY_REMEDY = "make one with `openssl rand -base64 32`; the API and all nodes need the same key"


class UserAccounts:
    """Manages stored users. The admin of the settings is not stored; `reserved` is its name."""

    def __init__(self, users: UserStore, clock: Clock, audit: Auditor, passwords: Passwords, *, reserved: str) -> None:
        self._users = users
        self._clock = clock
        self._audit = audit
        self._passwords = passwords
        self._reserved = reserved

    async def find(self, *, after: str = "", limit: int = 500) -> list[User]:
        """Users by name, after the name `after`."""
        return await self._users.find(after=after, limit=limit)

    async def create(
        self,
        name: str,
        role: Role,
        password: str,
        *,
        jobs: Sequence[str] | None = None,
        allow_shell: bool = False,
        allow_secrets: bool = False,
        by: str = "",
    ) -> User:
        """Raises InvalidInput, and Conflict if the name exists."""
        check_name(name, "user")
        jobs = _limits_of_user(role, jobs, allow_shell=allow_shell, allow_secrets=allow_secrets)
        if name == self._reserved:
            raise Conflict(f"{name} is the admin from the settings (ADMIN_USER)")
        user = User(
            name=name,
            role=role,
            password_hash=await self._passwords.hashed(check_password(password)),
            stamp=secrets.token_hex(16),
            created_at=self._clock.now(),
            jobs=jobs,
            allow_shell=allow_shell,
            allow_secrets=allow_secrets,
        )
        if not await self._users.create(user):
            raise Conflict(f"user {name!r} already exists")
        await self._audit.record(by, Changed("user.create", f"user:{name}", None, _user_facts(user)))
        return user

    async def change(
        self,
        name: str,
        *,
        role: Role | None = None,
        enabled: bool | None = None,
        password: str | None = None,
        jobs: Sequence[str] | None = None,
        allow_shell: bool | None = None,
        allow_secrets: bool | None = None,
        by: str = "",
    ) -> User:
        """Change the given fields and end the user's sessions. A user who is no longer an editor loses the patterns and
        rights of one. Raises NotFound, InvalidInput, and Conflict if the user changes concurrently.
        """
        before = await self._users.get(name)
        if before is None:
            raise NotFound("user", name)
        given = (role, password, jobs, allow_shell, allow_secrets)
        if before.source is UserSource.OIDC and any(one is not None for one in given):
            remedy = "change the groups there, or OIDC_ROLES"
            what = (
                f"{name} comes from the identity provider, whose groups determine the role; only enabled can be changed"
            )
            raise InvalidInput(Problem("name", what, remedy))
        new_role = before.role if role is None else role
        kept = before if new_role is Role.EDITOR else replace(before, jobs=(), allow_shell=False, allow_secrets=False)
        shell = kept.allow_shell if allow_shell is None else allow_shell
        from_secrets = kept.allow_secrets if allow_secrets is None else allow_secrets
        wanted = kept.jobs or None if jobs is None else jobs
        jobs = _limits_of_user(new_role, wanted, allow_shell=shell, allow_secrets=from_secrets)
        password_hash = before.password_hash
        if password is not None:
            password_hash = await self._passwords.hashed(check_password(password))
        after = replace(
            before,
            role=new_role,
            jobs=jobs,
            allow_shell=shell,
            allow_secrets=from_secrets,
            enabled=before.enabled if enabled is None else enabled,
            password_hash=password_hash,
            stamp=secrets.token_hex(16),
        )
        if not await self._users.replace(after, before.stamp):
            raise Conflict(f"user {name!r} was changed by someone else; check it and try again")
        facts = _user_facts(before), {**_user_facts(after), "new_password": password is not None}
        await self._audit.record(by, Changed("user.change", f"user:{name}", *facts))
        return after

    async def delete(self, name: str, *, by: str = "") -> None:
        """Delete the user and end their sessions. Raises NotFound."""
        before = await self._users.get(name)
        if before is None or not await self._users.delete(name):
            raise NotFound("user", name)
        await self._audit.record(by, Changed("user.delete", f"user:{name}", _user_facts(before), None))


class ApiKeys:
    """Creates, deletes and verifies API keys."""

    def __init__(self, keys: KeyStore, clock: Clock, audit: Auditor) -> None:
        self._keys = keys
        self._clock = clock
        self._audit = audit

    async def find(self, *, after: str = "", limit: int = 500) -> list[ApiKey]:
        """Keys by name, after the name `after`."""
        return await self._keys.find(after=after, limit=limit)

    async def create(
        self,
        name: str,
        role: Role,
        *,
        jobs: Sequence[str] | None = None,
        allow_shell: bool = False,
        allow_secrets: bool = False,
        expires_at: datetime | None = None,
        by: str = "",
    ) -> tuple[ApiKey, str]:
        """Return the key and its text, which cannot be shown again. Without `jobs` it is for everything. Raises
        InvalidInput, and Conflict if the name exists.
        """
        check_name(name, "key")
        jobs = check_limits(role, jobs, allow_shell=allow_shell, allow_secrets=allow_secrets)
        now = self._clock.now()
        if expires_at is not None and expires_at <= now:
            raise InvalidInput(Problem("expires_at", "is in the past"))
        random = random_text()
        key = ApiKey(
            name=name,
            role=role,
            key_hash=hashed(random),
            created_at=now,
            created_by=by,
            jobs=jobs,
            allow_shell=allow_shell,
            allow_secrets=allow_secrets,
            expires_at=expires_at,
        )
        if not await self._keys.create(key):
            raise Conflict(f"key {name!r} already exists")
        await self._audit.record(by, Changed("key.create", f"key:{name}", None, _key_facts(key)))
        return key, key_text(name, random)

    async def delete(self, name: str, *, by: str = "") -> None:
        """Delete the key, which is rejected from now on. Raises NotFound."""
        before = await self._keys.get(name)
        if before is None or not await self._keys.delete(name):
            raise NotFound("key", name)
        await self._audit.record(by, Changed("key.delete", f"key:{name}", _key_facts(before), None))

    async def principal(self, text: str) -> Principal | None:
        """The principal of the key text; None if there is no such key or it has expired."""
        parts = key_parts(text)
        key = None if parts is None else await self._keys.get(parts[0])
        if parts is None or key is None or not hmac.compare_digest(key.key_hash, hashed(parts[1])):
            return None
        now = self._clock.now()
        if key.has_expired(now):
            return None
        if key.last_used_at is None or now - key.last_used_at >= TOUCH_AFTER:
            await self._touch(key.name, now)
        return key.principal

    async def _touch(self, name: str, now: datetime) -> None:
        try:
            await self._keys.touch(name, now)
        except BackendUnavailable:
            # The last use is only shown to people; the request does not depend on it.
            return


class SecretValues:
    """Sets and deletes secrets by name; values are never read back. `vault` is None without SECRETS_KEY, and then no
    secret can be set.
    """

    def __init__(self, store: SecretStore, clock: Clock, audit: Auditor, vault: Vault | None) -> None:
        self._secrets = store
        self._clock = clock
        self._audit = audit
        self._vault = vault

    async def find(self, *, after: str = "", limit: int = 500) -> list[Secret]:
        """Secrets by name, after the name `after`."""
        return await self._secrets.find(after=after, limit=limit)

    async def set(self, name: str, value: str, *, by: str = "") -> bool:
        """Seal the value and store it. Returns whether the secret is new. Raises InvalidInput."""
        check_secret_name(name)
        check_secret_value(value)
        if self._vault is None:
            raise InvalidInput(Problem("SECRETS_KEY", "is not set, so no secret can be stored", KEY_REMEDY))
        sealed = self._vault.seal(name, value)
        secret = Secret(name=name, sealed=sealed, updated_at=self._clock.now(), updated_by=by)
        new = await self._secrets.put(secret)
        await self._audit.record(by, Changed("secret.set", f"secret:{name}", None, {"new": new}))
        return new

    async def delete(self, name: str, *, by: str = "") -> None:
        """Delete it; attempts of jobs that refer to it fail from now on. Raises NotFound."""
        if not await self._secrets.delete(name):
            raise NotFound("secret", name)
        await self._audit.record(by, Changed("secret.delete", f"secret:{name}"))


def _limits_of_user(
    role: Role, jobs: Sequence[str] | None, *, allow_shell: bool, allow_secrets: bool
) -> tuple[str, ...]:
    if jobs and role in (Role.VIEWER, Role.OPERATOR):
        raise InvalidInput(Problem("jobs", f"cannot limit a user who is {role.value}", "use the role editor, or a key"))
    return check_limits(role, jobs, allow_shell=allow_shell, allow_secrets=allow_secrets)


def _user_facts(user: User) -> Mapping[str, object]:
    return {"role": user.role.value, "enabled": user.enabled, **_editor_facts(user)}


def _editor_facts(account: User | ApiKey) -> Mapping[str, object]:
    if account.role is not Role.EDITOR:
        return {}
    rights = {"allow_shell": account.allow_shell, "allow_secrets": account.allow_secrets}
    return {"jobs": list(account.jobs), **rights}


def _key_facts(key: ApiKey) -> Mapping[str, object]:
    until = None if key.expires_at is None else key.expires_at.isoformat()
    return {"role": key.role.value, "jobs": list(key.jobs), "expires_at": until, **_editor_facts(key)}
