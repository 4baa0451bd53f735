"""The sweep: an audit of every record against the protocol's invariants, which must find nothing.

It reads all runs and jobs page by page, then plan intents, indexes and Redis. `domain.sweep` has the checks. Whatever
depends on time or on two records is first a suspect, and a finding only if a second look confirms it: work in progress
is never a finding. Repairs use the compare-and-sets of the roles: `postpone` for a run, `rev` for a job, plan recovery
for an intent, an insert by `_id` for a missing run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeVar

import structlog

from cronflow.domain import transitions
from cronflow.domain.events import SweepEnded, SweepFound
from cronflow.domain.job import JobRecord, PlanIntent
from cronflow.domain.recovery import Postpone
from cronflow.domain.run import run_id
from cronflow.domain.sweep import (
    FINDINGS_KEPT,
    MEANING,
    TOO_LONG,
    Finding,
    Flaw,
    JobRow,
    SweepReport,
    cursor_of,
    flaw_of_job,
    flaw_of_run,
    waited_too_long,
)
from cronflow.leader.plan_recovery import recover
from cronflow.ports import Assignment, Backends, Clock, EventSink, LineSink, discard_event
from cronflow.usecases.pending_runs import insert_pending_runs

PAGE = 1000
SECOND_LOOK_S = 20.0
MOST_SUSPECTS = 10_000
MOST_NAMES = 100_000
LET_EXPIRE_S = 60.0
ANY_AGE = timedelta(minutes=-1)
FINDINGS_LOGGED = 20

Suspect = TypeVar("Suspect")

log = structlog.get_logger("cronflow.node")


class Sweep:
    def __init__(self, backends: Backends, clock: Clock, events: EventSink = discard_event) -> None:
        self._backends = backends
        self._clock = clock
        self._events = events

    async def run(self, assignment: Assignment, emit: LineSink) -> object:
        """Sweep once. Returns a summary."""
        sweeping = Sweeping(self._backends, self._clock, assignment.term, emit, self._events)
        report = await sweeping.sweep(assignment.run)
        return {
            "took_ms": report.took_ms,
            "checked": dict(report.checked),
            "found": report.found,
            "repaired": sum(finding.repaired for finding in report.findings),
        }


class Sweeping:
    """One sweep and its findings so far. `term` is that of the leader that dispatched it: a repair does not apply to a
    job that a newer term has written.
    """

    def __init__(
        self, backends: Backends, clock: Clock, term: int, emit: LineSink, events: EventSink = discard_event
    ) -> None:
        self._backends = backends
        self._clock = clock
        self._term = term
        self._emit = emit
        self._events = events
        self._checked: Counter[str] = Counter()
        self._found = 0
        self._findings: list[Finding] = []
        self._runs: dict[str, Flaw] = {}
        self._jobs: dict[str, JobRow] = {}
        self._lost_pends: set[str] = set()
        self._orphans: dict[str, str] = {}
        self._lists: set[str] = set()
        self._unfollowed: set[str] = set()
        self._led_since: datetime | None = None

    async def sweep(self, run: str) -> SweepReport:
        """Check everything, check suspects again, repair and report."""
        began, at = self._clock.monotonic(), await self._backends.store_admin.time()
        leader = await self._backends.control.leader()
        self._led_since = None if leader is None else leader.elected_at
        await self._look_at_runs()
        await self._look_at_jobs()
        await self._look_at_indexes()
        await self._look_at_redis()
        await self._look_at_nodes()
        await self._look_at_ends(at)
        intents = await self._old_intents(at)
        if self._has_suspects or intents:
            await self._clock.sleep(SECOND_LOOK_S)
            await self._recover_intents({intent.id for intent in intents})
            await self._judge_runs()
            await self._judge_orphans()
            await self._judge_jobs()
            await self._judge_pending_runs()
            await self._judge_lists()
            await self._judge_ends()
        report = SweepReport(
            at=at,
            run=run,
            took_ms=round((self._clock.monotonic() - began) * 1000),
            checked=dict(self._checked),
            found=self._found,
            findings=tuple(self._findings),
        )
        await self._backends.store_admin.write_report(report)
        counts = ", ".join(f"{count:,} {what}" for what, count in report.checked.items())
        self._emit("info" if not report.found else "warn", f"checked {counts}; found {report.found or 'nothing'}")
        self._events(SweepEnded(run, report.found, report.took_ms))
        return report

    @property
    def _has_suspects(self) -> bool:
        found = (self._runs, self._jobs, self._lost_pends, self._orphans, self._lists, self._unfollowed)
        return any(found)

    # --------------------------------------------------------------------------------------------- the first look

    async def _look_at_runs(self) -> None:
        known: set[str] = set()
        after = ""
        while page := await self._backends.archive.runs(after=after, limit=PAGE):
            after = page[-1].id
            self._checked["runs"] += len(page)
            now = await self._backends.store_admin.time()
            for row in page:
                flaw = flaw_of_run(row, now, self._led_since)
                if flaw is not None:
                    self._suspect(self._runs, row.id, flaw)
            unknown = {row.job for row in page} - known
            if unknown:
                known |= {record.name for record in await self._backends.jobs.get(unknown)}
                for row in page:
                    if row.job not in known and len(self._orphans) < MOST_SUSPECTS:
                        self._orphans.setdefault(row.job, row.id)
                if len(known) > MOST_NAMES:
                    known.clear()

    async def _look_at_jobs(self) -> None:
        after = ""
        while page := await self._backends.archive.jobs(after=after, limit=PAGE // 2):
            after = page[-1].record.name
            self._checked["jobs"] += len(page)
            now = await self._backends.store_admin.time()
            for row in page:
                if flaw_of_job(row, now, self._led_since) is not None:
                    self._suspect(self._jobs, row.record.name, row)
            self._lost_pends |= {record.name for record in await self._without_run([row.record for row in page])}
            if len(self._lost_pends) > MOST_SUSPECTS:
                await self._judge_pending_runs()

    async def _without_run(self, records: Iterable[JobRecord]) -> list[JobRecord]:
        """The records whose `pending_run` has no run although no plan intent announces it.

        An intent exists from before the move until after the insert. So if the record is read first, then the intents,
        and none of them names the job, its run has been inserted, and a later read must return it.
        """
        pending = {
            run_id(record.name, record.pending_run.fire): record for record in records if record.pending_run is not None
        }
        missing = pending.keys() - await self._backends.runs.existing(pending)
        if not missing:
            return []
        announced = {job for intent in await self._backends.plans.left_behind(0, ANY_AGE) for job in intent.jobs}
        unannounced = {run for run in missing if pending[run].name not in announced}
        return [pending[run] for run in unannounced - await self._backends.runs.existing(unannounced)]

    async def _look_at_indexes(self) -> None:
        missing = await self._backends.store_admin.missing_indexes()
        self._checked["indexes"] += 1
        if missing:
            await self._backends.store_admin.make_indexes()
            left = await self._backends.store_admin.missing_indexes()
            for name in missing:
                self._find(Flaw.INDEX_MISSING, name, repaired=name not in left)

    async def _look_at_ends(self, now: datetime) -> None:
        """An end may be written hours late, so each is only a suspect."""
        ends = await self._backends.chains.ended(PAGE)
        self._checked["ends"] += len(ends)
        self._unfollowed = {end.run for end in ends if waited_too_long(end.ended_at, now, self._led_since)}

    async def _look_at_redis(self) -> None:
        cursor, first = 0, True
        while cursor or first:
            first = False
            cursor, page = await self._backends.coordination_admin.keys_without_ttl(cursor)
            self._checked["redis_pages"] += 1
            self._lists |= {one.key for one in page if one.node is not None}
            keys = {one.key for one in page if one.node is None}
            if keys:
                count = await self._backends.coordination_admin.set_ttl(keys, LET_EXPIRE_S)
                for key in sorted(keys):
                    self._find(Flaw.KEY_FOR_EVER, key, repaired=count > 0)

    async def _look_at_nodes(self) -> None:
        now = await self._backends.store_admin.time()
        for member in await self._backends.membership.members():
            self._checked["nodes"] += 1
            since = member.report.spool.since
            # No node leads without MongoDB, so an hour with a leader is an hour with MongoDB.
            if since is not None and waited_too_long(since, now, self._led_since):
                self._find(Flaw.SPOOL_OLD, member.id, repaired=False)

    # -------------------------------------------------------------------------------------------- the second look

    async def _recover_intents(self, suspects: set[str]) -> None:
        now = await self._backends.store_admin.time()
        for intent in await self._old_intents(now):
            if intent.id in suspects:
                recovered = await recover(
                    self._backends.jobs, self._backends.plans, self._backends.runs, intent, self._term
                )
                self._find(Flaw.PLAN_LEFT, intent.id, repaired=recovered)

    async def _old_intents(self, now: datetime) -> list[PlanIntent]:
        """The intents that were left behind for an hour in which there was a leader."""
        if not waited_too_long(now - 2 * TOO_LONG, now, self._led_since):
            return []
        return await self._backends.plans.left_behind(0, TOO_LONG)

    async def _judge_runs(self) -> None:
        for ids in _pages(self._runs):
            flaws = await self._flaws_of_runs(ids)
            overdue = {run for run, flaw in flaws.items() if flaw is Flaw.RUN_OVERDUE}
            if flaws.keys() - overdue:
                await self._backends.archive.repair_marks(flaws.keys() - overdue)
            if overdue:
                # A `check_at` of now puts them at the end of the reconciler's queue.
                runs = [run for run in await self._backends.runs.get(overdue) if run.is_open]
                await self._backends.runs.apply([transitions.postpone(run, Postpone(timedelta(0))) for run in runs])
            left = await self._flaws_of_runs(flaws)
            for run, flaw in sorted(flaws.items()):
                self._find(flaw, run, repaired=run not in left)

    async def _flaws_of_runs(self, ids: Collection[str]) -> dict[str, Flaw]:
        if not ids:
            return {}
        now = await self._backends.store_admin.time()
        found = [(row.id, flaw_of_run(row, now, self._led_since)) for row in await self._backends.archive.rows(ids)]
        return {run: flaw for run, flaw in found if flaw is not None}

    async def _judge_orphans(self) -> None:
        for ids in _pages(self._orphans.values()):
            rows = await self._backends.archive.rows(ids)
            jobs = {record.name for record in await self._backends.jobs.get({row.job for row in rows})}
            for row in sorted(rows, key=lambda row: row.id):
                if row.job not in jobs:
                    # The reconciler ends the open ones, and the clean-up deletes the ended ones.
                    self._find(Flaw.RUN_WITHOUT_JOB, row.job, repaired=False)

    async def _judge_jobs(self) -> None:
        for names in _pages(self._jobs):
            now = await self._backends.store_admin.time()
            open_runs = await self._backends.runs.open_of(names)
            for record in await self._backends.jobs.get(names):
                first = self._jobs[record.name]
                # Every write of the mark also changes `rev`.
                marked = first.marked_active if first.record.rev == record.rev else record.active
                flaw = flaw_of_job(JobRow(record, marked), now, self._led_since)
                if flaw is None or (flaw is Flaw.JOB_WITHOUT_CURSOR and open_runs.get(record.name)):
                    continue
                self._find(flaw, record.name, repaired=await self._repair_job(record, flaw))

    async def _repair_job(self, record: JobRecord, flaw: Flaw) -> bool:
        match flaw:
            case Flaw.JOB_WITHOUT_CURSOR:
                cursor = cursor_of(record)
                fixed = replace(record, next_fire=cursor, due_at=cursor)
            case Flaw.JOB_HIDDEN:
                fixed = replace(record, due_at=record.due_at or record.next_fire)
            case _:
                return False
        return await self._backends.jobs.replace(fixed, record.rev)

    async def _judge_pending_runs(self) -> None:
        for names in _pages(sorted(self._lost_pends)):
            lost = await self._without_run(await self._backends.jobs.get(names))
            inserted = await insert_pending_runs(self._backends.runs, lost)
            for record in sorted(lost, key=lambda record: record.name):
                assert record.pending_run is not None
                run = run_id(record.name, record.pending_run.fire)
                self._find(Flaw.PENDING_RUN_MISSING, run, repaired=run in inserted)
        self._lost_pends.clear()

    async def _judge_lists(self) -> None:
        cursor, first = 0, True
        while self._lists and (cursor or first):
            first = False
            cursor, page = await self._backends.coordination_admin.keys_without_ttl(cursor)
            keys = self._lists & {one.key for one in page if one.node is not None}
            count = await self._backends.coordination_admin.set_ttl(keys, LET_EXPIRE_S) if keys else 0
            self._lists -= keys
            for key in sorted(keys):
                self._find(Flaw.LIST_LEFT, key, repaired=count > 0)

    async def _judge_ends(self) -> None:
        for run in sorted(await self._backends.chains.marked(self._unfollowed) if self._unfollowed else ()):
            self._find(Flaw.RUN_NOT_FOLLOWED, run, repaired=False)

    # --------------------------------------------------------------------------------------------------- findings

    def _suspect(self, suspects: dict[str, Suspect], where: str, suspect: Suspect) -> None:
        if len(suspects) < MOST_SUSPECTS:
            suspects[where] = suspect
        elif not any(finding.kind is Flaw.NOT_CHECKED for finding in self._findings):
            self._find(Flaw.NOT_CHECKED, where, repaired=False)

    def _find(self, flaw: Flaw, where: str, *, repaired: bool) -> None:
        finding = Finding(kind=flaw, where=where, what=MEANING[flaw], repaired=repaired)
        self._found += 1
        if len(self._findings) < FINDINGS_KEPT:
            self._findings.append(finding)
        log.error("sweep finding", kind=flaw.value, where=where, what=finding.what, repaired=repaired)
        if self._found <= FINDINGS_LOGGED:
            self._emit("error", f"{where}: {finding.what}" + (" (repaired)" if repaired else ""))
            self._events(SweepFound(flaw.value, where, finding.what, repaired))


def _pages(keys: Iterable[str]) -> Iterable[list[str]]:
    found = list(keys)
    return (found[at : at + PAGE] for at in range(0, len(found), PAGE))
