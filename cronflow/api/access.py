"""The role that a route requires.

A route has a parameter `principal: Annotated[Principal, needs(Role.OPERATOR)]`, or `Viewer`, `Operator`, `Editor` or
`Admin` for short; the gate of the application authenticates the request. A principal that is limited to certain jobs
reaches `/jobs/{…}`, `/runs/{…}` and `/backfills/{…}` of these and nothing else: routes about several jobs, or none, are
refused here, so that a new route is closed to such principals by default. `Anybody` and `EditorOfJobs` open a route to
them, which then checks or filters the jobs itself. Routes that write jobs or take arguments also call `check_written`
or `check_args`, because the role of an editor depends on the job. No route checks access in any other way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Protocol
from urllib.parse import urlsplit

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from starlette.datastructures import Headers

from cronflow.domain.access import KEY_PREFIX, Principal, Role
from cronflow.domain.errors import BackendUnavailable, InvalidInput, Problem, TooSoon
from cronflow.domain.job import Job
from cronflow.ports import RateLimiter
from cronflow.usecases.accounts import ApiKeys
from cronflow.usecases.logins import Logins


class NotAuthenticated(Exception):
    """The request is not authenticated: 401."""


class NotAllowed(Exception):
    """The principal lacks the role or a right, or is limited to other jobs: 403."""

    def __init__(self, needed: Role, principal: Principal, why: str = "") -> None:
        super().__init__(why or f"{principal.name} has the role {principal.role.value}; this requires {needed.value}")
        self.needed = needed


class Gate(Protocol):
    """Authenticates requests."""

    async def admit(self, request: Request) -> Principal:
        """Raises NotAuthenticated."""


class ClosedGate:
    """Admits no request."""

    async def admit(self, request: Request) -> Principal:
        raise NotAuthenticated


def needs(role: Role, *, also_of_jobs: bool = False) -> Any:
    """A dependency that returns the principal. `also_of_jobs` admits principals that are limited to certain jobs.
    Raises NotAuthenticated, NotAllowed.
    """

    async def principal(request: Request) -> Principal:
        gate: Gate = request.app.state.gate
        found = await gate.admit(request)
        if not found.role.covers(role):
            raise NotAllowed(role, found)
        may_use = found.may_read if role is Role.VIEWER else found.may_touch
        if not (also_of_jobs or may_use(job_of(request))):
            allowed = " or ".join(found.jobs)
            raise NotAllowed(role, found, f"{found.name} may only access jobs that match {allowed}, one at a time")
        return found

    principal.needed = role  # type: ignore[attr-defined]
    return Depends(principal)


def job_of(request: Request) -> str | None:
    """The job in the path, `/jobs/<job>` or `/runs/<job>@…`, where that part is a parameter of the route."""
    match request.scope["path"].split("/"):
        case ["", "api", "v1", "jobs", job, *_] if job in request.path_params.values():
            return str(job)
        case ["", "api", "v1", "backfills", backfill, *_] if (
            "~" in backfill and backfill in request.path_params.values()
        ):
            return str(backfill).partition("~")[0]
        case ["", "api", "v1", "runs", run, *_] if "@" in run and run in request.path_params.values():
            return str(run).partition("@")[0]
    return None


def check_written(principal: Principal, jobs: Sequence[Job]) -> None:
    """Raises NotAllowed unless the principal may write all of the jobs as they are."""
    problems = [found for job in jobs if (found := principal.objection(job)) is not None]
    if problems:
        more = f"; and {len(problems) - 1} more jobs" if len(problems) > 1 else ""
        raise NotAllowed(Role.ADMIN, principal, f"{problems[0]}{more}")


def check_deleted(principal: Principal, names: Sequence[str]) -> None:
    """Raises NotAllowed unless the principal may delete all of these jobs."""
    refused = [name for name in names if not principal.may_touch(name)]
    if refused:
        shown = ", ".join(refused[:5]) + (f" and {len(refused) - 5} more" if len(refused) > 5 else "")
        allowed = " or ".join(principal.jobs)
        why = f"{principal.name} is limited to jobs that match {allowed} and may not delete {shown}"
        raise NotAllowed(Role.EDITOR, principal, why)


def check_args(principal: Principal, job: Job, args: Mapping[str, object] | None) -> None:
    """Raises InvalidInput for arguments of a job that takes none, NotAllowed for those that could reach a secret."""
    if not args:
        return
    if not job.takes_args:
        raise InvalidInput(Problem("args", f"{job.name} is not a Python job and takes no arguments", "remove them"))
    if (found := principal.objection_to_args(job)) is not None:
        raise NotAllowed(Role.ADMIN, principal, str(found))


def needed_by(dependant: Dependant) -> Role | None:
    """The role that a route requires; None when it has no `needs`."""
    for dependency in dependant.dependencies:
        role = getattr(dependency.call, "needed", None) or needed_by(dependency)
        if role is not None:
            return Role(role)
    return None


def is_own_origin(headers: Headers, others: Collection[str] = ()) -> bool:
    """Whether a request comes from no page at all, from a page of this host, or from one of the other origins."""
    origin = headers.get("origin")
    return origin is None or origin in others or urlsplit(origin).netloc == headers.get("host")


Anybody = Annotated[Principal, needs(Role.VIEWER, also_of_jobs=True)]
"""Any principal, for a route about the principal alone, or one that leaves out the jobs of others."""
Viewer = Annotated[Principal, needs(Role.VIEWER)]
Operator = Annotated[Principal, needs(Role.OPERATOR)]
Editor = Annotated[Principal, needs(Role.EDITOR)]
EditorOfJobs = Annotated[Principal, needs(Role.EDITOR, also_of_jobs=True)]
"""For a route whose body names the jobs, which it checks with `check_written`."""
Admin = Annotated[Principal, needs(Role.ADMIN)]


REQUESTS_PER_S = 100


class TokenGate:
    """The Gate of an API with logins. `per_s`: requests per second of each principal."""

    def __init__(self, logins: Logins, keys: ApiKeys, limiter: RateLimiter, *, per_s: int = REQUESTS_PER_S) -> None:
        self._logins = logins
        self._keys = keys
        self._limiter = limiter
        self._per_s = per_s

    async def admit(self, request: Request) -> Principal:
        """See Gate. Raises TooSoon."""
        scheme, _, credential = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not credential:
            raise NotAuthenticated("log in, and send the token as `Authorization: Bearer …`")
        known_by = self._keys if credential.startswith(KEY_PREFIX) else self._logins
        found = await known_by.principal(credential)
        if found is None:
            raise NotAuthenticated("the token or key is invalid or has expired")
        wait_s = await self._wait(found)
        if wait_s:
            raise TooSoon(wait_s)
        return found

    async def _wait(self, principal: Principal) -> float:
        try:
            return await self._limiter.take(f"api:{principal.name}", self._per_s, self._per_s)
        except BackendUnavailable:
            return 0.0
