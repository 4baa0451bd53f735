"""The planner: turns what is due into recorded runs, in batches.

One round reads the jobs that are due, decides each and places it; then, batch by batch, it writes the plan note,
makes sure that the run of each present `pending_run` exists, moves the cursors, inserts the runs, pushes them and
removes the note. The order carries the proof: read before note, note before move, insert before removal. What goes
wrong in between leaves the note to the settler.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from cronflow.domain import metrics
from cronflow.domain.cluster import Tenure
from cronflow.domain.errors import Conflict, Deposed
from cronflow.domain.job import JobRecord, PendingRun, PlanIntent
from cronflow.domain.placement import Fleet, NoNode, Placement, Waiting
from cronflow.domain.planning import Fire, SkipFire, Wait, decide, run_of_pending, wait_for
from cronflow.domain.run import Run, RunState, run_id
from cronflow.leader.dispatcher import Dispatcher
from cronflow.leader.elector import Elector
from cronflow.node.role_loop import Wake
from cronflow.node.timings import Timings
from cronflow.ports import (
    UNMETERED,
    Assignment,
    Clock,
    Deferral,
    JobStore,
    Membership,
    Meter,
    Move,
    OpenRun,
    PlanStore,
    RunStore,
)
from cronflow.usecases.runs import Canceller

BATCH = 500
MOST_AT_ONCE = 4 * BATCH
LEAST_AT_ONCE = 100
REMEMBERED_PENDING_RUNS = 100_000
REARMED_AT_ONCE = 100
REARM_EVERY_S = 0.1
IDLE_S = 5.0
REPLACED = "replaced"

log = structlog.get_logger("cronflow.node")


@dataclass(frozen=True, slots=True)
class Planned:
    """A job that is about to move: the record as read, and the run that the move creates."""

    record: JobRecord
    move: Move


@dataclass(frozen=True, slots=True)
class Waits:
    """A job that cannot be planned now: why, whether a run of its own is in the way, and whether that run is to end."""

    note: Waiting
    blocked: bool = False
    replaces: bool = False


class Planner:
    """The planner role."""

    def __init__(
        self,
        jobs: JobStore,
        plans: PlanStore,
        runs: RunStore,
        membership: Membership,
        canceller: Canceller,
        elector: Elector,
        dispatcher: Dispatcher,
        clock: Clock,
        timings: Timings,
        count: Callable[[Run], None] = lambda _: None,
        meter: Meter = UNMETERED,
    ) -> None:
        self._jobs, self._plans, self._runs = jobs, plans, runs
        self._membership = membership
        self._canceller = canceller
        self._count = count
        self._meter = meter
        self._elector = elector
        self._dispatcher = dispatcher
        self._clock = clock
        self._timings = timings
        self._notes = 0
        self._limit = MOST_AT_ONCE
        self._out_of_capacity = False
        self._waited: dict[str, int] = {}
        self._blocked: set[str] = set()
        self._rearm: set[str] = set()
        self._run_ended = False
        self._rearmed_at = 0.0
        self._known = InsertedRunCache(REMEMBERED_PENDING_RUNS)
        self._known_in_term = 0
        self.wake = Wake()

    def capacity_freed(self) -> None:
        """The doorbell of the workers: a run has ended. Only a planner that ran out of room, or has jobs that wait for
        a run of theirs to end, cares; else every release would cost a round.
        """
        self._run_ended = True
        waits = self._blocked and self._clock.monotonic() - self._rearmed_at >= REARM_EVERY_S
        if self._out_of_capacity or waits:
            self._out_of_capacity = False
            self.wake.set()

    def look(self) -> None:
        """The doorbell of people: jobs or runs have changed."""
        self._run_ended = True
        self.wake.set()

    async def step(self) -> float:
        """One round. Returns the seconds until the next instant that is due, at most the safety poll."""
        tenure = self._elector.tenure
        if tenure is None:
            return IDLE_S
        self._out_of_capacity = False
        if tenure.term != self._known_in_term:
            # What another term wrote meanwhile is not known here.
            self._known.clear()
            self._waited.clear()
            self._blocked.clear()
            self._known_in_term = tenure.term
        now = self._clock.now()
        poll = self._timings.safety_poll
        limit = self._limit
        records = await self._jobs.due(now + timedelta(seconds=poll), limit)
        coming = [record.due_at for record in records if record.due_at is not None and record.due_at > now]
        due = [record for record in records if record.due_at is not None and record.due_at <= now]
        due += await self._rearmed(now, {record.name for record in due})
        if due:
            try:
                coming += await self._plan(tenure, due, now)
            except Deposed as error:
                self._elector.deposed(str(error))
                return IDLE_S
            if len(records) == limit and not self._out_of_capacity:
                return 0.0
        if not coming:
            return poll
        return min(poll, max(0.0, (min(coming) - self._clock.now()).total_seconds()))

    async def _rearmed(self, now: datetime, known: set[str]) -> list[JobRecord]:
        """Jobs whose fire waits for a run of theirs to end, after some run has ended: before their back-off is over."""
        if self._run_ended:
            self._run_ended = False
            self._rearmed_at = self._clock.monotonic()
            self._rearm |= self._blocked
        names = list(itertools.islice(self._rearm, REARMED_AT_ONCE))
        self._rearm.difference_update(names)
        self._blocked.difference_update(names)
        found = await self._jobs.get(names) if names else []
        return [
            record
            for record in found
            if record.active and record.name not in known and record.next_fire is not None and record.next_fire <= now
        ]

    async def _plan(self, tenure: Tenure, due: Sequence[JobRecord], now: datetime) -> list[datetime]:
        """Returns when the jobs that were moved are due again, which may be at once after an outage.

        Raises Deposed when a job was written by a newer term: no move of it would apply, and it would be due for ever.
        """
        newer = next((record.name for record in due if record.term > tenure.term), None)
        if newer is not None:
            raise Deposed(f"job {newer} was written by a newer term")
        members, open_runs = await asyncio.gather(
            self._membership.members(), self._runs.open_of([record.name for record in due])
        )
        fleet = Fleet(members, timedelta(seconds=self._timings.stale_after))
        # Reading many more than can be placed would only be read again.
        self._limit = min(MOST_AT_ONCE, max(LEAST_AT_ONCE, 4 * fleet.capacity))
        planned: list[Planned] = []
        deferred: dict[str, Deferral] = {}
        replaced: list[str] = []
        for record in sorted(due, key=lambda r: (-r.job.priority, r.due_at or now)):
            if fleet.capacity <= 0:
                # Everybody is full: the rest stays at the front, and the first free slot rings.
                self._out_of_capacity = True
                break
            found = self._decide(record, tenure, fleet, now, open_runs.get(record.name, ()))
            if isinstance(found, Planned):
                planned.append(found)
                self._waited.pop(record.name, None)
                self._blocked.discard(record.name)
            else:
                # Only this job cannot be placed: it steps aside, so that it never starves the others.
                rounds = self._waited.get(record.name, 0)
                self._waited[record.name] = rounds + 1
                deferred[record.name] = Deferral(record.rev, now + wait_for(rounds), found.note.still(record.waiting))
                if found.blocked:
                    self._blocked.add(record.name)
                if found.replaces:
                    replaced += [run.id for run in open_runs.get(record.name, ())]
                if rounds == 0:
                    log.debug("job waits", job=record.name, reason=str(found.note))
        if deferred:
            await self._jobs.defer(deferred)
        batches = [planned[at : at + BATCH] for at in range(0, len(planned), BATCH)]
        # Each batch comes to its own end: one that fails leaves its note to the settler and does not stop the others.
        results = await asyncio.gather(*(self._carry_out(tenure, b) for b in batches), return_exceptions=True)
        for failure in (result for result in results if isinstance(result, BaseException)):
            raise failure
        if replaced:
            # Said again with each look: what was dispatched a moment ago may have started since.
            await self._replace(replaced)
        return [plan.move.next_fire for plan in planned if plan.move.next_fire is not None]

    async def _replace(self, runs: Sequence[str]) -> None:
        try:
            ended = [run for run in await self._canceller.cancel(runs, REPLACED) if not run.is_open]
        except Conflict as error:
            log.warning("not replaced yet", reason=str(error))
            return
        # What had not started has ended with that, and nobody will ring for it.
        self._run_ended = self._run_ended or bool(ended)

    def _decide(
        self, record: JobRecord, tenure: Tenure, fleet: Fleet, now: datetime, open_runs: Sequence[OpenRun]
    ) -> Planned | Waits:
        placement: Placement | None = None
        blocked_by, reason = min(open_runs, key=lambda run: run.created_at).id if open_runs else None, None
        decision = decide(record, now, [run.created_at for run in open_runs])
        match decision:
            case Wait():
                fire = record.next_fire or now
                note = Waiting(fire=fire, since=now, reason=decision.reason, blocked_by=blocked_by)
                return Waits(note, blocked=decision.blocked, replaces=decision.replaces)
            case Fire():
                placed = fleet.place(record.job.require)
                if isinstance(placed, NoNode):
                    return Waits(placed.waiting(decision.fire, now))
                state, placement = RunState.DISPATCHED, placed
            case SkipFire():
                state, reason = RunState.SKIPPED, decision.reason
        pending_run = PendingRun(
            fire=decision.fire,
            state=state,
            fence=tenure.fences.next(now),
            job_ver=record.ver,
            at=now,
            node=None if placement is None else placement.node,
            covers=decision.covers,
            reason=reason,
            placement=placement,
            blocked_by=blocked_by if reason == "overlap" else None,
        )
        return Planned(
            record, Move(job=record.name, rev=record.rev, next_fire=decision.next_fire, pending_run=pending_run)
        )

    async def _carry_out(self, tenure: Tenure, batch: Sequence[Planned]) -> None:
        self._notes += 1
        note = PlanIntent(
            id=f"{tenure.term}-{self._notes}", term=tenure.term, jobs=tuple(plan.record.name for plan in batch)
        )
        # Both must be over before the first move; neither needs the other.
        await asyncio.gather(self._plans.write(note), self._ensure_pending_runs(tenure, batch))
        moved = await self._jobs.move([plan.move for plan in batch], tenure.term)
        now = self._clock.now()
        runs: dict[str, tuple[Run, Planned]] = {}
        for plan in batch:
            if plan.record.name in moved:
                run = run_of_pending(plan.record, plan.move.pending_run, tenure.term, now)
                runs[run.id] = (run, plan)
        fresh = await self._runs.insert([run for run, _ in runs.values()])
        for run, plan in runs.values():
            self._known.add(plan.record.name, plan.move.pending_run)
            if run.id in fresh:
                self._count(run)
        # One that existed was settled by somebody else, who left it to the reconciler: it is not pushed here.
        pushing = self._dispatcher.push(tenure, _assignments(runs[run] for run in fresh))
        await asyncio.gather(pushing, self._plans.remove([note.id]))
        self._time(runs[run][0] for run in fresh)

    def _time(self, pushed: Iterable[Run]) -> None:
        now = self._clock.now()
        for run in pushed:
            if run.state is RunState.DISPATCHED:
                self._meter.add(metrics.DISPATCHED)
                self._meter.observe(metrics.DISPATCH_LATENESS, max(0.0, (now - run.fire_at).total_seconds()))

    async def _ensure_pending_runs(self, tenure: Tenure, batch: Sequence[Planned]) -> None:
        unsure = {
            run_id(plan.record.name, plan.record.pending_run.fire): plan.record
            for plan in batch
            if plan.record.pending_run is not None and not self._known.has(plan.record.name, plan.record.pending_run)
        }
        if not unsure:
            return
        missing = unsure.keys() - await self._runs.existing(unsure)
        now = self._clock.now()
        runs = [
            run_of_pending(record, record.pending_run, tenure.term, now, check_at=now)
            for run, record in unsure.items()
            if run in missing and record.pending_run is not None
        ]
        if runs:
            await self._runs.insert(runs)


def _assignments(runs: Iterable[tuple[Run, Planned]]) -> Iterable[tuple[str, Assignment]]:
    for run, plan in runs:
        if run.node is not None and run.state is RunState.DISPATCHED:
            yield (
                run.node,
                Assignment(
                    run=run.id,
                    fence=run.fence,
                    term=run.term,
                    attempt=run.attempt,
                    fire_at=run.fire_at,
                    job=plan.record.job,
                ),
            )


class InsertedRunCache:
    """Of which `pending_run` this term knows that its run exists, the least recently written forgotten first.

    It is known by its fire and its fence: an edit that jumps over instants leaves a `pending_run` of another fire
    under the fence of the one before.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._pending_runs: OrderedDict[str, tuple[datetime, int]] = OrderedDict()

    def add(self, job: str, pending_run: PendingRun) -> None:
        """The run of this pend exists."""
        self._pending_runs[job] = (pending_run.fire, pending_run.fence)
        self._pending_runs.move_to_end(job)
        if len(self._pending_runs) > self._most:
            self._pending_runs.popitem(last=False)

    def has(self, job: str, pending_run: PendingRun) -> bool:
        """Whether the run of this pend is known to exist."""
        return self._pending_runs.get(job) == (pending_run.fire, pending_run.fence)

    def clear(self) -> None:
        """Know nothing."""
        self._pending_runs.clear()
