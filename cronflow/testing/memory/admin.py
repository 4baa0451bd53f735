"""What the sweep, the clean-up and `cronflow doctor` need of both servers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from math import inf
from operator import attrgetter

from cronflow.domain.run import Run, run_id
from cronflow.domain.sweep import JobRow, RunRow, SweepReport
from cronflow.ports import JobReach, KeyWithoutTtl, RedisConfig, ReplicaSet
from cronflow.testing.memory.coordination import RedisPort
from cronflow.testing.memory.documents import DocumentPort


class MemoryArchive(DocumentPort, port="archive"):
    async def runs(self, *, after: str = "", limit: int = 1000) -> list[RunRow]:
        return [_row(run) for run in self.documents.runs.page(attrgetter("id"), after=after, limit=limit)]

    async def rows(self, ids: Collection[str]) -> list[RunRow]:
        return [_row(run) for run in self.documents.runs.pick(ids)]

    async def jobs(self, *, after: str = "", limit: int = 500, deleted_before: datetime | None = None) -> list[JobRow]:
        found = self.documents.jobs.page(
            attrgetter("name"),
            lambda record: deleted_before is None or (record.deleted_at and record.deleted_at < deleted_before),
            after=after,
            limit=limit,
        )
        return [JobRow(record, record.active) for record in found]

    async def due_before(
        self, before: datetime, *, after: tuple[datetime, str] | None = None, limit: int = 1000
    ) -> list[RunRow]:
        found = self.documents.runs.page(
            attrgetter("fire_at", "id"), lambda run: run.fire_at < before, after=after, limit=limit
        )
        return [_row(run) for run in found]

    async def reach(self, jobs: Collection[str], before: datetime) -> dict[str, JobReach]:
        passed: dict[str, datetime] = {}
        for run in self.documents.runs.values():
            if run.job in jobs and run.created_at < before and run.id == run_id(run.job, run.fire_at):
                passed[run.job] = max(run.fire_at, passed.get(run.job, run.fire_at))
        return {
            record.name: JobReach(
                cursor=record.next_fire,
                pending_fire=None if record.pending_run is None else record.pending_run.fire,
                passed=passed.get(record.name),
                abandoned=record.deleted_at is not None and record.pending_run is None and record.updated_at < before,
            )
            for record in self.documents.jobs.pick(jobs)
        }

    async def delete_runs(self, ids: Collection[str], ended_before: datetime) -> int:
        found = self.documents.runs.pick(ids)
        gone = {run.id for run in found if not run.is_open and run.ended_at and run.ended_at < ended_before}
        self.documents.runs.delete(gone)
        self.documents.late.delete_where(lambda late: late.run in gone)
        self.documents.results.delete_where(lambda result: result.run in gone)
        return len(gone)

    async def delete_job(self, name: str, rev: int) -> bool:
        record = self.documents.jobs.get(name)
        if record is None or record.rev != rev or record.deleted_at is None:
            return False
        if any(run.job == name for run in self.documents.runs.values()):
            return False
        del self.documents.jobs[name]
        return True

    async def repair_marks(self, ids: Collection[str]) -> None:
        # Here `check_at` is the only mark.
        for run in self.documents.runs.pick(ids):
            check_at = (run.check_at or self.clock.now()) if run.is_open else None
            self.documents.runs[run.id] = replace(run, check_at=check_at)


def _row(run: Run) -> RunRow:
    return RunRow(
        id=run.id,
        job=run.job,
        state=run.state,
        fire_at=run.fire_at,
        marked_open=run.is_open,
        check_at=run.check_at,
        ended_at=run.ended_at,
    )


class MemoryStoreAdmin(DocumentPort, port="store_admin"):
    """Lines and events older than the retention are deleted when `keep_lines` is called, and not before."""

    async def time(self) -> datetime:
        return self.clock.now()

    async def replica_set(self) -> ReplicaSet:
        return self.documents.replica_set

    async def missing_indexes(self) -> list[str]:
        return sorted(self.documents.lost_indexes)

    async def make_indexes(self) -> None:
        self.documents.lost_indexes.clear()

    async def drop_unused_indexes(self) -> None:
        """Tables have no indexes."""

    async def keep_lines(self, retention: timedelta) -> None:
        self.documents.line_retention = retention
        limit = self.clock.now() - retention
        self.documents.lines.delete_where(lambda line: line.at < limit)
        self.documents.events.delete_where(lambda event: event.at < limit)

    async def write_report(self, report: SweepReport) -> None:
        self.documents.sweep_report = report

    async def report(self) -> SweepReport | None:
        return self.documents.sweep_report


class MemoryCoordinationAdmin(RedisPort, port="coordination_admin"):
    """A key without a TTL is one that expires at infinity."""

    async def redis_config(self) -> RedisConfig:
        return self.memory.config

    async def check_rights(self) -> None:
        """Memory has no users."""

    async def keys_without_ttl(self, cursor: int = 0) -> tuple[int, list[KeyWithoutTtl]]:
        memory = self.memory
        lists = [
            KeyWithoutTtl(f"q:{node}", node)
            for node, items in memory.lists.items()
            if not memory.alive(node) and any(start_by == inf for start_by, _ in items)
        ]
        return 0, lists + [KeyWithoutTtl(_lock(key)) for key, (_, _, until) in memory.locks.items() if until == inf]

    async def set_ttl(self, keys: Collection[str], seconds: float) -> int:
        memory, count = self.memory, 0
        # Items have no time left to wait for, so their list goes at once.
        for node in [node for node in memory.lists if f"q:{node}" in keys]:
            del memory.lists[node]
            count += 1
        for key, (job_lock, node, until) in list(memory.locks.items()):
            if _lock(key) in keys and until == inf:
                memory.locks[key] = (job_lock, node, memory.clock.monotonic() + seconds)
                count += 1
        return count

    async def forget_nodes(self, silent_for: timedelta) -> int:
        memory = self.memory
        limit = memory.clock.monotonic() - silent_for.total_seconds()
        gone = [node for node, (_, _, seen) in memory.reports.items() if seen < limit and not memory.alive(node)]
        for node in gone:
            del memory.reports[node]
            memory.lists.pop(node, None)
            memory.held.pop(node, None)
        return len(gone)


def _lock(key: tuple[str, str]) -> str:
    job, slot = key
    return f"lock:job:{job}:{slot}" if slot else f"lock:job:{job}"
