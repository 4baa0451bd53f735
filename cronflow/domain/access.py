"""Users, API keys, sessions, secrets and the audit log, and what each role may do.

There are four roles, each with all rights of the one before: a viewer reads; an operator runs, pauses, retries,
cancels and drains; an editor changes jobs; an admin manages alerts, users, keys and secrets, and is never limited.
Patterns of names limit keys and editors to some jobs. Jobs that run commands or use secrets can reach more than their
author, so an editor writes them only with the rights `allow_shell` and `allow_secrets`. Passwords, refresh tokens and
keys are stored as hashes, secrets as sealed values.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase

from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import CommandTarget, Job
from cronflow.domain.secret import referenced

KEY_PREFIX = "cfk."
"""The text of every API key begins with this."""
KEY_AUTHOR = "key:"
"""The name of the principal of an API key begins with this."""
SHORT_ID = 12
"""Characters of a session's id that are shown."""
SHORTEST_PASSWORD = 8
LONGEST_PASSWORD = 1024


class Role(StrEnum):
    """The rights of a user or an API key."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    EDITOR = "editor"
    ADMIN = "admin"

    def covers(self, needed: Role) -> bool:
        """Whether it has all rights of `needed`."""
        order = list(Role)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks. `name` is what versions, runs and the audit log keep as the author of a change. `jobs` are patterns of
    the names of the jobs that the role is for; none means all, and everything else too. With `reads_all` the patterns
    do not limit what it reads. `allow_shell` and `allow_secrets` are rights of an editor. `login` is the id of the
    session, or the hash of the API key; the same principal may have several.
    """

    name: str
    role: Role
    jobs: tuple[str, ...] = ()
    allow_shell: bool = False
    allow_secrets: bool = False
    reads_all: bool = False
    login: str = field(default="", compare=False)

    def may_touch(self, job: str | None) -> bool:
        """Whether it may act on the job; None stands for anything that belongs to no single job."""
        return not self.jobs or (job is not None and any(fnmatchcase(job, pattern) for pattern in self.jobs))

    def may_read(self, job: str | None) -> bool:
        """Whether it may read about the job; None as in `may_touch`."""
        return self.reads_all or self.may_touch(job)

    def objection(self, job: Job) -> Problem | None:
        """Why it may not write this job; None if it may. The right depends on the whole job as it would be stored, so
        no sequence of partial changes reaches more than one complete document.
        """
        if not self.may_touch(job.name):
            allowed = " or ".join(self.jobs)
            what = f"{self.name} is limited to jobs that match {allowed} and may not write {job.name}"
            return Problem("name", what)
        if self.role is Role.ADMIN:
            return None
        if isinstance(job.target, CommandTarget) and not self.allow_shell:
            return Problem("run", f"{self.name} may not write {job.name}, which runs a command", _remedy("shell"))
        if referenced(job.target) and not self.allow_secrets:
            return Problem("run", f"{self.name} may not write {job.name}, which uses a secret", _remedy("secrets"))
        return None

    def may_change(self, job: Job) -> bool:
        """Whether it may change the job, and therefore sees its whole document. All others see it masked."""
        return self.role.covers(Role.EDITOR) and self.objection(job) is None

    def objection_to_args(self, job: Job) -> Problem | None:
        """Why it may not give the job other arguments; None if it may. Next to a secret in the job's own arguments,
        another address would send the secret there.
        """
        if self.role is Role.ADMIN or self.allow_secrets or not referenced(job.target):
            return None
        what = f"{self.name} may not change the arguments of {job.name}, which uses a secret"
        return Problem("args", what, f"leave the arguments out; {_remedy('secrets')}")


def _remedy(right: str) -> str:
    return f"an admin, or an editor with --allow-{right}, may"


class UserSource(StrEnum):
    """Where a user comes from: created here with a password, or known from the identity provider."""

    LOCAL = "local"
    OIDC = "oidc"


