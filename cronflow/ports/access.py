"""Who may ask, what they changed, and what jobs keep secret. MongoDB stands behind the stores, Redis behind RateLimiter
and TicketStore. Every verb may raise BackendUnavailable; see the package.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from cronflow.domain.access import ApiKey, AuditEntry, Principal, Secret, Session, User


class UserStore(Protocol):
    """Users."""

    async def create(self, user: User) -> bool:
        """Insert. False when the name exists."""

    async def get(self, name: str) -> User | None:
        """The user, if there is one."""

    async def find(self, *, after: str = "", limit: int = 500) -> list[User]:
        """By name, those behind `after`."""

    async def replace(self, user: User, stamp: str) -> bool:
        """Replace the user who has this stamp. False when it is another, or nobody."""

    async def delete(self, name: str) -> bool:
        """False when there was nobody."""


class SessionStore(Protocol):
    """Sessions. One that has ended is gone."""

    async def create(self, session: Session) -> None:
        """Insert; an id is never used twice."""

    async def get(self, session: str) -> Session | None:
        """The session, if it has not ended; it may have expired."""

    async def rotate(self, session: str, old: str, new: str) -> bool:
        """Put the hash of a new token in place of the old one's. False when the old one is not the latest."""

    async def end(self, session: str) -> None:
        """Delete it; one that is gone is fine."""


class KeyStore(Protocol):
    """API keys."""

    async def create(self, key: ApiKey) -> bool:
        """Insert. False when the name exists."""

    async def get(self, name: str) -> ApiKey | None:
        """The key, if there is one; it may have expired."""

    async def find(self, *, after: str = "", limit: int = 500) -> list[ApiKey]:
        """By name, those behind `after`."""

    async def touch(self, name: str, at: datetime) -> None:
        """It was used then."""

    async def delete(self, name: str) -> bool:
        """False when there was none."""


class SecretStore(Protocol):
    """Secrets, sealed."""

    async def put(self, secret: Secret) -> bool:
        """Insert or replace. Returns whether it is new."""

    async def get(self, names: Collection[str]) -> list[Secret]:
        """Those that exist, in no order."""

    async def find(self, *, after: str = "", limit: int = 500) -> list[Secret]:
        """By name, those behind `after`."""

    async def delete(self, name: str) -> bool:
        """False when there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery:
    """Which entries to list, the newest first; `before` is the id of the last one of the page before."""

    by: str | None = None
    action: str | None = None
    target: str | None = None
    before: str | None = None
    limit: int = 100


class AuditStore(Protocol):
    """The audit log. Nothing changes an entry."""

    async def append(self, entries: Sequence[AuditEntry]) -> None:
        """Insert; repeating it is harmless."""

    async def find(self, query: AuditQuery) -> list[AuditEntry]:
        """List for people."""

    async def keep(self, retention: timedelta) -> None:
        """Delete entries when they are older than this, from now on; repeating it is harmless."""


class RateLimiter(Protocol):
    """Who asks too often. It forgets when Redis does."""

    async def take(self, key: str, per_s: float, burst: int) -> float:
        """One of so many a second, up to `burst` at once. Returns 0, or the seconds to wait and then
        counts nothing.
        """

    async def attempt(self, key: str, free: int, wait_s: float, most_s: float) -> float:
        """Count an attempt that may fail: `free` of them within `wait_s`; after the last of these and after each
        further one nobody may try for a while, for `wait_s` first, then twice as long each time, at most `most_s`.
        Returns 0, or the seconds to wait, and then counts nothing. Who keeps away as long again begins anew.
        """

    async def take_back(self, key: str) -> None:
        """The latest attempt did not fail: it does not count."""

    async def forgive(self, key: str) -> None:
        """No attempt counts."""


class TicketStore(Protocol):
    """Tickets that let somebody in once."""

    async def put(self, ticket: str, principal: Principal, ttl_s: float) -> None:
        """Keep who may enter with it. `ticket` is a hash."""

    async def take(self, ticket: str) -> Principal | None:
        """Who may enter, once."""
