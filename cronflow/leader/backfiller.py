"""The backfiller: inserts the runs of backfills, in order and page by page.

The run is inserted first, by an id that no other request has, and then the cursor moves by compare-and-set. So a leader
that dies in between, or is deposed, leaves nothing to repair: the next one inserts the same runs again, which changes
nothing, and goes on. The reconciler dispatches the runs like all others that are requested.

A run may still be inserted while its backfill is cancelled. Its author then finds the cursor gone and cancels it, and
for a minute the leader cancels what a stalled one may have inserted.

Without a backfill this costs the leader one read every five seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

import structlog

from cronflow.domain.backfill import MOST_OPEN, Backfill, BackfillState, PageSize, next_page, yields
from cronflow.domain.cluster import Tenure
from cronflow.domain.errors import Conflict
from cronflow.domain.events import BackfillCancelled, BackfillEnded
from cronflow.domain.job import JobRecord, Overlap
from cronflow.domain.planning import run_on_request
from cronflow.domain.run import Kind, RunState, backfill_of, backfill_run_id
from cronflow.leader.contention import Contention
from cronflow.leader.elector import Elector
from cronflow.leader.read_limit import ReadLimit
from cronflow.node.role_loop import Wake
from cronflow.ports import (
    BackfillStore,
    Clock,
    EventSink,
    JobStore,
    OpenRun,
    RunStore,
    WatchedBackfill,
    discard_event,
)
from cronflow.usecases.runs import Canceller

IDLE_S = 5.0
LOOK_S = 1.0
AGAIN_S = 0.1
CANCELS_FOR = timedelta(minutes=1)
"""A leader that stalls for longer between reading a backfill and inserting its runs, and dies then, leaves runs of a
cancelled backfill behind.
"""
DELETED = "the job was deleted"

log = structlog.get_logger("cronflow.node")


class Backfiller:
    """`inserted` is called when there are new runs to dispatch."""

    def __init__(
        self,
        backfills: BackfillStore,
        jobs: JobStore,
        runs: RunStore,
        canceller: Canceller,
        elector: Elector,
        contention: Contention,
        clock: Clock,
        inserted: Callable[[], None],
        emit: EventSink = discard_event,
        held: Callable[[Tenure], str | None] = lambda _: None,
    ) -> None:
        self._held = held
        self._backfills, self._jobs, self._runs = backfills, jobs, runs
        self._canceller = canceller
        self._elector = elector
        self._contention = contention
        self._clock = clock
        self._inserted = inserted
        self._emit = emit
        self._waits_for_runs = False
        self._limit, self._limit_of_ends = ReadLimit(clock, LOOK_S), ReadLimit(clock, AGAIN_S)
        self.figures: tuple[int, int] | None = None
        """The running backfills and their instants without a run, as of the last look of this leader."""
        self.wake = Wake()

    def run_ended(self) -> None:
        """A run has ended. This wakes only a backfiller whose next run waits for that."""
        if self._waits_for_runs:
            self.wake.set()

    async def step(self) -> float:
        tenure = self._elector.tenure
        if tenure is None:
            self._waits_for_runs = self._contention.backfilling = False
            self.figures = None
            return IDLE_S
        if self._held(tenure) is not None:
            return LOOK_S
        if wait_s := (self._limit_of_ends if self._waits_for_runs else self._limit).wait_s():
            return wait_s
        found = await self._backfills.watched(MOST_OPEN)
        running = [one.backfill for one in found if one.backfill.state is BackfillState.RUNNING]
        self.figures = len(running), sum(one.total - one.inserted for one in running)
        if not found:
            self._waits_for_runs = self._contention.backfilling = False
            return IDLE_S
        names = {one.backfill.job for one in found}
        jobs = {record.name: record for record in await self._jobs.get(names)}
        # Before the first of these runs is inserted.
        self._contention.backfilling = any(record.job.overlap is not Overlap.ALLOW for record in jobs.values())
        self._waits_for_runs = True
        open_runs = await self._runs.open_of(names)
        for one in found:
            await self._work(one, jobs.get(one.backfill.job), open_runs.get(one.backfill.job, ()))
        return LOOK_S

    async def _work(self, one: WatchedBackfill, record: JobRecord | None, open_runs: Sequence[OpenRun]) -> None:
        backfill, now = one.backfill, self._clock.now()
        own = [run.id for run in open_runs if backfill_of(run.id) == backfill.id]
        if backfill.state is BackfillState.CANCELLED:
            await self._cancel(backfill, own)
        elif record is None or record.deleted_at is not None:
            if await self._backfills.cancel(backfill.id, "", DELETED, now):
                self._emit(BackfillCancelled(backfill.id, "", DELETED))
        elif backfill.inserted == backfill.total:
            if not own:
                await self._end(backfill)
        elif yields(record, now) is None:
            page = next_page(backfill, record.job, now, len(own), len(open_runs) - len(own))
            if page.count:
                await self._insert(one, record, page)

    async def _insert(self, one: WatchedBackfill, record: JobRecord, page: PageSize) -> None:
        backfill, now = one.backfill, self._clock.now()
        runs = [
            run_on_request(record, backfill_run_id(backfill.id, fire), Kind.BACKFILL, fire, None, now)
            for fire in one.upcoming[: page.count]
        ]
        new = await self._runs.insert(runs)
        reached = backfill.inserted + len(runs)
        if await self._backfills.advance(backfill.id, backfill.inserted, reached, now + page.pause):
            self._inserted()
            return
        # Another leader has moved the cursor, or the backfill was cancelled.
        present = await self._backfills.get(backfill.id)
        if present is None or present.state is BackfillState.CANCELLED:
            await self._cancel_runs(present or backfill, sorted(new))

    async def _cancel(self, backfill: Backfill, own: Sequence[str]) -> None:
        if own:
            await self._cancel_runs(backfill, own)
        elif backfill.ended_at is None or self._clock.now() - backfill.ended_at > CANCELS_FOR:
            await self._backfills.close(backfill.id, BackfillState.CANCELLED, self._clock.now())

    async def _cancel_runs(self, backfill: Backfill, runs: Sequence[str]) -> None:
        try:
            await self._canceller.cancel(
                runs, backfill.reason or "its backfill was cancelled", backfill.cancelled_by or ""
            )
        except Conflict as error:
            log.warning("runs of a backfill not cancelled yet", backfill=backfill.id, reason=str(error))

    async def _end(self, backfill: Backfill) -> None:
        if not await self._backfills.close(backfill.id, BackfillState.DONE, self._clock.now()):
            return
        counts = (await self._backfills.counts([backfill.id]))[backfill.id]
        self._emit(BackfillEnded(backfill.id, backfill.total, backfill.total - _succeeded(counts)))


def _succeeded(counts: Mapping[RunState, int]) -> int:
    return counts.get(RunState.SUCCEEDED, 0)
