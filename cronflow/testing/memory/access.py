"""Users, sessions, API keys, secrets, the audit log, rate limits and tickets."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from operator import attrgetter

from cronflow.domain.access import ApiKey, AuditEntry, Principal, Secret, Session, User, entry_id
from cronflow.ports import AuditQuery
from cronflow.testing.memory.coordination import RedisPort
from cronflow.testing.memory.documents import DocumentPort, NamedStore


class MemoryUserStore(NamedStore[User], port="users"):
    async def create(self, user: User) -> bool:
        if user.subject and any(one.subject == user.subject for one in self.records.values()):
            return False
        return self.records.insert(user.name, user)

    async def of_subject(self, subject: str) -> list[User]:
        return self.records.page(attrgetter("created_at"), lambda user: user.subject == subject)

    async def replace(self, user: User, stamp: str) -> bool:
        return self.records.replace_if(user.name, lambda present: present.stamp == stamp, lambda _: user)


class MemorySessionStore(DocumentPort, port="sessions"):
    async def create(self, session: Session) -> None:
        self.documents.sessions.insert(session.id, session)

    async def get(self, session: str) -> Session | None:
        return self.documents.sessions.get(session)

    async def find(self, *, user: str | None = None, after: str = "", limit: int = 500) -> list[Session]:
        return self.documents.sessions.page(
            attrgetter("id"), lambda session: user in (None, session.user), after=after, limit=limit
        )

    async def touch(self, session: str, at: datetime) -> None:
        self.documents.sessions.replace_if(session, lambda _: True, lambda one: replace(one, last_used_at=at))

    async def confirm(self, session: str, at: datetime, rules: str, grant: str) -> None:
        self.documents.sessions.replace_if(
            session, lambda _: True, lambda one: replace(one, checked_at=at, rules=rules, grant=grant)
        )

    async def rotate(self, session: str, old: str, new: str) -> bool:
        return self.documents.sessions.replace_if(
            session, lambda present: present.token_hash == old, lambda present: replace(present, token_hash=new)
        )

    async def end(self, session: str) -> None:
        self.documents.sessions.delete([session])


class MemoryKeyStore(NamedStore[ApiKey], port="keys"):
    async def touch(self, name: str, at: datetime) -> None:
        self.records.replace_if(name, lambda _: True, lambda key: replace(key, last_used_at=at))


class MemorySecretStore(DocumentPort, port="secrets"):
    async def put(self, secret: Secret) -> bool:
        new = secret.name not in self.documents.secrets
        self.documents.secrets[secret.name] = secret
        return new

    async def get(self, names: Collection[str]) -> list[Secret]:
        return self.documents.secrets.pick(names)

    async def find(self, *, after: str = "", limit: int = 500) -> list[Secret]:
        return self.documents.secrets.page(attrgetter("name"), after=after, limit=limit)

    async def delete(self, name: str) -> bool:
        return self.documents.secrets.pop(name, None) is not None


class MemoryAuditStore(DocumentPort, port="audit"):
    """Entries older than the retention are deleted when `keep` is called, and not before."""

    async def append(self, entries: Sequence[AuditEntry]) -> None:
        for entry in entries:
            self.documents.audit.insert(entry.id, entry)

    async def find(self, query: AuditQuery) -> list[AuditEntry]:
        return self.documents.audit.page(
            attrgetter("id"),
            lambda entry: (
                query.by in (None, entry.by)
                and query.action in (None, entry.action)
                and query.target in (None, entry.target)
                and (query.job is None or is_about(entry.target, query.job))
                and (query.since is None or entry.id >= entry_id(query.since))
                and (query.until is None or entry.id < entry_id(query.until))
            ),
            after=query.before,
            limit=query.limit,
            newest=True,
        )

    async def keep(self, retention: timedelta) -> None:
        oldest = self.clock.now() - retention
        self.documents.audit.delete_where(lambda entry: entry.at < oldest)


def is_about(target: str, job: str) -> bool:
    """Whether the target of an entry is the job, or one of its runs."""
    return target == f"job:{job}" or target.startswith(f"run:{job}@")


class MemoryRateLimiter(RedisPort, port="limiter"):
    async def take(self, key: str, per_s: float, burst: int) -> float:
        now, interval = self.clock.monotonic(), 1 / per_s
        full = max(self.memory.full_at.get(key, 0.0), now) + interval
        excess = full - now - interval * burst
        # Sums of seconds are inexact, sums of whole microseconds are not.
        if round(excess * 1_000_000) > 0:
            return excess
        self.memory.full_at[key] = full
        return 0.0

    async def attempt(self, key: str, free: int, wait_s: float, most_s: float) -> float:
        def wait(count: int) -> float:
            return min(most_s, wait_s * 2.0 ** min(count - free, 30)) if count >= free else 0.0

        now = self.clock.monotonic()
        count, at, until = self.memory.attempts.get(key, (0, now, now))
        if now >= until:
            count, until = 0, now + wait_s
        elif now < at + wait(count):
            return at + wait(count) - now
        count += 1
        self.memory.attempts[key] = count, now, now + 2 * wait(count) if count >= free else until
        return 0.0

    async def count(self, key: str, keep_s: float) -> int:
        now = self.clock.monotonic()
        count, _, until = self.memory.attempts.get(key, (0, now, now))
        count = count + 1 if now < until else 1
        self.memory.attempts[key] = count, now, now + keep_s
        return count

    async def take_back(self, key: str) -> None:
        if key in self.memory.attempts:
            count, at, until = self.memory.attempts[key]
            self.memory.attempts[key] = max(0, count - 1), at, until

    async def forgive(self, key: str) -> None:
        self.memory.attempts.pop(key, None)


class MemoryTicketStore(RedisPort, port="tickets"):
    async def put(self, ticket: str, principal: Principal, ttl_s: float) -> None:
        self.memory.tickets[ticket] = principal, self.clock.monotonic() + ttl_s

    async def take(self, ticket: str) -> Principal | None:
        principal, until = self.memory.tickets.pop(ticket, (None, 0.0))
        return principal if self.clock.monotonic() < until else None

    async def put_login(self, key: str, sealed: str, ttl_s: float) -> None:
        self.memory.logins[key] = sealed, self.clock.monotonic() + ttl_s

    async def get_login(self, key: str) -> str | None:
        sealed, until = self.memory.logins.get(key, (None, 0.0))
        return sealed if self.clock.monotonic() < until else None

    async def take_login(self, key: str) -> str | None:
        sealed, until = self.memory.logins.pop(key, (None, 0.0))
        return sealed if self.clock.monotonic() < until else None
