"""What MongoDB keeps, in dictionaries: jobs, plan notes, runs, log lines and the control document."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from cronflow.backends.codec import line_id
from cronflow.domain.cluster import FENCE_RANGE_US, LeaderRecord, Term, node_name
from cronflow.domain.job import JobRecord, PlanIntent
from cronflow.domain.log_levels import GRAVE, says
from cronflow.domain.run import DEAD, MAX_ATTEMPTS_KEPT, OPEN, Run, RunState
from cronflow.domain.transitions import Change
from cronflow.ports import Clock, Deferral, Found, LateResult, LineQuery, LogLine, Move, OpenRun, RunQuery
from cronflow.testing.faults import Faults, verb

MONGO = "MongoDB"


class MemoryJobStore:
    """The JobStore port."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.records: dict[str, JobRecord] = {}

    @verb(MONGO, "jobs.get")
    def get(self, names: Collection[str]) -> list[JobRecord]:
        """Look up."""
        return [self.records[name] for name in set(names) if name in self.records]

    @verb(MONGO, "jobs.find")
    def find(self, *, after: str = "", limit: int = 500) -> list[JobRecord]:
        """Sort and cut."""
        found = (r for name, r in sorted(self.records.items()) if name > after and r.deleted_at is None)
        return [record for record, _ in zip(found, range(limit), strict=False)]

    @verb(MONGO, "jobs.due")
    def due(self, until: datetime, limit: int) -> list[JobRecord]:
        """Filter, sort and cut."""
        found = [(r.due_at, r.name, r) for r in self.records.values() if r.active and r.due_at and r.due_at <= until]
        return [record for _, _, record in sorted(found, key=lambda row: row[:2])[:limit]]

    @verb(MONGO, "jobs.move")
    def move(self, moves: Sequence[Move], term: int) -> set[str]:
        """Compare and set, one by one."""
        won = set()
        for move in moves:
            record = self.records.get(move.job)
            if record is None:
                continue
            if record.rev == move.rev and record.term <= term:
                self.records[move.job] = replace(
                    record,
                    rev=record.rev + 1,
                    term=term,
                    next_fire=move.next_fire,
                    due_at=move.next_fire,
                    pending_run=move.pending_run,
                    waiting=None,
                )
                won.add(move.job)
            elif record.pending_run is not None and record.pending_run.fence == move.pending_run.fence:
                won.add(move.job)
        return won

    @verb(MONGO, "jobs.defer")
    def defer(self, jobs: Mapping[str, Deferral]) -> None:
        """Set `due_at` and `waiting` alone."""
        for name, (rev, due_at, waiting) in jobs.items():
            record = self.records.get(name)
            if record is not None and record.rev == rev:
                self.records[name] = replace(record, due_at=due_at, waiting=waiting)

    @verb(MONGO, "jobs.fence")
    def fence(self, names: Collection[str], term: int) -> list[JobRecord]:
        """Write the term."""
        found = []
        for name in names:
            record = self.records.get(name)
            if record is not None and record.term <= term:
                self.records[name] = replace(record, rev=record.rev + 1, term=term)
                found.append(self.records[name])
        return found

    @verb(MONGO, "jobs.create")
    def create(self, record: JobRecord) -> bool:
        """Insert."""
        if record.name in self.records:
            return False
        self.records[record.name] = record
        return True

    @verb(MONGO, "jobs.replace")
    def replace(self, record: JobRecord, rev: int) -> bool:
        """Compare and set."""
        present = self.records.get(record.name)
        if present is None or present.rev != rev:
            return False
        self.records[record.name] = replace(record, rev=rev + 1)
        return True


class MemoryPlanStore:
    """The PlanStore port."""

    def __init__(self, faults: Faults, clock: Clock) -> None:
        self.faults, self._clock = faults, clock
        self.notes: dict[str, tuple[PlanIntent, datetime]] = {}

    @verb(MONGO, "plans.write")
    def write(self, note: PlanIntent) -> None:
        """Insert."""
        self.notes[note.id] = (note, self._clock.now())

    @verb(MONGO, "plans.remove")
    def remove(self, ids: Collection[str]) -> None:
        """Delete."""
        for name in ids:
            self.notes.pop(name, None)

    @verb(MONGO, "plans.left_behind")
    def left_behind(self, term: int, older_than: timedelta) -> list[PlanIntent]:
        """Filter."""
        limit = self._clock.now() - older_than
        return [note for note, at in self.notes.values() if 0 < note.term < term or at < limit]


