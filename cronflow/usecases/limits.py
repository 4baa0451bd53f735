"""Use cases for limits: define, delete and look up. Every change is in the audit log, and has an event."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal, NamedTuple

from cronflow.documents.limits import limit_document
from cronflow.domain.concurrency import named_id
from cronflow.domain.errors import Conflict, InvalidInput, NotFound, Problem
from cronflow.domain.events import LimitDefined, LimitDeleted
from cronflow.domain.permits import LimitState, NamedLimit
from cronflow.ports import Backends, Clock, Waiter
from cronflow.usecases.audit import Auditor, Changed
from cronflow.usecases.jobs import notify_leader

MOST_LIMITS = 500
MOST_WAITING = 1000
SHOWN_JOBS = 3
PAGE = 500

Result = Literal["created", "changed", "unchanged"]


class LimitUsage(NamedTuple):
    """A limit with what waits for it, longest first: at most MOST_WAITING fires and as many runs."""

    state: LimitState
    waiting: Sequence[Waiter]


class LimitUseCases:
    def __init__(self, backends: Backends, clock: Clock, audit: Auditor) -> None:
        self._limits, self._jobs, self._bus = backends.limits, backends.jobs, backends.bus
        self._clock = clock
        self._audit = audit

    async def find(self, *, after: str = "", limit: int = 500) -> list[LimitUsage]:
        """Named limits by name, after the name `after`."""
        found = await self._limits.named(after=after, limit=limit)
        waiting = await asyncio.gather(*(self._limits.waiting(state.id, MOST_WAITING) for state in found))
        return [LimitUsage(state, waiters) for state, waiters in zip(found, waiting, strict=True)]

    async def get(self, name: str) -> LimitUsage:
        """Raises NotFound."""
        state = await self._state(name)
        return LimitUsage(state, await self._limits.waiting(state.id, MOST_WAITING))

    async def define(self, limit: NamedLimit, *, by: str = "") -> tuple[LimitUsage, Result]:
        """Create the limit, or change the one with this name. Runs that hold a permit keep it, so after a limit was
        lowered, more may execute until they end. Raises InvalidInput if there are too many limits.
        """
        found = await self._limits.get([limit.id])
        before = found[0].definition if found else None
        if before == limit:
            return await self.get(limit.name), "unchanged"
        if before is None and len(await self._limits.named(limit=MOST_LIMITS)) >= MOST_LIMITS:
            raise InvalidInput(Problem("", f"{MOST_LIMITS} limits already exist", "delete one first"))
        await self._limits.define(limit, by, self._clock.now())
        verb = "create" if before is None else "change"
        changed = Changed(f"limit.{verb}", f"limit:{limit.name}", _facts(before), _facts(limit))
        await self._audit.record_events(by, (changed, LimitDefined(limit.name, by)))
        await notify_leader(self._bus)
        return await self.get(limit.name), "created" if before is None else "changed"

    async def delete(self, name: str, *, by: str = "") -> None:
        """Raises NotFound, and Conflict while jobs name the limit. If a job that names it is applied meanwhile, its
        runs wait until the limit is defined again.
        """
        before = (await self._state(name)).definition
        users = await self._users(name)
        if users:
            more = f" and {len(users) - SHOWN_JOBS} more" if len(users) > SHOWN_JOBS else ""
            shown = f"{', '.join(users[:SHOWN_JOBS])}{more}"
            raise Conflict(f"limit {name!r} is used by {shown}; remove it from these jobs first")
        if not await self._limits.delete(name):
            raise NotFound("limit", name)
        changed = Changed("limit.delete", f"limit:{name}", _facts(before), None)
        await self._audit.record_events(by, (changed, LimitDeleted(name, by)))

    async def _state(self, name: str) -> LimitState:
        found = await self._limits.get([named_id(name)])
        if not found:
            raise NotFound("limit", name)
        return found[0]

    async def _users(self, name: str) -> list[str]:
        """The jobs that name the limit."""
        users: list[str] = []
        after = ""
        while page := await self._jobs.find(after=after, limit=PAGE):
            users += [record.name for record in page if name in record.job.concurrency]
            after = page[-1].name
        return users


def _facts(limit: NamedLimit | None) -> object:
    return None if limit is None else dict(limit_document(limit))
