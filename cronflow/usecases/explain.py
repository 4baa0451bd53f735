"""Explains an instant of a job: collects the facts from which `domain.why` builds the chain of reasons.

It reads and changes nothing. A run that exists only as the job's `pending_run` is explained from that record. Deleted
jobs are explained as long as their tombstone is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from cronflow.domain.errors import NotFound
from cronflow.domain.job import JobRecord
from cronflow.domain.late_start import LateFacts, late_start
from cronflow.domain.placement import Fleet, NoNode
from cronflow.domain.placement_rules import has_rules
from cronflow.domain.planning import run_of_pending
from cronflow.domain.recovery import refusals
from cronflow.domain.run import ENDED, SCHEDULED, Kind, Run, RunState, backfill_of, run_id
from cronflow.domain.schedule.fires import last_before
from cronflow.domain.schedule.zones import check_reach
from cronflow.domain.version import Version, nearest, version_due, version_of
from cronflow.domain.why import Known, Why, explain, explain_run
from cronflow.domain.why_chain import FollowerHeldBack, awaits, held_back, last_end
from cronflow.ports import Backends, Clock, RunQuery
from cronflow.usecases.job_breakers import JobBreakers
from cronflow.usecases.late_facts import read_late_facts
from cronflow.usecases.occupancy import read_occupancy
from cronflow.usecases.pending_runs import find_run
from cronflow.usecases.usual_duration import read_usual_duration

WHOLE = frozenset(Kind) - {Kind.PART}
MOST_UPSTREAM = 20
MOST_JOINS = 5
MOST_HELD_BACK = 100


class Explainer:
    def __init__(self, backends: Backends, clock: Clock) -> None:
        self._backends = backends
        self._clock = clock
        self._breakers = JobBreakers(backends.breakers, backends.runs, clock)

    async def versions(self, name: str) -> list[Version]:
        """The stored versions of a job, oldest first; a deleted job is included. Raises NotFound."""
        return await self._versions(await self._record(name))

    async def why(self, name: str, at: datetime | None = None, *, exact: bool = True) -> Why:
        """Explain why an instant ran, did not run or is waiting. The default is the latest due instant or manual run,
        whichever is later, or else the next instant. With `exact=False`, the last instant that was due by `at`.

        Raises NotFound, and InvalidInput for an instant out of range.
        """
        if at is not None:
            check_reach(at, "at")
        # Read the job before its run: every instant that its cursor has passed then has a run or a pending run.
        record = await self._record(name)
        versions = await self._versions(record)
        now = self._clock.now()
        if at is None:
            at = await self._latest(record, now) or record.next_fire
            kinds = {Kind.MANUAL, Kind.AFTER} if record.job.after else {Kind.MANUAL}
            requested = await self._backends.runs.find(RunQuery(job=name, kinds=kinds, limit=1))
            if requested and (at is None or at > now or requested[0].fire_at > at):
                known = await self._known(record, versions, requested[0], now)
                return await self._with_lateness(explain_run(await self._with_upstream(known), requested[0]), known)
            at = at or now.replace(microsecond=0)
        elif not exact and version_due(versions, at.replace(microsecond=0)) is None:
            at = nearest(versions, at)[0] or at
        at = at.replace(microsecond=0)
        known = await self._known(record, versions, await self._covering(record, at), now)
        known = await self._with_upstream(known)
        outlines = await self._backends.runs.outlines(name, at, at)
        known = replace(known, backfilled=[one for one in outlines if backfill_of(one.id)])
        return await self._with_lateness(explain(known, at), known)

    async def why_run(self, run_id: str) -> Why:
        """Explain a run, scheduled or not: why it ran, ended or is waiting. Raises NotFound."""
        run = await find_run(self._backends.jobs, self._backends.runs, run_id)
        if run is None:
            raise NotFound("run", run_id)
        record = await self._record(run.job)
        known = await self._known(record, await self._versions(record), run, self._clock.now())
        return await self._with_lateness(explain_run(known, run), known)

    async def _with_lateness(self, why: Why, known: Known) -> Why:
        """With why its run started late."""
        run = known.run
        if run is None or late_start(run, LateFacts(), known.now) is None:
            return why
        facts = await read_late_facts(self._backends, run, known.record.job, known.now)
        return replace(why, late=late_start(run, facts, known.now))

    async def _known(self, record: JobRecord, versions: Sequence[Version], run: Run | None, now: datetime) -> Known:
        refused = {} if run is None else refusals(run, now)
        breakers = await self._breakers.open([record.job])
        mode = await self._backends.control.maintenance()
        occupancy = await read_occupancy(self._backends.runs, [record]) if has_rules(record.job) else None
        fleet = Fleet(await self._backends.membership.members(), occupancy=occupancy)
        answer = fleet.place_run(
            "" if run is None else run.id, record.job, refused, only=None if run is None else run.only_node
        )
        return Known(
            record=record,
            versions=versions,
            run=run,
            now=now,
            part_counts={}
            if run is None or run.split is None
            else (await self._backends.runs.part_counts([run.id]))[run.id],
            led=await self._backends.election.holder() is not None,
            no_node=answer if isinstance(answer, NoNode) else None,
            breaker=breakers.get(record.name),
            maintenance=mode if mode is not None and mode.holds(now) else None,
            usual=await read_usual_duration(self._backends.runs, run.job)
            if run is not None and run.state is RunState.RUNNING
            else None,
            held_back=await self._held_back(record, run),
        )

    async def _with_upstream(self, known: Known) -> Known:
        """With what the job follows and waits for now."""
        job, runs = known.record.job, self._backends.runs
        if not job.after or known.record.deleted_at is not None:
            return known
        shown = job.after[:MOST_UPSTREAM]
        queries = (RunQuery(job=one.job, states=ENDED, kinds=WHOLE, limit=1) for one in shown)
        ends = await asyncio.gather(*(runs.find(query) for query in queries))
        joins = await self._backends.chains.joins_of(job.name, MOST_JOINS)
        upstream = [last_end(one, found[0] if found else None) for one, found in zip(shown, ends, strict=True)]
        return replace(known, upstream=upstream, waiting=awaits(job, joins))

    async def _held_back(self, record: JobRecord, run: Run | None) -> list[FollowerHeldBack]:
        if run is None or run.is_open or not record.followed:
            return []
        query = RunQuery(chain=run.chain_id, states={RunState.SKIPPED}, limit=MOST_HELD_BACK)
        return held_back(run, await self._backends.runs.find(query))

    async def _record(self, name: str) -> JobRecord:
        found = await self._backends.jobs.get([name])
        if not found:
            raise NotFound("job", name)
        return found[0]

    async def _versions(self, record: JobRecord) -> list[Version]:
        kept = await self._backends.versions.of(record.name)
        # An edit that lost its compare-and-set may have stored the current version.
        return [version for version in kept if version.ver < record.ver] + [version_of(record)]

    async def _latest(self, record: JobRecord, now: datetime) -> datetime | None:
        cursor, schedule = record.next_fire, record.job.schedule
        if cursor is not None and schedule is not None and cursor <= now:
            return last_before(schedule, now, not_before=cursor) or cursor
        until = now + timedelta(microseconds=1)
        newest = await self._backends.runs.find(RunQuery(job=record.name, kinds=SCHEDULED, until=until, limit=1))
        found = [_last(run) for run in newest]
        if record.pending_run is not None:
            last = record.pending_run.fire if record.pending_run.covers is None else record.pending_run.covers.last
            # It may be planned before its instant.
            if last <= now or not found:
                found.append(last)
        return max(found, default=None)

    async def _covering(self, record: JobRecord, at: datetime) -> Run | None:
        """Scheduled runs do not overlap, so the last run before the instant is the only other candidate."""
        runs = self._backends.runs
        exact = await runs.get([run_id(record.name, at)])
        if exact:
            return exact[0]
        before = await runs.find(RunQuery(job=record.name, kinds=SCHEDULED, before=(at, ""), limit=1))
        if before and _last(before[0]) >= at:
            return before[0]
        if record.pending_run is not None:
            pending = run_of_pending(record.job, record.pending_run, record.term)
            if pending.fire_at <= at <= _last(pending):
                return pending
        return None


def _last(run: Run) -> datetime:
    return run.fire_at if run.covers is None else run.covers.last
