"""Limits and their permits."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from cronflow.domain.concurrency import name_of, named_id
from cronflow.domain.permits import (
    LimitState,
    NamedLimit,
    PermitRefusal,
    PermitRequest,
    has_permit,
    is_free,
    reasons_of,
    with_permit,
)
from cronflow.domain.run import run_id
from cronflow.ports import PermitKey, Waiter
from cronflow.testing.memory.documents import DocumentPort


class MemoryLimitStore(DocumentPort, port="limits"):
    async def acquire(self, requests: Sequence[PermitRequest]) -> list[PermitRefusal | None]:
        return [self._acquire(request) for request in requests]

    def _acquire(self, request: PermitRequest) -> PermitRefusal | None:
        use, run, fence, _ = request
        limits, now = self.documents.limits, self.clock.now()
        if use.name is None:
            limits.insert(use.id, LimitState(id=use.id, limit=use.limit))
        limits.replace_if(
            use.id,
            lambda state: is_free(state, use, run, fence, now),
            lambda state: with_permit(state, request, now),
        )
        state = limits.get(use.id)
        return None if state is not None and has_permit(state, run, fence) else PermitRefusal(state)

    async def release(self, permits: Collection[PermitKey]) -> None:
        now = self.clock.now()
        for limit, run, fence in permits:
            self.documents.limits.replace_if(
                limit,
                lambda state, run=run, fence=fence: has_permit(state, run, fence),  # type: ignore[misc]
                lambda state, run=run, fence=fence: replace(  # type: ignore[misc]
                    state,
                    permits=tuple(one for one in state.permits if (one.run, one.fence) != (run, fence)),
                    used_at=now,
                ),
            )

    async def get(self, limits: Collection[str]) -> list[LimitState]:
        return self.documents.limits.pick(limits)

    async def held(self, before: datetime) -> list[LimitState]:
        return [state for state in self.documents.limits.values() if any(one.since < before for one in state.permits)]

    async def named(self, *, after: str = "", limit: int = 500) -> list[LimitState]:
        return self.documents.limits.page(
            lambda state: state.name, lambda state: name_of(state.id) is not None, after=after, limit=limit
        )

    async def define(self, limit: NamedLimit, by: str, now: datetime) -> None:
        state = self.documents.limits.get(limit.id) or LimitState(id=limit.id)
        self.documents.limits[limit.id] = replace(
            state,
            limit=limit.limit,
            rate=limit.rate,
            description=limit.description,
            next_at=None,
            updated_at=now,
            updated_by=by,
        )

    async def delete(self, name: str) -> bool:
        return self.documents.limits.pop(named_id(name), None) is not None

    async def waiting(self, limit: str, most: int) -> list[Waiter]:
        reasons = reasons_of(limit)
        fires = [
            Waiter(run_id(record.name, record.waiting.fire), record.waiting.since)
            for record in self.documents.jobs.values()
            if record.waiting is not None and record.waiting.reason in reasons
        ]
        runs = [
            Waiter(run.id, run.waiting.since)
            for run in self.documents.runs.values()
            if run.is_open and run.waiting is not None and run.waiting.reason in reasons
        ]
        chosen = [one for some in (fires, runs) for one in sorted(some, key=lambda one: one.since)[:most]]
        return sorted(chosen, key=lambda one: one.since)

    async def forget_unused(self, unused_for: timedelta) -> int:
        before = self.clock.now() - unused_for
        gone = [
            state.id
            for state in self.documents.limits.values()
            if name_of(state.id) is None and not state.permits and (state.used_at is None or state.used_at < before)
        ]
        self.documents.limits.delete(gone)
        return len(gone)
