"""Who asks, what that allows, and what the cluster keeps of those who may ask.

Three roles, each of which may do all that the one before it may: a viewer reads; an operator runs, pauses, retries,
cancels and drains; an admin changes jobs, users, keys and settings. Of passwords, refresh tokens and keys only hashes
are kept, of secrets only what was sealed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase

from cronflow.domain.errors import InvalidInput, Problem

KEY_PREFIX = "cfk."
"""The text of every API key begins with this."""
SHORTEST_PASSWORD = 8
LONGEST_PASSWORD = 1024


class Role(StrEnum):
    """What somebody may do."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def covers(self, needed: Role) -> bool:
        """Whether it allows what `needed` allows."""
        order = list(Role)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks. `name` is what versions, runs and the audit log keep as the author of a change. `jobs` are patterns of
    the names of the jobs that the role is for; none means all, and everything else too.
    """

    name: str
    role: Role
    jobs: tuple[str, ...] = ()

    def may_touch(self, job: str | None) -> bool:
        """Whether its role reaches the job; None is what is not of one job."""
        return not self.jobs or (job is not None and any(fnmatchcase(job, pattern) for pattern in self.jobs))


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Somebody with a password. `stamp` is another one after each change of the user: sessions that began under an
    older one have ended.
    """

    name: str
    role: Role
    password_hash: str
    stamp: str
    created_at: datetime
    enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What one login began: a family of refresh tokens, of which the latest counts. `token_hash` is its hash."""

    id: str
    user: str
    stamp: str
    token_hash: str
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """What a script logs in with. `key_hash` is of its random part; `last_used_at` is exact to some minutes."""

    name: str
    role: Role
    key_hash: str
    created_at: datetime
    created_by: str
    jobs: tuple[str, ...] = ()
    expires_at: datetime | None = None
    last_used_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A sealed value that jobs name. `sealed` is text that says which key opens it."""

    name: str
    sealed: str
    updated_at: datetime
    updated_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """A change that somebody made. `id` begins with the instant, so ids sort by time. `before` and `after` are what was
    changed as plain values, None where it did not exist; `address` is None for a change by the command line.
    """

    id: str
    at: datetime
    by: str
    action: str
    target: str
    before: object = None
    after: object = None
    address: str | None = None


def check_password(password: str) -> str:
    """The password itself, or InvalidInput."""
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise InvalidInput(f"a password has {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters")
    return password


def check_patterns(patterns: tuple[str, ...], place: str = "jobs") -> tuple[str, ...]:
    """Patterns of job names, in which `*` stands for anything; or InvalidInput with this place."""
    for pattern in patterns:
        if not re.fullmatch(r"[a-z0-9._*?-]{1,100}", pattern):
            raise InvalidInput(Problem(place, f"{pattern!r} is no pattern of job names", "write such as billing-*"))
    return patterns
