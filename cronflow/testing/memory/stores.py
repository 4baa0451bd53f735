"""Jobs, plan intents, runs and what belongs to them, log lines, and the control document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from operator import attrgetter
from typing import Any

import orjson

from cronflow.backends.codec import line_id
from cronflow.domain.backfill import FireOutline
from cronflow.domain.cluster import FENCE_RANGE_US, LastLease, LeaderRecord, Term, node_name
from cronflow.domain.job import JobRecord, PlanIntent
from cronflow.domain.maintenance_mode import MaintenanceMode
from cronflow.domain.permits import Standing
from cronflow.domain.placement import OLDEST_EVERY
from cronflow.domain.placement_rules import PlacedRun
from cronflow.domain.run import DEAD, GRAVE, MAX_ATTEMPTS_KEPT, OPEN, Resolution, Run, RunState, Settled, contains
from cronflow.domain.split import parent_of
from cronflow.domain.transitions import Change
from cronflow.domain.version import Version
from cronflow.ports import (
    CursorMove,
    Deferral,
    Found,
    JobEdit,
    LargeResult,
    LateResult,
    LineQuery,
    LogLine,
    Move,
    OpenRun,
    RunningRun,
    RunQuery,
)
from cronflow.testing.memory.documents import DocumentPort

TAKEN = OPEN - {RunState.RETRYING}
PLACE = attrgetter("fire_at", "id")


class MemoryJobStore(DocumentPort, port="jobs"):
    async def get(self, names: Collection[str]) -> list[JobRecord]:
        return self.documents.jobs.pick(names)

    async def find(self, *, after: str = "", limit: int = 500) -> list[JobRecord]:
        return self.documents.jobs.page(
            attrgetter("name"), lambda record: record.deleted_at is None, after=after, limit=limit
        )

    async def names(self, *, prefix: str = "", after: str = "", limit: int = 500, deleted: bool = False) -> list[str]:
        found = self.documents.jobs.page(
            attrgetter("name"),
            lambda record: (deleted or record.deleted_at is None) and record.name.startswith(prefix),
            after=after,
            limit=limit,
        )
        return [record.name for record in found]

    async def edits(self, *, after: str = "", limit: int = 5000) -> list[JobEdit]:
        found = self.documents.jobs.page(attrgetter("name"), lambda _: True, after=after, limit=limit)
        return [JobEdit(record.name, record.ver, record.deleted_at is not None) for record in found]

    async def pauses(self, limit: int) -> list[JobRecord]:
        return self.documents.jobs.page(
            lambda record: (record.pause and record.pause.until, record.name),
            lambda record: record.pause is not None and record.pause.until is not None,
            limit=limit,
        )

    async def due(self, until: datetime, limit: int) -> list[JobRecord]:
        return self.documents.jobs.page(
            attrgetter("due_at", "name"),
            lambda record: record.active and record.due_at and record.due_at <= until,
            limit=limit,
        )

    async def due_in_turn(
        self, now: datetime, until: datetime, limit: int, coming: int = 1, since: datetime | None = None
    ) -> list[JobRecord]:
        active = sorted(
            (
                record
                for record in self.documents.jobs.values()
                if record.active and record.due_at is not None and (since is None or record.due_at > since)
            ),
            key=attrgetter("due_at", "name"),
        )
        due = [record for record in active if record.due_at is not None and record.due_at <= now]
        best = sorted(due, key=lambda record: -record.job.priority)[:limit]
        later = [record for record in active[len(due) :] if record.due_at is not None and record.due_at <= until]
        found = [*best, *due[: max(1, limit // OLDEST_EVERY)], *later[:coming]]
        return list({record.name: record for record in found}.values())

    async def move(self, moves: Sequence[Move], term: int) -> set[str]:
        return {move.job for move in moves if self._move(move, term)}

    def _move(self, move: Move, term: int) -> bool:
        moved = self.documents.jobs.replace_if(
            move.job,
            lambda record: record.rev == move.rev and record.term <= term,
            lambda record: replace(
                record,
                rev=record.rev + 1,
                term=term,
                next_fire=move.next_fire,
                due_at=move.next_fire,
                pending_run=move.pending_run,
                waiting=None,
                fired=record.fired + move.counts,
            ),
        )
        if moved:
            return True
        # A repeated move finds its own fence, which no other writer has.
        record = self.documents.jobs.get(move.job)
        present = None if record is None else record.pending_run
        return present is not None and present.fence == move.pending_run.fence

    async def reposition(self, jobs: Mapping[str, CursorMove], term: int) -> set[str]:
        return {name for name, cursor in jobs.items() if self._reposition(name, cursor, term)}

    def _reposition(self, name: str, cursor: CursorMove, term: int) -> bool:
        fire = cursor.next_fire
        values: dict[str, Any] = {"next_fire": fire, "due_at": fire, "term": term, "waiting": None}
        moved = self.documents.jobs.replace_if(
            name,
            lambda record: record.rev == cursor.rev and record.term <= term,
            lambda record: replace(
                record,
                **values,
                rev=cursor.rev + 1,
                since=fire if fire and record.since and fire < record.since else record.since,
            ),
        )
        if moved:
            return True
        record = self.documents.jobs.get(name)
        return record is not None and (record.rev, record.term, record.next_fire) == (cursor.rev + 1, term, fire)

    async def defer(self, jobs: Mapping[str, Deferral]) -> None:
        for name, (rev, due_at, waiting, _) in jobs.items():
            record = self.documents.jobs.get(name)
            if record is not None and record.rev == rev:
                self.documents.jobs[name] = replace(record, due_at=due_at, waiting=waiting)

    async def fence(self, names: Collection[str], term: int) -> list[JobRecord]:
        return [
            self.documents.jobs[name]
            for name in names
            if self.documents.jobs.replace_if(
                name,
                lambda present: present.term <= term,
                lambda present: replace(present, rev=present.rev + 1, term=term),
            )
        ]

    async def create(self, record: JobRecord) -> bool:
        return self.documents.jobs.insert(record.name, record)

    async def create_all(self, records: Sequence[JobRecord]) -> set[str]:
        return {record.name for record in records if self.documents.jobs.insert(record.name, record)}

    async def replace(self, record: JobRecord, rev: int) -> bool:
        return self.documents.jobs.replace_if(
            record.name, lambda present: present.rev == rev, lambda _: replace(record, rev=rev + 1)
        )


class MemoryPlanStore(DocumentPort, port="plans"):
    async def write(self, note: PlanIntent) -> None:
        self.documents.plans[note.id] = (note, self.clock.now())

    async def remove(self, ids: Collection[str]) -> None:
        self.documents.plans.delete(ids)

    async def left_behind(self, term: int, older_than: timedelta) -> list[PlanIntent]:
        limit = self.clock.now() - older_than
        return [note for note, at in self.documents.plans.values() if 0 < note.term < term or at < limit]


class MemoryRunStore(DocumentPort, port="runs"):
    async def insert(self, runs: Sequence[Run]) -> set[str]:
        fresh = [run for run in runs if self.documents.runs.insert(run.id, run)]
        self.documents.unreported |= {run.id for run in fresh if run.is_dead}
        return {run.id for run in fresh}

    async def insert_changed(self, runs: Sequence[tuple[Run, Change]], now: datetime) -> set[str]:
        # Two writes to the table, with nothing in between, so that histories show both steps.
        fresh = [(run, change) for run, change in runs if self.documents.runs.insert(run.id, run)]
        for _, change in fresh:
            self._apply(change, now)
        return {run.id for run, _ in fresh}

    async def apply(self, changes: Sequence[Change]) -> set[str]:
        return {change.run for change in changes if self._apply(change)}

    def _apply(self, change: Change, now: datetime | None = None) -> bool:
        if self.documents.runs.replace_if(
            change.run, lambda run: self._matches(run, change), lambda run: self._changed(run, change, now)
        ):
            self.documents.changes.append(change)
            if change.target in DEAD and parent_of(change.run) is None:
                self.documents.unreported.add(change.run)
            return True
        run = self.documents.runs.get(change.run)
        if run is None:
            return False
        if change.proof is None:
            return run.state == change.target and run.fence == change.fence
        name, value = change.proof
        return bool(getattr(run, name) == value)

    def _matches(self, run: Run, change: Change) -> bool:
        return (
            run.state in change.sources
            and (change.fence is None or run.fence == change.fence)
            and (change.job_ver is None or run.job_ver == change.job_ver)
            and (change.below_ver is None or run.job_ver < change.below_ver)
            and not (change.unless_cancelled and run.cancel_requested)
            and (change.own_start is None or run.start_id in (None, change.own_start))
            and (not change.only_when_due or (run.check_at is not None and run.check_at <= self.clock.now()))
        )

    def _changed(self, run: Run, change: Change, now: datetime | None) -> Run:
        sets: dict[str, Any] = dict(change.sets) | {"state": change.target}
        if change.target not in OPEN:
            sets["check_at"] = None
        elif change.check_in is not None:
            sets["check_at"] = (now or self.clock.now()) + change.check_in
        if change.attempt is not None:
            sets["attempts"] = (*run.attempts, change.attempt)[-MAX_ATTEMPTS_KEPT:]
        return replace(run, **sets)

    async def overdue(
        self, limit: int, waiting: int | None = None, without: Collection[str] = (), reasons: Collection[str] = ()
    ) -> list[Run]:
        now, most = self.clock.now(), limit if waiting is None else waiting

        def page(by: Callable[[Run], object], count: int, queued: bool) -> list[Run]:
            return self.documents.runs.page(
                by,
                lambda run: (
                    run.check_at is not None
                    and run.check_at <= now
                    and (run.state is RunState.RETRYING) is queued
                    and not (queued and run.job in without)
                    and not (queued and run.waiting is not None and run.waiting.reason in reasons)
                ),
                limit=count,
            )

        oldest = attrgetter("check_at", "id")
        found = [
            *page(oldest, limit, False),
            *page(lambda run: (-run.priority, run.check_at, run.id), most, True),
            *page(oldest, max(1, most // OLDEST_EVERY), True),
        ]
        return list({run.id: run for run in found}.values())

    async def get(self, ids: Collection[str]) -> list[Run]:
        return self.documents.runs.pick(ids)

    async def existing(self, ids: Collection[str]) -> set[str]:
        return {run for run in ids if run in self.documents.runs}

    async def open_of(self, jobs: Collection[str]) -> dict[str, list[OpenRun]]:
        return self._in(OPEN, jobs)

    async def taken_of(self, jobs: Collection[str]) -> dict[str, list[OpenRun]]:
        return self._in(OPEN - {RunState.RETRYING}, jobs)

    def _in(self, states: Collection[RunState], jobs: Collection[str]) -> dict[str, list[OpenRun]]:
        found: dict[str, list[OpenRun]] = {}
        for run in self.documents.runs.values():
            if run.state in states and run.job in jobs:
                node = run.node if run.state in TAKEN and run.waiting is None else None
                found.setdefault(run.job, []).append(OpenRun(run.id, run.state, run.created_at, node))
        return found

    async def standings(self, ids: Collection[str]) -> dict[str, Standing]:
        return {run.id: Standing(run.state, run.fence) for run in self.documents.runs.pick(ids)}

    async def reserving(self) -> list[PlacedRun]:
        return [
            PlacedRun(run.id, run.job, run.node, run.reserved)
            for run in self.documents.runs.values()
            if run.reserved is not None and run.node is not None and run.state in TAKEN
        ]

    async def parents(self, limit: int) -> list[Run]:
        return self.documents.runs.page(
            attrgetter("created_at", "id"), lambda run: run.is_open and run.split is not None, limit=limit
        )

    async def part_counts(self, parents: Collection[str]) -> dict[str, dict[RunState, int]]:
        found: dict[str, dict[RunState, int]] = {parent: {} for parent in parents}
        for run in self.documents.runs.values():
            if run.parent in found:
                found[run.parent][run.state] = found[run.parent].get(run.state, 0) + 1
        return found

    async def running(self, started_until: datetime, limit: int) -> list[RunningRun]:
        return [
            RunningRun(run.id, run.job, run.node or "", run.started_at)
            for run in self.documents.runs.values()
            if run.state is RunState.RUNNING and run.started_at is not None and run.started_at <= started_until
        ][:limit]

    async def count(self, query: RunQuery, most: int) -> int:
        return len(await self.find(replace(query, limit=most)))

    async def find(self, query: RunQuery) -> list[Run]:
        return self.documents.runs.page(
            PLACE,
            lambda run: (
                (query.ids is None or run.id in query.ids)
                and query.job in (None, run.job)
                and (query.jobs is None or run.job in query.jobs)
                and (not query.states or run.state in query.states)
                and (not query.kinds or run.kind in query.kinds)
                and (not query.dead or run.is_dead)
                and (query.node is None or (run.node is not None and query.node in (run.node, node_name(run.node))))
                and query.backfill in (None, run.backfill)
                and query.chain in (None, run.chain_id)
                and query.parent in (None, run.parent)
                and (query.since is None or run.fire_at >= query.since)
                and (query.until is None or run.fire_at < query.until)
            ),
            after=query.before,
            limit=query.limit,
            newest=not query.oldest_first,
        )

    async def outlines(
        self, job: str, first: datetime, last: datetime, *, after: tuple[datetime, str] | None = None, limit: int = 1000
    ) -> list[FireOutline]:
        found = self.documents.runs.page(
            PLACE, lambda run: run.job == job and first <= run.fire_at <= last, after=after, limit=limit
        )
        return [FireOutline(run.id, run.fire_at, run.state, run.covers) for run in found]

    async def days(self, job: str, since: datetime, most: int) -> dict[date, dict[RunState, int]]:
        newest = self.documents.runs.page(
            PLACE, lambda run: run.job == job and run.fire_at >= since, limit=most, newest=True
        )
        found: dict[date, dict[RunState, int]] = {}
        for run in newest:
            states = found.setdefault(run.fire_at.astimezone(UTC).date(), Counter())
            states[run.state] += 1
        return found

    async def keep_late(self, late: Sequence[LateResult]) -> None:
        for result in late:
            self.documents.late.insert(result.finish_id, result)


class MemoryVersionStore(DocumentPort, port="versions"):
    async def keep(self, versions: Sequence[Version]) -> None:
        for version in versions:
            self.documents.versions.insert((version.job.name, version.ver), version)

    async def of(self, job: str, limit: int = 1000) -> list[Version]:
        found = self.documents.versions.page(
            attrgetter("ver"), lambda version: version.job.name == job, limit=limit, newest=True
        )
        return found[::-1]


class MemoryLateStore(DocumentPort, port="late"):
    async def of(self, run: str) -> list[LateResult]:
        return self.documents.late.page(attrgetter("at"), lambda late: late.run == run)


class MemoryResultStore(DocumentPort, port="results"):
    async def keep(self, results: Sequence[LargeResult]) -> None:
        for result in results:
            self.documents.results.insert(result.id, result)

    async def get(self, ids: Collection[str]) -> dict[str, object]:
        return {result.id: orjson.loads(result.text) for result in self.documents.results.pick(ids)}


class MemoryDeadLetters(DocumentPort, port="dead_letters"):
    async def settle(self, runs: Collection[str], resolution: Resolution) -> set[str]:
        def may_settle(run: Run) -> bool:
            return run.is_dead if resolution.how is Settled.ACKNOWLEDGED else not run.is_open

        return {
            name
            for name in runs
            if self.documents.runs.replace_if(name, may_settle, lambda run: replace(run, resolution=resolution))
        }

    async def count(self, job: str | None = None) -> int:
        return sum(run.is_dead and job in (None, run.job) for run in self.documents.runs.values())

    async def newest(self, limit: int) -> list[str]:
        dead = self.documents.runs.page(PLACE, lambda run: run.is_dead, limit=limit, newest=True)
        return [run.id for run in dead]


class MemoryLogStore(DocumentPort, port="logs"):
    async def append(self, lines: Sequence[LogLine]) -> None:
        for line in lines:
            self.documents.lines.insert((line.run, line.fence, line.n), line)

    async def remove(self, run: str, fence: int, first: int, end: int) -> None:
        self.documents.lines.delete_where(lambda line: (line.run, line.fence) == (run, fence) and first <= line.n < end)

    async def read(self, run: str, *, after: tuple[int, int] = (0, -1), limit: int = 1000) -> list[LogLine]:
        return self.documents.lines.page(
            attrgetter("fence", "n"), lambda line: line.run == run, after=after, limit=limit
        )

    async def tail(self, run: str, limit: int) -> list[LogLine]:
        found = self.documents.lines.page(
            attrgetter("fence", "n"), lambda line: line.run == run, limit=limit, newest=True
        )
        return found[::-1]

    async def find(self, query: LineQuery) -> Found:
        only_grave = query.job is None and query.levels and GRAVE.issuperset(query.levels)
        scanned = self.documents.lines.page(
            _place,
            lambda line: (
                (query.since is None or line.at >= query.since)
                and (query.until is None or line.at < query.until)
                and query.job in (None, line.job)
                and (not only_grave or line.level in GRAVE)
            ),
            after=query.before,
            limit=query.look_at + 1,
            newest=True,
        )
        page = scanned[: query.look_at]
        found = [
            line
            for line in page
            if contains(line.text, query.text)
            and (not query.levels or line.level in query.levels)
            and query.node in (None, line.node)
        ][: query.limit]
        last = found[-1] if len(found) == query.limit else page[-1] if len(page) < len(scanned) else None
        return Found(found, None if last is None else _place(last))


def _place(line: LogLine) -> tuple[datetime, str]:
    return line.at, line_id(line)


class MemoryControl(DocumentPort, port="control"):
    async def begin_term(self, holder: str) -> Term:
        documents, now = self.documents, self.clock.now()
        before = documents.leader
        number = 1 if before is None else before.term + 1
        last = None if before is None else LastLease(before.holder, before.renewed_at)
        documents.leader = LeaderRecord(term=number, holder=holder, elected_at=now, renewed_at=now)
        low = max(documents.fence_high, _us(now))
        documents.fence_high = low + FENCE_RANGE_US
        return Term(number, low, documents.fence_high, last)

    async def extend(self, term: int, holder: str) -> int | None:
        documents, now = self.documents, self.clock.now()
        record = documents.leader
        if record is None or (record.term, record.holder) != (term, holder):
            return None
        documents.leader = replace(record, renewed_at=now)
        documents.fence_high = max(documents.fence_high, _us(now) + FENCE_RANGE_US)
        return documents.fence_high

    async def leader(self) -> LeaderRecord | None:
        return self.documents.leader

    async def maintenance(self) -> MaintenanceMode | None:
        return self.documents.maintenance

    async def begin_maintenance(self, mode: MaintenanceMode) -> None:
        self.documents.maintenance = mode

    async def end_maintenance(self, since: datetime | None = None) -> bool:
        present = self.documents.maintenance
        if present is None or since not in (None, present.since):
            return False
        self.documents.maintenance = None
        return True

    async def claim_zone_data(self, identity: str, term: int) -> bool | None:
        found, claimed = self.documents.zone_data
        if claimed > term:
            return None
        self.documents.zone_data = (found if found == identity else None), term
        return found == identity

    async def keep_zone_data(self, identity: str, term: int) -> None:
        if self.documents.zone_data[1] == term:
            self.documents.zone_data = identity, term

    async def ping(self) -> float:
        return 0.0


def _us(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000)
