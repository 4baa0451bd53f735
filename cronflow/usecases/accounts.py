"""Users and API keys, for those who manage them. Every change has its entry in the audit log."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from cronflow.auth.passwords import Passwords
from cronflow.auth.texts import hashed, key_parts, key_text, random_text
from cronflow.domain.access import ApiKey, Principal, Role, User, check_password, check_patterns
from cronflow.domain.errors import BackendUnavailable, Conflict, InvalidInput, NotFound, Problem
from cronflow.domain.job import check_name
from cronflow.ports import Backends, Clock
from cronflow.usecases.audit import Auditor, Changed

USED_AGAIN_AFTER = timedelta(minutes=5)


class UserAccounts:
    """Creating, changing and deleting users. The admin of the settings is none of them; `reserved` is its name."""

    def __init__(self, backends: Backends, clock: Clock, passwords: Passwords, *, reserved: str) -> None:
        self._users = backends.users
        self._clock = clock
        self._passwords = passwords
        self._reserved = reserved
        self._auditor = Auditor(backends.audit, clock)

    async def find(self, *, after: str = "", limit: int = 500) -> list[User]:
        """By name, those behind `after`."""
        return await self._users.find(after=after, limit=limit)

    async def create(self, name: str, role: Role, password: str, *, by: str = "") -> User:
        """Raises InvalidInput, and Conflict when the name exists."""
        check_name(name, "user")
        if name == self._reserved:
            raise Conflict(f"{name} is the admin of the settings (ADMIN_USER)")
        user = User(
            name=name,
            role=role,
            password_hash=await self._passwords.hashed(check_password(password)),
            stamp=secrets.token_hex(16),
            created_at=self._clock.now(),
        )
        if not await self._users.create(user):
            raise Conflict(f"there is a user {name!r} already")
        await self._auditor.record(by, Changed("user.create", f"user:{name}", None, _user_facts(user)))
        return user

    async def change(
        self,
        name: str,
        *,
        role: Role | None = None,
        enabled: bool | None = None,
        password: str | None = None,
        by: str = "",
    ) -> User:
        """Change what is given, and end the user's sessions. Raises NotFound, InvalidInput; Conflict when somebody else
        changes the user at the same time.
        """
        before = await self._users.get(name)
        if before is None:
            raise NotFound("user", name)
        password_hash = before.password_hash
        if password is not None:
            password_hash = await self._passwords.hashed(check_password(password))
        after = replace(
            before,
            role=before.role if role is None else role,
            enabled=before.enabled if enabled is None else enabled,
            password_hash=password_hash,
            stamp=secrets.token_hex(16),
        )
        if not await self._users.replace(after, before.stamp):
            raise Conflict(f"user {name!r} was changed by somebody else; look again")
        facts = _user_facts(before), {**_user_facts(after), "new_password": password is not None}
        await self._auditor.record(by, Changed("user.change", f"user:{name}", *facts))
        return after

    async def delete(self, name: str, *, by: str = "") -> None:
        """Delete the user, whose sessions end. Raises NotFound."""
        before = await self._users.get(name)
        if before is None or not await self._users.delete(name):
            raise NotFound("user", name)
        await self._auditor.record(by, Changed("user.delete", f"user:{name}", _user_facts(before), None))


class ApiKeys:
    """Creating, deleting and recognizing API keys."""

    def __init__(self, backends: Backends, clock: Clock) -> None:
        self._keys = backends.keys
        self._clock = clock
        self._auditor = Auditor(backends.audit, clock)

    async def find(self, *, after: str = "", limit: int = 500) -> list[ApiKey]:
        """By name, those behind `after`."""
        return await self._keys.find(after=after, limit=limit)

    async def create(
        self,
        name: str,
        role: Role,
        *,
        jobs: tuple[str, ...] = (),
        expires_at: datetime | None = None,
        by: str = "",
    ) -> tuple[ApiKey, str]:
        """The key, and its text, which nobody can be told again. Raises InvalidInput, and Conflict when the name
        exists.
        """
        check_name(name, "key")
        now = self._clock.now()
        if expires_at is not None and expires_at <= now:
            raise InvalidInput(Problem("expires_at", "lies in the past"))
        random = random_text()
        key = ApiKey(
            name=name,
            role=role,
            key_hash=hashed(random),
            created_at=now,
            created_by=by,
            jobs=check_patterns(jobs),
            expires_at=expires_at,
        )
        if not await self._keys.create(key):
            raise Conflict(f"there is a key {name!r} already")
        await self._auditor.record(by, Changed("key.create", f"key:{name}", None, _key_facts(key)))
        return key, key_text(name, random)

    async def delete(self, name: str, *, by: str = "") -> None:
        """Delete the key; from now on it lets nobody in. Raises NotFound."""
        before = await self._keys.get(name)
        if before is None or not await self._keys.delete(name):
            raise NotFound("key", name)
        await self._auditor.record(by, Changed("key.delete", f"key:{name}", _key_facts(before), None))

    async def principal(self, text: str) -> Principal | None:
        """Who presents the text; None when there is no such key, or not any more."""
        parts = key_parts(text)
        key = None if parts is None else await self._keys.get(parts[0])
        if parts is None or key is None or not hmac.compare_digest(key.key_hash, hashed(parts[1])):
            return None
        now = self._clock.now()
        if key.expires_at is not None and key.expires_at <= now:
            return None
        if key.last_used_at is None or now - key.last_used_at >= USED_AGAIN_AFTER:
            await self._touch(key.name, now)
        return Principal(f"key:{key.name}", key.role, key.jobs)

    async def _touch(self, name: str, now: datetime) -> None:
        try:
            await self._keys.touch(name, now)
        except BackendUnavailable:
            # When a key was used last is for people; the request goes on without.
            return


def _user_facts(user: User) -> Mapping[str, object]:
    return {"role": user.role.value, "enabled": user.enabled}


def _key_facts(key: ApiKey) -> Mapping[str, object]:
    until = None if key.expires_at is None else key.expires_at.isoformat()
    return {"role": key.role.value, "jobs": list(key.jobs), "expires_at": until}
