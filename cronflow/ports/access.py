"""Users, sessions, API keys, secrets and the audit log (MongoDB); rate limits and tickets (Redis)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from cronflow.domain.access import ApiKey, AuditEntry, Principal, Secret, Session, User


class UserStore(Protocol):
    """Users by name. Of the people of the identity provider, each has a subject of its own."""

    async def create(self, user: User) -> bool:
        """Insert. False if the name or the subject exists."""

    async def get(self, name: str) -> User | None: ...

    async def of_subject(self, subject: str) -> list[User]:
        """The user with this subject. Only in a database that CronFlow 0.12 has filled there may be several."""

    async def find(self, *, after: str = "", limit: int = 500) -> list[User]:
        """A page ordered by name, starting after `after`."""

    async def replace(self, user: User, stamp: str) -> bool:
        """Replace the user if it still has this stamp. False if the stamp differs or the user does not exist."""

    async def delete(self, name: str) -> bool:
        """False if the user does not exist."""


class SessionStore(Protocol):
    """Sessions by id. Ending a session deletes it."""

    async def create(self, session: Session) -> None:
        """Insert. Ids are unique."""

    async def get(self, session: str) -> Session | None:
        """The session, which may have expired. None if it has ended."""

    async def find(self, *, user: str | None = None, after: str = "", limit: int = 500) -> list[Session]:
        """A page ordered by id, starting after `after`: the sessions of a user, or all. Some may have expired."""

    async def rotate(self, session: str, old: str, new: str) -> bool:
        """Replace the token hash `old` by `new`. False if `old` is not the current one."""

    async def touch(self, session: str, at: datetime) -> None:
        """Set `last_used_at`. No effect if the session does not exist."""

    async def confirm(self, session: str, at: datetime, rules: str, grant: str) -> None:
        """Set `checked_at`, `rules` and `grant`. No effect if the session does not exist."""

    async def end(self, session: str) -> None:
        """Delete the session, if it exists."""


class KeyStore(Protocol):
    """API keys by name."""

    async def create(self, key: ApiKey) -> bool:
        """Insert. False if the name exists."""

    async def get(self, name: str) -> ApiKey | None:
        """The key, which may have expired."""

    async def find(self, *, after: str = "", limit: int = 500) -> list[ApiKey]:
        """A page ordered by name, starting after `after`."""

    async def touch(self, name: str, at: datetime) -> None:
        """Set `last_used_at`. No effect if the key does not exist."""

    async def delete(self, name: str) -> bool:
        """False if it does not exist."""


class SecretReader(Protocol):
    """Sealed secrets by name, to read."""

    async def get(self, names: Collection[str]) -> list[Secret]:
        """Those that exist, in no particular order."""


class SecretStore(SecretReader, Protocol):
    """Sealed secrets by name."""

    async def put(self, secret: Secret) -> bool:
        """Insert or replace. Returns whether it was inserted."""

    async def find(self, *, after: str = "", limit: int = 500) -> list[Secret]:
        """A page ordered by name, starting after `after`."""

    async def delete(self, name: str) -> bool:
        """False if it does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery:
    """A filter for audit entries, newest first. `job` is for the job itself and its runs. `since` is inclusive, `until`
    exclusive. `before` is the id of the last entry of the previous page.
    """

    by: str | None = None
    action: str | None = None
    target: str | None = None
    job: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    before: str | None = None
    limit: int = 100


class AuditStore(Protocol):
    """The audit log. Entries never change."""

    async def append(self, entries: Sequence[AuditEntry]) -> None:
        """Insert. Safe to repeat."""

    async def find(self, query: AuditQuery) -> list[AuditEntry]: ...

    async def keep(self, retention: timedelta) -> None:
        """From now on, delete entries older than this. Safe to repeat."""


class RateLimiter(Protocol):
    """Rate limits by key. They are lost when Redis loses its data."""

    async def take(self, key: str, per_s: float, burst: int) -> float:
        """Take one token from a bucket that holds `burst` and refills at `per_s`. Returns 0, or the seconds until the
        next token; no token is taken then.
        """

    async def attempt(self, key: str, free: int, wait_s: float, most_s: float) -> float:
        """Count an attempt that may fail, with exponential backoff. The first `free` attempts within `wait_s` are
        unlimited. The last of them and each further attempt block the key: for `wait_s` first, then twice as long each
        time, up to `most_s`. Returns 0, or the seconds the key is still blocked; the attempt is not counted then. The
        count restarts when the key is unused for as long again as it was blocked.
        """

    async def count(self, key: str, keep_s: float) -> int:
        """Count a use. Returns how many there were, with this one. They are forgotten after `keep_s` without one."""

    async def take_back(self, key: str) -> None:
        """Uncount the latest attempt, which succeeded."""

    async def forgive(self, key: str) -> None:
        """Reset the count of attempts or uses."""


class TicketStore(Protocol):
    """Single-use tickets that open the live stream, and logins that wait for the identity provider."""

    async def put(self, ticket: str, principal: Principal, ttl_s: float) -> None:
        """Store the principal of a ticket. `ticket` is a hash."""

    async def take(self, ticket: str) -> Principal | None:
        """Return the principal and delete the ticket. None if it does not exist or has expired."""

    async def put_login(self, key: str, sealed: str, ttl_s: float) -> None:
        """Store the sealed state of a login that has begun. `key` is a hash."""

    async def get_login(self, key: str) -> str | None:
        """Its state. None if it does not exist or has expired."""

    async def take_login(self, key: str) -> str | None:
        """Return its state and delete it: of concurrent callers one gets it."""
