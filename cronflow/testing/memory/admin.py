"""The memory backend's Archive, Upkeep and Housekeeping: the sweep and the clean-up on dictionaries."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from math import inf

from cronflow.domain.cluster import NO_EVICTION
from cronflow.domain.run import Run, run_id
from cronflow.domain.sweep import JobRow, RunRow, SweepReport
from cronflow.ports import Clock, KeyWithoutTtl, RedisConfig, ReplicaSet
from cronflow.testing.faults import Faults, verb
from cronflow.testing.memory.coordination import REDIS, Memory
from cronflow.testing.memory.events import MemoryEventStore
from cronflow.testing.memory.ledger import MemoryResultStore
from cronflow.testing.memory.stores import MONGO, MemoryJobStore, MemoryLogStore, MemoryRunStore


class MemoryArchive:
    """The Archive port."""

    def __init__(
        self, faults: Faults, clock: Clock, jobs: MemoryJobStore, runs: MemoryRunStore, results: MemoryResultStore
    ) -> None:
        self.faults, self._clock, self._jobs, self._runs, self._results = faults, clock, jobs, runs, results

    @verb(MONGO, "archive.runs")
    def runs(self, *, after: str = "", limit: int = 1000) -> list[RunRow]:
        """Sort and cut."""
        return [_row(run) for run_id, run in sorted(self._runs.runs.items()) if run_id > after][:limit]

    @verb(MONGO, "archive.rows")
    def rows(self, ids: Collection[str]) -> list[RunRow]:
        """Look up."""
        return [_row(self._runs.runs[run]) for run in set(ids) if run in self._runs.runs]

    @verb(MONGO, "archive.jobs")
    def jobs(self, *, after: str = "", limit: int = 500, deleted_before: datetime | None = None) -> list[JobRow]:
        """Sort, filter and cut."""
        found = [
            JobRow(record, record.active)
            for name, record in sorted(self._jobs.records.items())
            if name > after
            and (deleted_before is None or (record.deleted_at is not None and record.deleted_at < deleted_before))
        ]
        return found[:limit]

    @verb(MONGO, "archive.expired")
    def expired(
        self, before: datetime, *, after: tuple[datetime, str] | None = None, limit: int = 1000
    ) -> list[RunRow]:
        """Filter, sort and cut."""
        ended = [(run.ended_at, run.id, run) for run in self._runs.runs.values() if run.ended_at is not None]
        found = [row for row in ended if row[0] < before and (after is None or row[:2] > after)]
        return [_row(run) for _, _, run in sorted(found, key=lambda row: row[:2])[:limit]]

    @verb(MONGO, "archive.anchors")
    def anchors(self, jobs: Collection[str], before: datetime) -> dict[str, datetime]:
        """Filter."""
        found: dict[str, datetime] = {}
        for run in self._runs.runs.values():
            if run.job in jobs and run.created_at < before and run.id == run_id(run.job, run.fire_at):
                found[run.job] = max(run.fire_at, found.get(run.job, run.fire_at))
        return found

    @verb(MONGO, "archive.delete_runs")
    def delete_runs(self, ids: Collection[str], ended_before: datetime) -> int:
        """Delete."""
        found = [self._runs.runs[run] for run in set(ids) if run in self._runs.runs]
        gone = {run.id for run in found if not run.is_open and run.ended_at and run.ended_at < ended_before}
        for run in gone:
            del self._runs.runs[run]
        for late in [name for name, result in self._runs.late.items() if result.run in gone]:
            del self._runs.late[late]
        for name in [name for name, result in self._results.results.items() if result.run in gone]:
            del self._results.results[name]
        return len(gone)

    @verb(MONGO, "archive.delete_job")
    def delete_job(self, name: str, rev: int) -> bool:
        """Compare and delete."""
        record = self._jobs.records.get(name)
        if record is None or record.rev != rev or record.deleted_at is None:
            return False
        if any(run.job == name for run in self._runs.runs.values()):
            return False
        del self._jobs.records[name]
        return True

    @verb(MONGO, "archive.mark")
    def mark(self, ids: Collection[str]) -> None:
        """Here `check_at` is the only mark."""
        for run in (self._runs.runs[one] for one in ids if one in self._runs.runs):
            check_at = (run.check_at or self._clock.now()) if run.is_open else None
            self._runs.runs[run.id] = replace(run, check_at=check_at)


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


class MemoryStoreAdmin:
    """The Upkeep port. Dictionaries have no indexes; `lost_indexes` lets a test lose one."""

    def __init__(self, faults: Faults, clock: Clock, logs: MemoryLogStore, events: MemoryEventStore) -> None:
        self.faults, self._clock, self._logs, self._events = faults, clock, logs, events
        self.lost_indexes: set[str] = set()
        self.line_retention: timedelta | None = None
        self.last: SweepReport | None = None
        self.kept_by = ReplicaSet("7.0.0", "memory", 3, away=())

    @verb(MONGO, "upkeep.time")
    def time(self) -> datetime:
        """The clock."""
        return self._clock.now()

    @verb(MONGO, "upkeep.replica_set")
    def replica_set(self) -> ReplicaSet:
        """What a test wants."""
        return self.kept_by

    @verb(MONGO, "upkeep.missing_indexes")
    def missing_indexes(self) -> list[str]:
        """Those that a test has lost."""
        return sorted(self.lost_indexes)

    @verb(MONGO, "upkeep.make_indexes")
    def make_indexes(self) -> None:
        """They are back."""
        self.lost_indexes.clear()

    @verb(MONGO, "upkeep.keep_lines")
    def keep_lines(self, retention: timedelta) -> None:
        """Delete at once; a dictionary has no clock of its own, so it is done again at every call."""
        self.line_retention = retention
        limit = self._clock.now() - retention
        for key in [key for key, line in self._logs.lines.items() if line.at < limit]:
            del self._logs.lines[key]
        for name in [name for name, happened in self._events.events.items() if happened.at < limit]:
            del self._events.events[name]

    @verb(MONGO, "upkeep.write_report")
    def write_report(self, report: SweepReport) -> None:
        """Keep it."""
        self.last = report

    @verb(MONGO, "upkeep.report")
    def report(self) -> SweepReport | None:
        """Look up."""
        return self.last


class MemoryCoordinationAdmin:
    """The Housekeeping port. What has no time limit has an infinite one here; `told` is what it says of itself."""

    def __init__(self, faults: Faults, memory: Memory) -> None:
        self.faults, self._memory = faults, memory
        self.config = RedisConfig(eviction=NO_EVICTION, durable=False)

    @verb(REDIS, "housekeeping.keeping")
    def redis_config(self) -> RedisConfig:
        """What a test wants."""
        return self.config

    @verb(REDIS, "housekeeping.endless")
    def keys_without_ttl(self, cursor: int = 0) -> tuple[int, list[KeyWithoutTtl]]:
        """Everything in one page."""
        memory = self._memory
        lists = [
            KeyWithoutTtl(f"q:{node}", node)
            for node, items in memory.lists.items()
            if not memory.alive(node) and any(start_by == inf for start_by, _ in items)
        ]
        return 0, lists + [KeyWithoutTtl(_lock(key)) for key, (_, _, until) in memory.locks.items() if until == inf]

    @verb(REDIS, "housekeeping.let_expire")
    def set_ttl(self, keys: Collection[str], seconds: float) -> int:
        """A lock gets its time; a list is dropped at once."""
        memory, count = self._memory, 0
        for node in [node for node in memory.lists if f"q:{node}" in keys]:
            del memory.lists[node]
            count += 1
        for key, (job_lock, node, until) in list(memory.locks.items()):
            if _lock(key) in keys and until == inf:
                memory.locks[key] = (job_lock, node, memory.clock.monotonic() + seconds)
                count += 1
        return count

    @verb(REDIS, "housekeeping.forget_nodes")
    def forget_nodes(self, silent_for: timedelta) -> int:
        """Drop their reports, lists and holdings."""
        memory = self._memory
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
