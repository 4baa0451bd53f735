"""Maintenance: once per term, the leader defines the system jobs and sets the retention of log lines. Every minute it
binds the jobs that an interrupted change of a calendar has left behind.

Only the leader's settings count, and changing them is an ordinary edit of a job. The system jobs are planned and placed
like all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from cronflow.domain.errors import Conflict
from cronflow.domain.events import CalendarUpdatesFinished
from cronflow.domain.job import Job
from cronflow.domain.run import OPEN
from cronflow.domain.split import parent_of
from cronflow.domain.sweep import RunRow
from cronflow.leader.elector import Elector
from cronflow.node.role_loop import Wake
from cronflow.ports import Assignment, Backends, Clock, EventSink, JobReach, LineSink, StoreAdmin, discard_event
from cronflow.usecases.calendar_binding import CalendarUpdates
from cronflow.usecases.edit import Editor
from cronflow.usecases.pending_runs import insert_pending_runs

IDLE_S = 60.0
AGAIN_S = 5.0

log = structlog.get_logger("cronflow.node")


class Maintenance:
    def __init__(
        self,
        store_admin: StoreAdmin,
        editor: Editor,
        elector: Elector,
        jobs: Sequence[Job] = (),
        log_retention: timedelta | None = None,
        calendars: CalendarUpdates | None = None,
        emit: EventSink = discard_event,
    ) -> None:
        self._calendars = calendars
        self._emit = emit
        self._store_admin = store_admin
        self._elector = elector
        self._editor = editor
        self._jobs = jobs
        self._log_retention = log_retention
        self._done_in_term = 0
        self.wake = Wake()

    async def step(self) -> float:
        tenure = self._elector.tenure
        if tenure is None:
            return IDLE_S
        if tenure.term == self._done_in_term:
            return await self._finish_calendars()
        if self._log_retention is not None:
            await self._store_admin.keep_lines(self._log_retention)
        for job in self._jobs:
            try:
                result = await self._editor.define(job)
            except Conflict as error:
                log.warning("system job not defined", job=job.name, reason=str(error))
                return AGAIN_S
            if result != "unchanged":
                log.info("system job defined", job=job.name, result=result)
        self._done_in_term = tenure.term
        return await self._finish_calendars()

    async def _finish_calendars(self) -> float:
        """Bind the jobs that an interrupted change of a calendar has left behind. Without any it reads no jobs."""
        if self._calendars is None:
            return IDLE_S
        try:
            edited = await self._calendars.finish()
        except Conflict as error:
            log.warning("jobs not bound to the current calendars", reason=str(error))
            return AGAIN_S
        if edited:
            self._emit(CalendarUpdatesFinished(edited))
        return IDLE_S


BATCH = 1000
PAUSE_S = 0.1
MOST_KNOWN = 100_000
SILENT_FOR = timedelta(hours=1)


class Cleanup:
    def __init__(
        self, backends: Backends, clock: Clock, *, run_retention: timedelta, log_retention: timedelta | None = None
    ) -> None:
        self._backends = backends
        self._clock = clock
        self._retention = run_retention
        self._log_retention = log_retention

    async def run(self, assignment: Assignment, emit: LineSink) -> object:
        """Clean up once. Returns the number of deleted documents by kind, and the instant `before` which runs had to
        end to be deleted: the ledger does not call an earlier run lost.
        """
        deleted: Counter[str] = Counter(runs=0, jobs=0, joins=0, backfills=0, nodes=0)
        before = await self._backends.store_admin.time() - self._retention
        await self._runs(before, deleted)
        await self._tombstones(before, deleted)
        await self._backends.audit.keep(self._retention)
        await self._joins(before, deleted)
        deleted["backfills"] = await self._backends.backfills.forget(before)
        deleted["nodes"] = await self._backends.coordination_admin.forget_nodes(SILENT_FOR)
        if len({member.report.version for member in await self._backends.membership.members()}) <= 1:
            # During an upgrade, nodes of the earlier version still use them.
            await self._backends.store_admin.drop_unused_indexes()
        if self._log_retention is not None:
            await self._backends.store_admin.keep_lines(self._log_retention)
        counts = ", ".join(f"{count:,} {what}" for what, count in deleted.items())
        emit("info", f"deleted from before {before:%Y-%m-%d %H:%M:%SZ}: {counts}")
        return {**deleted, "before": before.isoformat()}

    async def _joins(self, before: datetime, deleted: Counter[str]) -> None:
        while found := await self._backends.chains.forget_joins(before, BATCH):
            deleted["joins"] += found
            await self._clock.sleep(PAUSE_S)

    async def _runs(self, before: datetime, deleted: Counter[str]) -> None:
        after: tuple[datetime, str] | None = None
        known: dict[str, JobReach | None] = {}
        # In the order of an index that lists need anyway: no run ends before it is due.
        while page := await self._backends.archive.due_before(before, after=after, limit=BATCH):
            after = page[-1].fire_at, page[-1].id
            ended = [row for row in page if row.ended_at is not None and row.ended_at < before]
            await self._learn({row.job for row in ended if row.scheduled}, before, known)
            going = [row.id for row in ended if not row.scheduled or not _within_reach(row, known[row.job])]
            going = await self._without_parts_of_open_runs(going)
            if going:
                deleted["runs"] += await self._backends.archive.delete_runs(going, before)
                await self._clock.sleep(PAUSE_S)

    async def _without_parts_of_open_runs(self, ids: Sequence[str]) -> list[str]:
        """Without the parts whose parent is open: the leader would insert them again."""
        parents = {parent for run in ids if (parent := parent_of(run)) is not None}
        rows = await self._backends.archive.rows(parents) if parents else []
        still_open = {row.id for row in rows if row.state in OPEN}
        return [run for run in ids if parent_of(run) not in still_open]

    async def _learn(self, jobs: Set[str], before: datetime, known: dict[str, JobReach | None]) -> None:
        """Read the reach of each job once. What it allows to delete stays so: the run that has passed was created
        before a fixed time and is never deleted, and a later `pending_run` is not before the cursor, which only grows.
        """
        if len(known) > MOST_KNOWN:
            known.clear()
        if unknown := jobs - known.keys():
            known |= dict.fromkeys(unknown) | await self._backends.archive.reach(unknown, before)

    async def _tombstones(self, before: datetime, deleted: Counter[str]) -> None:
        after = ""
        while page := await self._backends.archive.jobs(after=after, limit=BATCH, deleted_before=before):
            after = page[-1].record.name
            for record in (row.record for row in page):
                if record.pending_run is not None:
                    now = await self._backends.store_admin.time()
                    # Like every write of a job: the run first, so that no instant is lost with the `pending_run`.
                    await insert_pending_runs(self._backends.runs, [record])
                    await self._backends.jobs.replace(replace(record, pending_run=None, updated_at=now), record.rev)
                elif record.updated_at < before and await self._backends.archive.delete_job(record.name, record.rev):
                    deleted["jobs"] += 1
                    await self._backends.breakers.remove([record.name])
            await self._clock.sleep(PAUSE_S)


def _within_reach(row: RunRow, job: JobReach | None) -> bool:
    """Whether a process may still insert this scheduled run again."""
    if job is None:
        return False
    if row.fire_at == job.pending_fire or (job.cursor is not None and row.fire_at >= job.cursor):
        return True
    return not job.abandoned and (job.passed is None or row.fire_at >= job.passed)