class MemoryRunStore:
    """The RunStore port."""

    def __init__(self, faults: Faults, clock: Clock) -> None:
        self.faults, self._clock = faults, clock
        self.runs: dict[str, Run] = {}
        self.late: dict[str, LateResult] = {}
        self.history: list[Change] = []
        self.unreported: set[str] = set()

    @verb(MONGO, "runs.insert")
    def insert(self, runs: Sequence[Run]) -> set[str]:
        """Insert the new ones."""
        fresh = {run.id: run for run in runs if run.id not in self.runs}
        self.runs |= fresh
        self.unreported |= {run.id for run in fresh.values() if run.is_dead}
        return set(fresh)

    @verb(MONGO, "runs.apply")
    def apply(self, changes: Sequence[Change]) -> set[str]:
        """Compare and set, one by one."""
        won = set()
        for change in changes:
            run = self.runs.get(change.run)
            if run is None:
                continue
            if self._matches(run, change):
                self.runs[run.id] = self._changed(run, change)
                self.history.append(change)
                won.add(run.id)
                if change.target in DEAD:
                    self.unreported.add(run.id)
            elif change.proof is None:
                if run.state == change.target and run.fence == change.fence:
                    won.add(run.id)
            elif getattr(run, change.proof[0]) == change.proof[1]:
                won.add(run.id)
        return won

    def _matches(self, run: Run, change: Change) -> bool:
        return (
            run.state in change.sources
            and (change.fence is None or run.fence == change.fence)
            and (change.job_ver is None or run.job_ver == change.job_ver)
            and (change.below_ver is None or run.job_ver < change.below_ver)
            and not (change.unless_cancelled and run.cancel_requested)
            and (not change.only_when_due or (run.check_at is not None and run.check_at <= self._clock.now()))
        )

    def _changed(self, run: Run, change: Change) -> Run:
        sets: dict[str, Any] = dict(change.sets) | {"state": change.target}
        if change.target not in OPEN:
            sets["check_at"] = None
        elif change.check_in is not None:
            sets["check_at"] = self._clock.now() + change.check_in
        if change.attempt is not None:
            sets["attempts"] = (*run.attempts, change.attempt)[-MAX_ATTEMPTS_KEPT:]
        return replace(run, **sets)

    @verb(MONGO, "runs.overdue")
    def overdue(self, limit: int) -> list[Run]:
        """Filter, sort and cut."""
        now = self._clock.now()
        found = [(run.check_at, run.id, run) for run in self.runs.values() if run.check_at and run.check_at <= now]
        return [run for _, _, run in sorted(found, key=lambda row: row[:2])[:limit]]

    @verb(MONGO, "runs.get")
    def get(self, ids: Collection[str]) -> list[Run]:
        """Look up."""
        return [self.runs[run] for run in set(ids) if run in self.runs]

    @verb(MONGO, "runs.existing")
    def existing(self, ids: Collection[str]) -> set[str]:
        """Look up."""
        return {run for run in ids if run in self.runs}

    @verb(MONGO, "runs.open_of")
    def open_of(self, jobs: Collection[str]) -> dict[str, list[OpenRun]]:
        """Filter."""
        found: dict[str, list[OpenRun]] = {}
        for run in self.runs.values():
            if run.is_open and run.job in jobs:
                found.setdefault(run.job, []).append(OpenRun(run.id, run.state, run.created_at))
        return found

    @verb(MONGO, "runs.find")
    def find(self, query: RunQuery) -> list[Run]:
        """Filter, sort and cut."""
        found = [
            run
            for run in self.runs.values()
            if (query.job is None or run.job == query.job)
            and (not query.states or run.state in query.states)
            and (not query.kinds or run.kind in query.kinds)
            and (not query.dead or run.is_dead)
            and (query.node is None or (run.node is not None and query.node in (run.node, node_name(run.node))))
            and (query.since is None or run.fire_at >= query.since)
            and (query.until is None or run.fire_at < query.until)
            and (query.before is None or (run.fire_at, run.id) < query.before)
        ]
        return sorted(found, key=lambda run: (run.fire_at, run.id), reverse=True)[: query.limit]

    @verb(MONGO, "runs.days")
    def days(self, job: str, since: datetime, most: int) -> dict[date, dict[RunState, int]]:
        """Sort, cut and count."""
        due = sorted((run.fire_at, run.id) for run in self.runs.values() if run.job == job and run.fire_at >= since)
        found: dict[date, dict[RunState, int]] = {}
        for at, name in due[-most:]:
            states = found.setdefault(at.astimezone(UTC).date(), {})
            states[self.runs[name].state] = states.get(self.runs[name].state, 0) + 1
        return found

    @verb(MONGO, "runs.keep_late")
    def keep_late(self, late: Sequence[LateResult]) -> None:
        """Insert the new ones."""
        for result in late:
            self.late.setdefault(result.finish_id, result)


