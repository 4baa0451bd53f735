"""Explaining a fire: gathers what is known of an instant of a job, for `domain.why` to make a chain of.

It reads and changes nothing. A run that exists so far only as the job's `pending_run` is explained from that; deleted
jobs are explained too, as long as their tombstone is kept.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from cronflow.domain.errors import NotFound
from cronflow.domain.job import JobRecord
from cronflow.domain.placement import Fleet, NoNode
from cronflow.domain.planning import run_of_pending
from cronflow.domain.run import SCHEDULED, Run, run_id
from cronflow.domain.schedule.kinds import last_before
from cronflow.domain.schedule.zones import check_reach
from cronflow.domain.version import Version, nearest, version_due, version_of
from cronflow.domain.why import Known, Why, explain
from cronflow.ports import Backends, Clock, RunQuery


class Explainer:
    """Answers "why?" through the ports."""

    def __init__(self, backends: Backends, clock: Clock) -> None:
        self._backends = backends
        self._clock = clock

    async def versions(self, name: str) -> list[Version]:
        """Every version of a job that is known, the oldest first. Raises NotFound."""
        return await self._versions(await self._record(name))

    async def why(self, name: str, at: datetime | None = None, *, exact: bool = True) -> Why:
        """The chain of an instant; of the latest that fell due, or the next one, when none is given.

        Not `exact`: the last instant that fell due until then. Raises NotFound; InvalidInput for an instant out of
        reach.
        """
        if at is not None:
            check_reach(at, "at")
        # The job is read before its run: whatever the cursor of this reading has passed has a run, or a `pend`.
        record = await self._record(name)
        versions = await self._versions(record)
        now = self._clock.now()
        if at is None:
            at = await self._latest(record, now) or record.next_fire or now.replace(microsecond=0)
        elif not exact and version_due(versions, at.replace(microsecond=0)) is None:
            at = nearest(versions, at)[0] or at
        at = at.replace(microsecond=0)
        known = Known(
            record=record,
            versions=versions,
            run=await self._covering(record, at, now),
            now=now,
            led=await self._backends.election.holder() is not None,
            refused=await self._refused(record),
        )
        return explain(known, at)

    async def _record(self, name: str) -> JobRecord:
        found = await self._backends.jobs.get([name])
        if not found:
            raise NotFound("job", name)
        return found[0]

    async def _versions(self, record: JobRecord) -> list[Version]:
        kept = await self._backends.versions.of(record.name)
        # One that was kept by an edit which then lost is the present one.
        return [version for version in kept if version.ver < record.ver] + [version_of(record)]

    async def _latest(self, record: JobRecord, now: datetime) -> datetime | None:
        cursor, schedule = record.next_fire, record.job.schedule
        if cursor is not None and schedule is not None and cursor <= now:
            return last_before(schedule, now, not_before=cursor) or cursor
        newest = await self._backends.runs.find(RunQuery(job=record.name, kinds=SCHEDULED, limit=1))
        found = [_last(run) for run in newest]
        if record.pending_run is not None:
            found.append(
                record.pending_run.fire if record.pending_run.covers is None else record.pending_run.covers.last
            )
        return max(found, default=None)

    async def _covering(self, record: JobRecord, at: datetime, now: datetime) -> Run | None:
        """Runs of a schedule do not intersect, so the last one before the instant is the only other candidate."""
        runs = self._backends.runs
        exact = await runs.get([run_id(record.name, at)])
        if exact:
            return exact[0]
        before = await runs.find(RunQuery(job=record.name, kinds=SCHEDULED, before=(at, ""), limit=1))
        if before and _last(before[0]) >= at:
            return before[0]
        if record.pending_run is not None:
            pending = run_of_pending(record, record.pending_run, record.term, now)
            if pending.fire_at <= at <= _last(pending):
                return pending
        return None

    async def _refused(self, record: JobRecord) -> dict[str, str] | None:
        """What stands against each node at this moment, None when one could take a run of the job."""
        members = await self._backends.membership.members()
        answer = Fleet(members, timedelta(seconds=10)).place(record.job.require)
        return dict(answer.reasons) if isinstance(answer, NoNode) else None


def _last(run: Run) -> datetime:
    return run.fire_at if run.covers is None else run.covers.last
