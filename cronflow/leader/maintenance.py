"""Maintenance: once per term, the leader defines the system jobs and sets the retention of log lines.

Only the leader's settings count, and changing them is an ordinary edit of a job. The system jobs are planned and placed
like all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from cronflow.domain.errors import Conflict
from cronflow.domain.job import Job, JobRecord
from cronflow.domain.run import run_id
from cronflow.domain.sweep import RunRow
from cronflow.leader.elector import Elector
from cronflow.node.role_loop import Wake
from cronflow.ports import Assignment, Backends, Clock, LineSink, StoreAdmin
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
    ) -> None:
        self._store_admin = store_admin
        self._elector = elector
        self._editor = editor
        self._jobs = jobs
        self._log_retention = log_retention
        self._done_in_term = 0
        self.wake = Wake()

    async def step(self) -> float:
        tenure = self._elector.tenure
        if tenure is None or tenure.term == self._done_in_term:
            return IDLE_S
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
        return IDLE_S


BATCH = 1000
PAUSE_S = 0.1
MOST_ANCHORS = 100_000
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
        """Clean up once. Returns the number of deleted documents by kind."""
        deleted: Counter[str] = Counter(runs=0, jobs=0, nodes=0)
        before = await self._backends.store_admin.time() - self._retention
        await self._runs(before, deleted)
        await self._tombstones(before, deleted)
        await self._backends.audit.keep(self._retention)
        deleted["nodes"] = await self._backends.coordination_admin.forget_nodes(SILENT_FOR)
        if self._log_retention is not None:
            await self._backends.store_admin.keep_lines(self._log_retention)
        counts = ", ".join(f"{count:,} {what}" for what, count in deleted.items())
        emit("info", f"deleted from before {before:%Y-%m-%d %H:%M:%SZ}: {counts}")
        return dict(deleted)

    async def _runs(self, before: datetime, deleted: Counter[str]) -> None:
        after: tuple[datetime, str] | None = None
        anchors: dict[str, datetime | None] = {}
        while page := await self._backends.archive.expired(before, after=after, limit=BATCH):
            assert page[-1].ended_at is not None
            after = page[-1].ended_at, page[-1].id
            going = await self._out_of_reach(page, before, anchors)
            if going:
                deleted["runs"] += await self._backends.archive.delete_runs(going, before)
                await self._clock.sleep(PAUSE_S)

    async def _out_of_reach(
        self, page: Sequence[RunRow], before: datetime, anchors: dict[str, datetime | None]
    ) -> list[str]:
        names = {row.job for row in page}
        jobs = {record.name: record for record in await self._backends.jobs.get(names)}
        # An anchor was created before a fixed time and is never deleted, so each is read once.
        if len(anchors) > MOST_ANCHORS:
            anchors.clear()
        unknown = {row.job for row in page if row.scheduled and row.job in jobs} - anchors.keys()
        anchors |= dict.fromkeys(unknown) | await self._backends.archive.anchors(unknown, before)
        return [row.id for row in page if _out_of_reach(row, jobs.get(row.job), anchors.get(row.job), before)]

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
                elif record.updated_at < before:
                    deleted["jobs"] += await self._backends.archive.delete_job(record.name, record.rev)
            await self._clock.sleep(PAUSE_S)


def _out_of_reach(row: RunRow, record: JobRecord | None, anchor: datetime | None, before: datetime) -> bool:
    """Whether no process can insert the run again."""
    if record is None or not row.scheduled:
        return True
    if record.pending_run is not None and run_id(record.name, record.pending_run.fire) == row.id:
        return False
    if record.deleted_at is not None and record.pending_run is None and record.updated_at < before:
        return True
    return anchor is not None and row.fire_at < anchor
