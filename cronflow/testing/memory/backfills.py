"""Backfills, with their instants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from operator import attrgetter

from cronflow.domain.backfill import Backfill, BackfillState
from cronflow.domain.run import RunState
from cronflow.ports.backfills import WatchedBackfill
from cronflow.testing.memory.documents import DocumentPort

PLACE = attrgetter("created_at", "id")


class MemoryBackfillStore(DocumentPort, port="backfills"):
    async def create(self, backfill: Backfill, instants: Sequence[datetime]) -> bool:
        return self.documents.backfills.insert(backfill.id, (backfill, tuple(instants)))

    async def get(self, id: str) -> Backfill | None:  # noqa: A002
        found = self.documents.backfills.get(id)
        return None if found is None else found[0]

    async def find(
        self, *, job: str | None = None, before: tuple[datetime, str] | None = None, limit: int = 100
    ) -> list[Backfill]:
        found = self.documents.backfills.page(
            lambda pair: PLACE(pair[0]), lambda pair: job in (None, pair[0].job), after=before, limit=limit, newest=True
        )
        return [backfill for backfill, _ in found]

    async def watched(self, page: int) -> list[WatchedBackfill]:
        found = self.documents.backfills.page(lambda pair: PLACE(pair[0]), lambda pair: pair[0].watched)
        return [WatchedBackfill(one, instants[one.inserted : one.inserted + page]) for one, instants in found]

    async def advance(self, id: str, inserted: int, to: int, due_at: datetime) -> bool:  # noqa: A002
        return self._replace(
            id,
            lambda one: one.state is BackfillState.RUNNING and one.inserted == inserted,
            lambda one: replace(one, inserted=to, due_at=due_at),
        )

    async def cancel(self, id: str, by: str, reason: str, at: datetime) -> bool:  # noqa: A002
        return self._replace(
            id,
            lambda one: one.state is BackfillState.RUNNING,
            lambda one: replace(one, state=BackfillState.CANCELLED, cancelled_by=by, reason=reason, ended_at=at),
        )

    async def close(self, id: str, state: BackfillState, at: datetime) -> bool:  # noqa: A002
        if state is BackfillState.CANCELLED:
            return self._replace(
                id, lambda one: one.watched and one.state is state, lambda one: replace(one, watched=False)
            )
        return self._replace(
            id,
            lambda one: one.watched and one.state is BackfillState.RUNNING,
            lambda one: replace(one, watched=False, state=state, ended_at=at),
        )

    def _replace(self, id: str, holds: Callable[[Backfill], bool], change: Callable[[Backfill], Backfill]) -> bool:  # noqa: A002
        return self.documents.backfills.replace_if(
            id, lambda pair: holds(pair[0]), lambda pair: (change(pair[0]), pair[1])
        )

    async def counts(self, ids: Collection[str]) -> Mapping[str, Mapping[RunState, int]]:
        found: dict[str, Counter[RunState]] = {one: Counter() for one in ids}
        for run in self.documents.runs.values():
            if run.backfill in found:
                found[run.backfill][run.state] += 1
        return found

    async def forget(self, ended_before: datetime) -> int:
        present = {run.backfill for run in self.documents.runs.values()}
        going = [
            one.id
            for one, _ in self.documents.backfills.values()
            if not one.watched and one.ended_at is not None and one.ended_at < ended_before and one.id not in present
        ]
        self.documents.backfills.delete(going)
        return len(going)
