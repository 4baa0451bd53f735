"""Use cases for backfills: request, look up and cancel them.

A request is one document, which the leader works off (`leader.backfiller`). A job has one running backfill at a time,
so a request that is repeated, or made by two people, starts no second one. The number in its id decides between two.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from cronflow.domain.backfill import (
    Backfill,
    BackfillRate,
    BackfillScope,
    BackfillState,
    FireOutline,
    backfill_id,
    choose,
    excluded_of,
    instants_between,
    number_of,
    yields,
)
from cronflow.domain.errors import Conflict, InvalidInput, NotFound, Problem
from cronflow.domain.events import BackfillCancelled, BackfillRequested
from cronflow.domain.job import SYSTEM_PREFIX, JobRecord
from cronflow.domain.run import SCHEDULED, RunState, backfill_of
from cronflow.domain.schedule.zones import check_reach
from cronflow.ports import Backends, Clock, RunQuery
from cronflow.usecases.audit import Auditor, Changed
from cronflow.usecases.jobs import notify_leader
from cronflow.usecases.runs import Canceller

TRIES = 5
CANCELLED = "the backfill was cancelled"


@dataclass(frozen=True, slots=True)
class BackfillProgress:
    """A backfill, the number of its runs by state, and why it waits, if it does. `excluded`, only of a plan, has the
    instants that get no run because calendars exclude them, with the reasons.
    """

    backfill: Backfill
    counts: Mapping[RunState, int] = field(default_factory=dict)
    waiting: str | None = None
    excluded: Mapping[datetime, str] = field(default_factory=dict)


class BackfillUseCases:
    def __init__(self, backends: Backends, clock: Clock, audit: Auditor) -> None:
        self._backends = backends
        self._clock = clock
        self._audit = audit
        self._canceller = Canceller(backends.jobs, backends.runs, backends.queue, clock)

    async def plan(
        self,
        job: str,
        first: datetime,
        last: datetime,
        scope: BackfillScope,
        rate: BackfillRate | None = None,
        *,
        with_excluded: bool = False,
    ) -> BackfillProgress:
        """What `request` would start. Nothing is written; the id is that of the next backfill. Raises as it does."""
        backfill, _, excluded = await self._planned(job, first, last, scope, rate, "", with_excluded)
        return BackfillProgress(backfill, excluded=excluded)

    async def request(
        self,
        job: str,
        first: datetime,
        last: datetime,
        scope: BackfillScope = BackfillScope.MISSING,
        rate: BackfillRate | None = None,
        *,
        with_excluded: bool = False,
        by: str = "",
    ) -> tuple[Backfill, bool]:
        """Request runs for the instants of a job in [first, last], without those that its calendars exclude, unless
        `with_excluded`. Returns the backfill, and whether it was started: not without instants.

        Raises NotFound; InvalidInput for a range in the future, or with more than `MOST_INSTANTS` instants, and for a
        job without a schedule; and Conflict for a job in shadow mode, and while another backfill of it is running.
        """
        for _ in range(TRIES):
            backfill, instants, _ = await self._planned(job, first, last, scope, rate, by, with_excluded)
            if not instants:
                return backfill, False
            if await self._backends.backfills.create(backfill, instants):
                break
        else:
            raise Conflict(f"backfills of job {job!r} keep being requested; try again")
        changed = Changed("job.backfill", f"job:{job}", None, _asked(backfill))
        await self._audit.record_events(by, (changed, BackfillRequested(backfill.id, backfill.total, by)))
        await notify_leader(self._backends.bus)
        return backfill, True

    async def get(self, id: str) -> BackfillProgress:  # noqa: A002
        """Raises NotFound."""
        found = await self._backends.backfills.get(id)
        if found is None:
            raise NotFound("backfill", id)
        return (await self.progress([found]))[0]

    async def find(
        self, *, job: str | None = None, before: tuple[datetime, str] | None = None, limit: int = 100
    ) -> list[BackfillProgress]:
        """The newest first, starting after the (created_at, id) `before`."""
        return await self.progress(await self._backends.backfills.find(job=job, before=before, limit=limit))

    async def progress(self, backfills: Sequence[Backfill]) -> list[BackfillProgress]:
        """Each with the states of its runs."""
        if not backfills:
            return []
        running = {one.job for one in backfills if one.state is BackfillState.RUNNING}
        counts = await self._backends.backfills.counts([one.id for one in backfills])
        jobs = {record.name: record for record in await self._backends.jobs.get(running)} if running else {}
        now = self._clock.now()

        def waiting(one: Backfill) -> str | None:
            record = jobs.get(one.job)
            return None if record is None or one.state is not BackfillState.RUNNING else yields(record, now)

        return [BackfillProgress(one, counts[one.id], waiting(one)) for one in backfills]

    async def cancel(self, id: str, reason: str = "", *, by: str = "") -> BackfillProgress:  # noqa: A002
        """Start no more runs of it, and cancel those that are open. Repeating it is safe. Raises NotFound, and Conflict
        if it is done.
        """
        now = self._clock.now()
        found = (await self.get(id)).backfill
        if await self._backends.backfills.cancel(id, by, reason, now):
            changed = Changed("backfill.cancel", f"backfill:{id}", None, {"reason": reason})
            await self._audit.record_events(by, (changed, BackfillCancelled(id, by, reason)))
        elif (found := (await self.get(id)).backfill).state is BackfillState.DONE:
            raise Conflict(f"backfill {id} is done: all of its runs have ended")
        open_runs = (await self._backends.runs.open_of([found.job])).get(found.job, ())
        own = [run.id for run in open_runs if backfill_of(run.id) == id]
        if own:
            await self._canceller.cancel(own, reason or CANCELLED, by)
        # The leader cancels what is inserted at the same time.
        await notify_leader(self._backends.bus)
        return await self.get(id)

    async def _planned(
        self,
        job: str,
        first: datetime,
        last: datetime,
        scope: BackfillScope,
        rate: BackfillRate | None,
        by: str,
        with_excluded: bool,
    ) -> tuple[Backfill, Sequence[datetime], Mapping[datetime, str]]:
        record, now = await self._record(job), self._clock.now()
        if record.job.is_shadow:
            # Its instants count as missing, although another scheduler has done their work.
            what = f"job {job} is in shadow mode, and a backfill would repeat the work of another scheduler"
            raise Conflict(f"{what}; activate it first: cronflow jobs activate {job}")
        newest = await self._backends.backfills.find(job=job, limit=1)
        if newest and newest[0].state is BackfillState.RUNNING:
            remedy = f"wait for it, or cancel it: cronflow backfills cancel {newest[0].id}"
            raise Conflict(f"backfill {newest[0].id} of this job is still running; {remedy}")
        check_reach(first, "first")
        check_reach(last, "last")
        instants = await asyncio.to_thread(instants_between, record.job.schedule, job, first, last, now)
        excluded = {} if with_excluded else await asyncio.to_thread(excluded_of, record.job.schedule, instants)
        chosen = choose(
            [one for one in instants if one not in excluded],
            await self._outlines(job, instants),
            scope,
            record.next_fire if record.active else None,
        )
        backfill = Backfill(
            id=backfill_id(job, 1 + (number_of(newest[0].id) if newest else 0)),
            job=job,
            state=BackfillState.RUNNING,
            scope=scope,
            first=first,
            last=last,
            rate=rate,
            total=len(chosen),
            first_instant=chosen[0] if chosen else None,
            last_instant=chosen[-1] if chosen else None,
            due_at=now,
            by=by,
            created_at=now,
        )
        return backfill, chosen, excluded

    async def _record(self, job: str) -> JobRecord:
        found = await self._backends.jobs.get([job])
        if not found or found[0].deleted_at is not None:
            raise NotFound("job", job)
        if job.startswith(SYSTEM_PREFIX):
            raise InvalidInput(Problem("", f"{job} is a system job and has nothing to backfill", "run it manually"))
        return found[0]

    async def _outlines(self, job: str, instants: Sequence[datetime]) -> list[FireOutline]:
        """The runs that may belong to the instants. Scheduled runs do not overlap, so of the earlier ones only the last
        may cover some.
        """
        if not instants:
            return []
        runs, after = self._backends.runs, None
        before = await runs.find(RunQuery(job=job, kinds=SCHEDULED, before=(instants[0], ""), limit=1))
        found = [FireOutline(run.id, run.fire_at, run.state, run.covers) for run in before]
        while page := await runs.outlines(job, instants[0], instants[-1], after=after):
            found += page
            after = page[-1].fire_at, page[-1].id
        return found


def _asked(backfill: Backfill) -> Mapping[str, object]:
    return {
        "backfill": backfill.id,
        "first": backfill.first.isoformat(),
        "last": backfill.last.isoformat(),
        "only": backfill.scope.value,
        "rate": None if backfill.rate is None else str(backfill.rate),
        "runs": backfill.total,
    }
