"""Users, sessions, keys, secrets, the audit log, rates and tickets, in dictionaries."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeVar

from cronflow.domain.access import ApiKey, AuditEntry, Principal, Secret, Session, User
from cronflow.ports import AuditQuery, Clock
from cronflow.testing.faults import Faults, verb

MONGO, REDIS = "MongoDB", "Redis"
Record = TypeVar("Record")


def _page(records: Mapping[str, Record], after: str, limit: int) -> list[Record]:
    return [record for name, record in sorted(records.items()) if name > after][:limit]


class MemoryUserStore:
    """The UserStore port."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.users: dict[str, User] = {}

    @verb(MONGO, "users.create")
    def create(self, user: User) -> bool:
        """Insert."""
        return self.users.setdefault(user.name, user) is user

    @verb(MONGO, "users.get")
    def get(self, name: str) -> User | None:
        """Look up."""
        return self.users.get(name)

    @verb(MONGO, "users.find")
    def find(self, *, after: str = "", limit: int = 500) -> list[User]:
        """Sort and cut."""
        return _page(self.users, after, limit)

    @verb(MONGO, "users.replace")
    def replace(self, user: User, stamp: str) -> bool:
        """Compare and set."""
        present = self.users.get(user.name)
        if present is None or present.stamp != stamp:
            return False
        self.users[user.name] = user
        return True

    @verb(MONGO, "users.delete")
    def delete(self, name: str) -> bool:
        """Delete."""
        return self.users.pop(name, None) is not None


class MemorySessionStore:
    """The SessionStore port."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.sessions: dict[str, Session] = {}

    @verb(MONGO, "sessions.create")
    def create(self, session: Session) -> None:
        """Insert."""
        self.sessions[session.id] = session

    @verb(MONGO, "sessions.get")
    def get(self, session: str) -> Session | None:
        """Look up."""
        return self.sessions.get(session)

    @verb(MONGO, "sessions.rotate")
    def rotate(self, session: str, old: str, new: str) -> bool:
        """Compare and set."""
        present = self.sessions.get(session)
        if present is None or present.token_hash != old:
            return False
        self.sessions[session] = replace(present, token_hash=new)
        return True

    @verb(MONGO, "sessions.end")
    def end(self, session: str) -> None:
        """Delete."""
        self.sessions.pop(session, None)


class MemoryKeyStore:
    """The KeyStore port."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.keys: dict[str, ApiKey] = {}

    @verb(MONGO, "keys.create")
    def create(self, key: ApiKey) -> bool:
        """Insert."""
        return self.keys.setdefault(key.name, key) is key

    @verb(MONGO, "keys.get")
    def get(self, name: str) -> ApiKey | None:
        """Look up."""
        return self.keys.get(name)

    @verb(MONGO, "keys.find")
    def find(self, *, after: str = "", limit: int = 500) -> list[ApiKey]:
        """Sort and cut."""
        return _page(self.keys, after, limit)

    @verb(MONGO, "keys.touch")
    def touch(self, name: str, at: datetime) -> None:
        """Set `last_used_at` alone."""
        if name in self.keys:
            self.keys[name] = replace(self.keys[name], last_used_at=at)

    @verb(MONGO, "keys.delete")
    def delete(self, name: str) -> bool:
        """Delete."""
        return self.keys.pop(name, None) is not None