class MemoryLogStore:
    """The LogStore port."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.lines: dict[tuple[str, int, int], LogLine] = {}

    @verb(MONGO, "logs.append")
    def append(self, lines: Sequence[LogLine]) -> None:
        """Insert the new ones."""
        for line in lines:
            self.lines.setdefault((line.run, line.fence, line.n), line)

    @verb(MONGO, "logs.read")
    def read(self, run: str, *, after: tuple[int, int] = (0, -1), limit: int = 1000) -> list[LogLine]:
        """Filter, sort and cut."""
        return [line for key, line in sorted(self.lines.items()) if key[0] == run and key[1:] > after][:limit]

    @verb(MONGO, "logs.tail")
    def tail(self, run: str, limit: int) -> list[LogLine]:
        """Filter, sort and cut."""
        return [line for key, line in sorted(self.lines.items()) if key[0] == run][-limit:]

    @verb(MONGO, "logs.find")
    def find(self, query: LineQuery) -> Found:
        """Filter and sort, look at so many, filter and cut."""
        rows = sorted(((line.at, line_id(line), line) for line in self.lines.values()), reverse=True)
        looked_at = [
            row
            for row in rows
            if (query.before is None or row[:2] < query.before)
            and (query.since is None or row[0] >= query.since)
            and (query.job is None or row[2].job == query.job)
            and (
                query.job is not None or not query.levels or not GRAVE.issuperset(query.levels) or row[2].level in GRAVE
            )
        ]
        page = looked_at[: query.look_at]
        found = [
            row
            for row in page
            if says(row[2].text, query.text)
            and (not query.levels or row[2].level in query.levels)
            and (query.node is None or row[2].node == query.node)
        ][: query.limit]
        last = found[-1] if len(found) == query.limit else page[-1] if len(page) < len(looked_at) else None
        return Found([row[2] for row in found], None if last is None else last[:2])


class MemoryControl:
    """The Control port."""

    def __init__(self, faults: Faults, clock: Clock) -> None:
        self.faults, self._clock = faults, clock
        self.record: LeaderRecord | None = None
        self.fence_high = 0

    @verb(MONGO, "control.begin_term")
    def begin_term(self, holder: str) -> Term:
        """Count up."""
        now = self._clock.now()
        number = 1 if self.record is None else self.record.term + 1
        self.record = LeaderRecord(term=number, holder=holder, elected_at=now, renewed_at=now)
        low = max(self.fence_high, _us(now))
        self.fence_high = low + FENCE_RANGE_US
        return Term(number, low, self.fence_high)

    @verb(MONGO, "control.extend")
    def extend(self, term: int, holder: str) -> int | None:
        """Compare and set."""
        if self.record is None or (self.record.term, self.record.holder) != (term, holder):
            return None
        now = self._clock.now()
        self.record = replace(self.record, renewed_at=now)
        self.fence_high = max(self.fence_high, _us(now) + FENCE_RANGE_US)
        return self.fence_high

    @verb(MONGO, "control.leader")
    def leader(self) -> LeaderRecord | None:
        """Look up."""
        return self.record

    @verb(MONGO, "control.ping")
    def ping(self) -> float:
        """No time at all."""
        return 0.0


def _us(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000)
