"""Users, API keys, sessions, secrets and the audit log, and what each role may do.

There are three roles, each with all rights of the one before: a viewer reads; an operator runs, pauses, retries,
cancels and drains; an admin changes jobs, users, keys and settings. Passwords, refresh tokens and keys are stored as
hashes, secrets as sealed values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase

from cronflow.domain.errors import InvalidInput, Problem

KEY_PREFIX = "cfk."
"""The text of every API key begins with this."""
KEY_AUTHOR = "key:"
"""The name of the principal of an API key begins with this."""
SHORTEST_PASSWORD = 8
LONGEST_PASSWORD = 1024


class Role(StrEnum):
    """The rights of a user or an API key."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def covers(self, needed: Role) -> bool:
        """Whether it has all rights of `needed`."""
        order = list(Role)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks. `name` is what versions, runs and the audit log keep as the author of a change. `jobs` are patterns of
    the names of the jobs that the role is for; none means all, and everything else too. `login` is the id of the
    session, or the hash of the API key; the same principal may have several.
    """

    name: str
    role: Role
    jobs: tuple[str, ...] = ()
    login: str = field(default="", compare=False)

    def may_touch(self, job: str | None) -> bool:
        """Whether it may act on the job; None stands for anything that belongs to no single job."""
        return not self.jobs or (job is not None and any(fnmatchcase(job, pattern) for pattern in self.jobs))


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A person with a password. Each change of the user changes `stamp`, which ends the sessions of older stamps."""

    name: str
    role: Role
    password_hash: str
    stamp: str
    created_at: datetime
    enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A login: a family of refresh tokens, of which only the latest is valid. `token_hash` is its hash."""

    id: str
    user: str
    stamp: str
    token_hash: str
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """The credential of a script. `key_hash` is of its random part; `last_used_at` is exact to a few minutes."""

    name: str
    role: Role
    key_hash: str
    created_at: datetime
    created_by: str
    jobs: tuple[str, ...] = ()
    expires_at: datetime | None = None
    last_used_at: datetime | None = None

    @property
    def principal(self) -> Principal:
        return Principal(f"{KEY_AUTHOR}{self.name}", self.role, self.jobs, self.key_hash)

    def has_expired(self, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= now


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A sealed value that jobs refer to. `sealed` is text that names the key that opens it."""

    name: str
    sealed: str
    updated_at: datetime
    updated_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """A change of the cluster's configuration. `id` begins with the instant, so ids sort by time. `before` and `after`
    are plain values, None where the object did not exist; `address` is None for a change by the command line.
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
    """Returns the password or raises InvalidInput."""
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise InvalidInput(f"a password has {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters")
    return password


def check_patterns(patterns: tuple[str, ...], place: str = "jobs") -> tuple[str, ...]:
    """Returns patterns of job names, with the wildcard `*`, or raises InvalidInput at this place."""
    for pattern in patterns:
        if not re.fullmatch(r"[a-z0-9._*?-]{1,100}", pattern):
            raise InvalidInput(Problem(place, f"{pattern!r} is not a pattern of job names", "for example billing-*"))
    return patterns