class MemorySecretStore:
    """The SecretStore port."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.secrets: dict[str, Secret] = {}

    @verb(MONGO, "secrets.put")
    def put(self, secret: Secret) -> bool:
        """Insert or replace."""
        new = secret.name not in self.secrets
        self.secrets[secret.name] = secret
        return new

    @verb(MONGO, "secrets.get")
    def get(self, names: Collection[str]) -> list[Secret]:
        """Look up."""
        return [self.secrets[name] for name in set(names) if name in self.secrets]

    @verb(MONGO, "secrets.find")
    def find(self, *, after: str = "", limit: int = 500) -> list[Secret]:
        """Sort and cut."""
        return _page(self.secrets, after, limit)

    @verb(MONGO, "secrets.delete")
    def delete(self, name: str) -> bool:
        """Delete."""
        return self.secrets.pop(name, None) is not None


class MemoryAuditStore:
    """The AuditStore port. Like MongoDB's, an entry that is too old may be seen for a while."""

    def __init__(self, faults: Faults, clock: Clock) -> None:
        self.faults, self._clock = faults, clock
        self.entries: dict[str, AuditEntry] = {}

    @verb(MONGO, "audit.append")
    def append(self, entries: Sequence[AuditEntry]) -> None:
        """Insert the new ones."""
        for entry in entries:
            self.entries.setdefault(entry.id, entry)

    @verb(MONGO, "audit.find")
    def find(self, query: AuditQuery) -> list[AuditEntry]:
        """Filter, sort and cut."""
        found = [
            entry
            for _, entry in sorted(self.entries.items(), reverse=True)
            if (query.before is None or entry.id < query.before)
            and query.by in (None, entry.by)
            and query.action in (None, entry.action)
            and query.target in (None, entry.target)
        ]
        return found[: query.limit]

    @verb(MONGO, "audit.keep")
    def keep(self, retention: timedelta) -> None:
        """Delete those that are older now."""
        oldest = self._clock.now() - retention
        self.entries = {name: entry for name, entry in self.entries.items() if entry.at >= oldest}


class MemoryRateLimiter:
    """The RateLimiter port."""

    def __init__(self, faults: Faults, clock: Clock) -> None:
        self.faults, self._clock = faults, clock
        self._full: dict[str, float] = {}
        self._attempts: dict[str, tuple[int, float, float]] = {}

    @verb(REDIS, "limiter.take")
    def take(self, key: str, per_s: float, burst: int) -> float:
        """See rate_take.lua."""
        now, interval = self._clock.monotonic(), 1 / per_s
        full = max(self._full.get(key, 0.0), now) + interval
        excess = full - now - interval * burst
        # Sums of seconds are not exact, those of whole microseconds are.
        if round(excess * 1_000_000) > 0:
            return excess
        self._full[key] = full
        return 0.0

    @verb(REDIS, "limiter.attempt")
    def attempt(self, key: str, free: int, wait_s: float, most_s: float) -> float:
        """See rate_attempt.lua."""

        def wait(count: int) -> float:
            return min(most_s, wait_s * 2.0 ** min(count - free, 30)) if count >= free else 0.0

        now = self._clock.monotonic()
        count, at, until = self._attempts.get(key, (0, now, now))
        if now >= until:
            count, until = 0, now + wait_s
        elif now < at + wait(count):
            return at + wait(count) - now
        count += 1
        self._attempts[key] = count, now, now + 2 * wait(count) if count >= free else until
        return 0.0

    @verb(REDIS, "limiter.take_back")
    def take_back(self, key: str) -> None:
        """Count down."""
        if key in self._attempts:
            count, at, until = self._attempts[key]
            self._attempts[key] = max(0, count - 1), at, until

    @verb(REDIS, "limiter.forgive")
    def forgive(self, key: str) -> None:
        """Forget."""
        self._attempts.pop(key, None)


class MemoryTicketStore:
    """The TicketStore port."""

    def __init__(self, faults: Faults, clock: Clock) -> None:
        self.faults, self._clock = faults, clock
        self._tickets: dict[str, tuple[Principal, float]] = {}

    @verb(REDIS, "tickets.put")
    def put(self, ticket: str, principal: Principal, ttl_s: float) -> None:
        """Keep."""
        self._tickets[ticket] = principal, self._clock.monotonic() + ttl_s

    @verb(REDIS, "tickets.take")
    def take(self, ticket: str) -> Principal | None:
        """Remove, and compare the time."""
        principal, until = self._tickets.pop(ticket, (None, 0.0))
        return principal if self._clock.monotonic() < until else None
