"""What runs on the nodes, for the roles of the leader that place runs.

Rule: from reading the reservations to storing new ones, one role at a time places runs of jobs with placement rules,
so two roles never give out the same memory. A run that reserves is inserted before it is pushed. So whatever a node
may have received is in MongoDB, where the next leader reads it. Which node is kept for a run that has waited long is in
memory: since when it waits is stored, so the next leader keeps one too.

A round without such a job reads and waits for nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import datetime

from cronflow.domain.job import JobRecord
from cronflow.domain.placement_rules import KeptNode, Occupancy, has_rules
from cronflow.leader.pending_runs import PendingRuns
from cronflow.ports import JobStore, RunStore
from cronflow.usecases.occupancy import all_rules, read_occupancy

MOST_REMEMBERED = 10_000


class OccupancyReader:
    def __init__(self, jobs: JobStore, runs: RunStore, pending_runs: PendingRuns) -> None:
        self._jobs, self._runs = jobs, runs
        self._pending_runs = pending_runs
        self._lock = asyncio.Lock()
        self._last: dict[str, str] = {}
        self._kept = KeptNode()

    @asynccontextmanager
    async def placing(self, records: Iterable[JobRecord], term: int, now: datetime) -> AsyncIterator[Occupancy | None]:
        """Hold this from the first placement of a round until its runs are stored. None: no job has placement rules."""
        ruled = [record for record in records if has_rules(record.job)]
        if not ruled:
            yield None
            return
        async with self._lock:
            self._kept.expire(now)
            yield await self._read(ruled, term)

    async def _read(self, ruled: list[JobRecord], term: int) -> Occupancy:
        neighbours = {job for rules in all_rules(ruled) for job in rules.neighbours}
        if neighbours:
            # Their latest runs may have been pushed and not inserted yet.
            await self._pending_runs.ensure(await self._jobs.get(neighbours), term)
        if len(self._last) > MOST_REMEMBERED:
            self._last.clear()
        return await read_occupancy(self._runs, ruled, self._last, self._kept)