class LoginMethod(StrEnum):
    """How a session began: with a password, or through the identity provider, by a browser or a code for devices."""

    PASSWORD = "password"  # noqa: S105  a word
    OIDC = "oidc"
    DEVICE = "device"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A person. Each change of the user here changes `stamp`, which ends the sessions of older stamps.

    A person of the identity provider has no password but a `subject`, the issuer and the id there; groups decide about
    the role, which each login and each check at the provider writes anew, without a new stamp.
    """

    name: str
    role: Role
    password_hash: str
    stamp: str
    created_at: datetime
    enabled: bool = True
    jobs: tuple[str, ...] = ()
    allow_shell: bool = False
    allow_secrets: bool = False
    source: UserSource = UserSource.LOCAL
    subject: str = ""

    def principal(self, login: str) -> Principal:
        """The user in the session with this id."""
        rights = (self.allow_shell, self.allow_secrets)
        return Principal(self.name, self.role, self.jobs, *rights, reads_all=True, login=login)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A login: a family of refresh tokens, of which only the latest is valid. `token_hash` is its hash.

    `address` and `agent` are those of the login; `last_used_at` is exact to a few minutes. Sessions of 0.11 have no
    `created_at`. The provider confirmed the person at `checked_at`, under the settings with the fingerprint `rules`;
    `grant` is its sealed refresh token, without which the session is short.
    """

    id: str
    user: str
    stamp: str
    token_hash: str
    expires_at: datetime
    method: LoginMethod = LoginMethod.PASSWORD
    created_at: datetime | None = None
    last_used_at: datetime | None = None
    address: str | None = None
    agent: str = ""
    checked_at: datetime | None = None
    rules: str = ""
    grant: str = ""

    @property
    def short_id(self) -> str:
        """The part of the id that is shown. The whole id is half of the refresh token."""
        return self.id[:SHORT_ID]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """The credential of a script. `key_hash` is of its random part; `last_used_at` is exact to a few minutes."""

    name: str
    role: Role
    key_hash: str
    created_at: datetime
    created_by: str
    jobs: tuple[str, ...] = ()
    allow_shell: bool = False
    allow_secrets: bool = False
    expires_at: datetime | None = None
    last_used_at: datetime | None = None

    @property
    def principal(self) -> Principal:
        rights = (self.allow_shell, self.allow_secrets)
        return Principal(f"{KEY_AUTHOR}{self.name}", self.role, self.jobs, *rights, login=self.key_hash)

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
    """A change of the cluster's configuration, or a login. `id` begins with the instant in microseconds, as `entry_id`
    writes it, so ids sort by time. `before` and `after` are plain values, None where the object did not exist;
    `address` is None for a change by the command line.
    """

    id: str
    at: datetime
    by: str
    action: str
    target: str
    before: object = None
    after: object = None
    address: str | None = None


def entry_id(at: datetime) -> str:
    """The beginning of the ids of audit entries at this instant."""
    return f"{max(0, round(at.timestamp() * 1_000_000)):016}"


def check_password(password: str) -> str:
    """Returns the password or raises InvalidInput."""
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise InvalidInput(f"a password has {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters")
    return password


def check_limits(role: Role, jobs: Sequence[str] | None, *, allow_shell: bool, allow_secrets: bool) -> tuple[str, ...]:
    """Returns the patterns that limit a role, none for None; or raises InvalidInput for an empty list, and for limits
    and rights that the role does not have.
    """
    problems = []
    if jobs is not None and not jobs:
        problems.append(
            Problem("jobs", "is empty and matches no job", "name a pattern, or leave jobs out for all jobs")
        )
    if jobs and role is Role.ADMIN:
        remedy = "use the role editor, or leave jobs out"
        problems.append(Problem("jobs", "cannot limit an admin, who manages users and secrets too", remedy))
    for place, given in (("allow_shell", allow_shell), ("allow_secrets", allow_secrets)):
        if given and role is not Role.EDITOR:
            what = f"is a right of editors, not of the role {role.value}"
            problems.append(Problem(place, what, "use the role editor, or leave it out"))
    if problems:
        raise InvalidInput(problems)
    return check_patterns(tuple(jobs or ()))


def check_patterns(patterns: tuple[str, ...], place: str = "jobs") -> tuple[str, ...]:
    """Returns patterns of job names, with the wildcard `*`, or raises InvalidInput at this place."""
    for pattern in patterns:
        if not re.fullmatch(r"[a-z0-9._*?-]{1,100}", pattern):
            raise InvalidInput(Problem(place, f"{pattern!r} is not a pattern of job names", "for example billing-*"))
    return patterns
