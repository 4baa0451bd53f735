"""The planner: turns due jobs into recorded runs, in batches, and pushes them to nodes.

One round reads the due jobs, inserts missing runs of their present `pending_run`s, decides each job and places it.
Then, for each batch, it writes the plan intent, moves the cursors, inserts the new runs, pushes them and removes the
intent. Where the worker can insert a run with its first record, the insert and the removal are left to LateInserts.
A cursor that moves without a run, because its schedule depends on when the last one ended, needs no intent.
The order carries the proof: read before intent, intent before move, insert before removal. After a failure in between,
plan recovery finishes what the intent announced.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from cronflow.domain import metrics
from cronflow.domain.capabilities import needs_of
from cronflow.domain.cluster import Tenure
from cronflow.domain.concurrency import LimitUse, OnFull, uses_of
from cronflow.domain.errors import Conflict, Deposed, InvalidInput
from cronflow.domain.job import JobRecord, Overlap, PendingRun, PlanIntent, StartGuard
from cronflow.domain.placement import Fleet, NoNode, Placement, Waiting, in_turn
from cronflow.domain.planning import (
    WAIT_MOST,
    Decision,
    Fire,
    Reposition,
    SkipFire,
    Wait,
    cursor_after,
    decide,
    run_of_pending,
    skipped,
    wait_for,
)
from cronflow.domain.run import Run, RunState, backfill_of, run_id
from cronflow.domain.schedule.fires import is_dynamic
from cronflow.domain.split import parent_of
from cronflow.leader.catch_up import NOTHING_MISSED, CatchUp, NothingMissed
from cronflow.leader.contention import MOST_POSTED, Contender, Contention, Placer
from cronflow.leader.deferrals import Deferrals
from cronflow.leader.dispatcher import Dispatcher
from cronflow.leader.elector import Elector
from cronflow.leader.late_inserts import LateInserts, Pushed
from cronflow.leader.limits import LimitGate, LimitView
from cronflow.leader.look_ahead import LookAhead
from cronflow.leader.occupancy_reader import OccupancyReader
from cronflow.leader.pending_runs import PendingRuns
from cronflow.leader.unplaced import UnplacedReporter
from cronflow.node.role_loop import Wake
from cronflow.node.timings import Timings
from cronflow.ports import (
    UNMETERED,
    Assignment,
    Clock,
    CursorMove,
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
REARMED_AT_ONCE = 100
REARM_EVERY_S = 0.1
IDLE_S = 5.0
REPLACED = "replaced"

log = structlog.get_logger("cronflow.node")


@dataclass(frozen=True, slots=True)
class Planned:
    """A job that is about to move: the record as it was read, the move that creates its run, and the run's id."""

    record: JobRecord
    move: Move
    run: str

    @property
    def early(self) -> timedelta:
        """How long before its instant the run is planned."""
        return max(timedelta(0), self.move.pending_run.fire - self.move.pending_run.at)


@dataclass(frozen=True, slots=True)
class Deferred:
    """A job that cannot be planned now. `blocked`: until a run of it ends, or any run where it has `no_node` or waits
    for a limit. `replaces`: its open run is to be cancelled. `until`: nothing changes before.
    """

    waiting: Waiting
    blocked: bool = False
    replaces: bool = False
    no_node: NoNode | None = None
    until: datetime | None = None


@dataclass(slots=True)
class Decisions:
    """The decisions of a round. `early` are planned before their instant; `replaced` are runs to cancel; `contending`
    found no free slot, `unplaced` no node that can run them; `repositioned` are cursors that move without a run.
    """

    planned: list[Planned] = field(default_factory=list)
    repositioned: dict[str, CursorMove] = field(default_factory=dict)
    early: list[Planned] = field(default_factory=list)
    deferred: dict[str, Deferral] = field(default_factory=dict)
    replaced: list[str] = field(default_factory=list)
    contending: list[Contender] = field(default_factory=list)
    unplaced: list[tuple[str, Waiting]] = field(default_factory=list)


class Planner:
    def __init__(
        self,
        jobs: JobStore,
        plans: PlanStore,
        runs: RunStore,
        membership: Membership,
        canceller: Canceller,
        elector: Elector,
        dispatcher: Dispatcher,
        pending_runs: PendingRuns,
        late_inserts: LateInserts,
        limits: LimitGate,
        clock: Clock,
        timings: Timings,
        count: Callable[[Run], None] = lambda _: None,
        meter: Meter = UNMETERED,
        contention: Contention | None = None,
        unplaced: UnplacedReporter | None = None,
        look_ahead: LookAhead | None = None,
        held: Callable[[Tenure], str | None] = lambda _: None,
        occupancy: OccupancyReader | None = None,
        split: Callable[[], None] = lambda: None,
        catch_up: CatchUp | NothingMissed = NOTHING_MISSED,
    ) -> None:
        self._jobs, self._plans, self._runs = jobs, plans, runs
        self._split = split
        self._held = held
        self._membership = membership
        self._canceller = canceller
        self._count = count
        self._meter = meter
        self._elector = elector
        self._dispatcher = dispatcher
        self._pending_runs = pending_runs
        self._late_inserts = late_inserts
        self._limits = limits
        self._clock = clock
        self._timings = timings
        self._contention = contention or Contention(clock)
        self._unplaced = unplaced or UnplacedReporter()
        self._look_ahead = look_ahead or LookAhead()
        self._occupancy = occupancy or OccupancyReader(jobs, runs, pending_runs)
        self._catch_up = catch_up
        self._intents = 0
        self._limit = MOST_AT_ONCE
        self._out_of_capacity = False
        self._deferrals = Deferrals(clock)
        # By name, the priority of each; the highest are looked at first.
        self._blocked: dict[str, int] = {}
        self._rearm: dict[str, int] = {}
        self._run_ended = False
        self._rearmed_at = 0.0
        self._term = 0
        self.wake = Wake()

    def capacity_freed(self) -> None:
        """A worker signals that a run has ended. This wakes only a planner that ran out of capacity, or has jobs that
        wait for a run of their own or for a node that they need; otherwise every release would cost a round.
        """
        self._run_ended = True
        waits = self._blocked and self._clock.monotonic() - self._rearmed_at >= REARM_EVERY_S
        if self._out_of_capacity or waits or self._catch_up.waits_for_slots:
            self._out_of_capacity = False
            self.wake.set()

    def look(self) -> None:
        """A person or an API has changed jobs or runs."""
        self._run_ended = True
        self.wake.set()

    async def step(self) -> float:
        """Plan what is due. Returns the seconds until the next due instant, at most the safety poll."""
        tenure = self._elector.tenure
        if tenure is None:
            return IDLE_S
        self._out_of_capacity = False
        if tenure.term != self._term:
            self._deferrals.clear()
            self._blocked.clear()
            self._term = tenure.term
        now, read_at = self._clock.now(), self._clock.monotonic()
        poll = self._timings.safety_poll
        if (reason := self._held(tenure)) is not None:
            self._contention.post(Placer.PLANNER, (), 0)
            self._catch_up.interrupted(reason)
            return poll
        limit, ahead = self._limit, self._look_ahead
        self._catch_up.begin(tenure.term, now)
        until = now + timedelta(seconds=poll) + ahead.window
        records = await self._jobs.due_in_turn(now, until, limit, 1 + ahead.limit, self._catch_up.reads_since)
        due = [record for record in records if record.due_at is not None and record.due_at <= now]
        early = ahead.among(records, now)
        known = {record.name for record in early}
        coming = [
            ahead.next_look(record.due_at, now)
            for record in records
            if record.due_at is not None and record.due_at > now and record.name not in known
        ]
        full = len(due) >= limit
        due += await self._rearmed(now, {record.name for record in due})
        due = await self._catch_up.take(due, now, full)
        if due or early:
            try:
                async with self._contention.placing():
                    coming += await self._plan(tenure, due, early, now, read_at)
            except Deposed as error:
                self._elector.deposed(str(error))
                return IDLE_S
            if (full and not self._out_of_capacity) or (early and ahead.more):
                return 0.0
        else:
            self._contention.post(Placer.PLANNER, (), 0)
            self._catch_up.planned()
        poll = self._catch_up.wait_s(self._clock.now(), poll)
        if not coming:
            return poll
        return min(poll, max(0.0, (min(coming) - self._clock.now()).total_seconds()))

    async def _rearmed(self, now: datetime, known: set[str]) -> list[JobRecord]:
        """After a run has ended: the jobs that wait for one, before their back-off is over."""
        if self._run_ended:
            self._run_ended = False
            self._rearmed_at = self._clock.monotonic()
            self._rearm |= self._blocked
        names = heapq.nlargest(REARMED_AT_ONCE, self._rearm, key=self._rearm.__getitem__)
        for name in names:
            del self._rearm[name]
            self._blocked.pop(name, None)
        found = await self._jobs.get(names) if names else []
        return [
            record
            for record in found
            if record.active and record.name not in known and record.next_fire is not None and record.next_fire <= now
        ]

    async def _plan(
        self, tenure: Tenure, due: Sequence[JobRecord], early: Sequence[JobRecord], now: datetime, read_at: float
    ) -> list[datetime]:
        """Returns when to look at the moved jobs again, which may be now after an outage, and at those of `early` that
        were not planned.

        Raises Deposed when a job was written by a newer term: no move of it would apply, and it would stay due.
        """
        records = [*due, *early]
        newer = next((record.name for record in records if record.term > tenure.term), None)
        if newer is not None:
            raise Deposed(f"job {newer} was written by a newer term")
        # Before the open runs are read, because a pending run is one of them.
        members, _ = await asyncio.gather(self._membership.members(), self._pending_runs.ensure(records, tenure.term))
        # Runs that may overlap do not matter, however many wait.
        dynamic = [record for record in due if is_dynamic(record.job.schedule)]
        excluding = {record.name for record in records if record.job.overlap is not Overlap.ALLOW}
        excluding.update(record.name for record in dynamic)
        open_runs = await self._runs.open_of(excluding) if excluding else {}
        # After the open runs, so that a run which is not open has ended.
        ended = await self._last_ends(dynamic)
        uses = _uses(due)
        limits = await self._limits.read(itertools.chain(*uses.values()), tenure.term, Placer.PLANNER)
        async with self._occupancy.placing(records, tenure.term, now) as occupancy:
            fleet = Fleet(
                members,
                timedelta(seconds=self._timings.stale_after),
                early=self._look_ahead.waiting(self._clock.now()),
                occupancy=occupancy,
            )
            # Jobs that cannot be placed would only be read again.
            self._limit = min(MOST_AT_ONCE, fleet.capacity + LEAST_AT_ONCE)
            found = self._decide_all(tenure, due, open_runs, ended, fleet, now, limits, uses)
            if early and not self._out_of_capacity:
                for record, move in self._look_ahead.decide_all(tenure, early, open_runs, fleet, now):
                    found.early.append(Planned(record, move, run_id(record.name, move.pending_run.fire)))
            self._contention.post(Placer.PLANNER, found.contending, len(found.planned))
            self._unplaced.report(found.unplaced, now)
            if found.deferred:
                await self._jobs.defer(found.deferred)
            if found.repositioned:
                await self._jobs.reposition(found.repositioned, tenure.term)
            # Separate, because runs that wait for their instant are inserted later.
            batches = [
                planned[at : at + BATCH]
                for planned in (found.planned, found.early)
                for at in range(0, len(planned), BATCH)
            ]
            # A batch that fails leaves its intent to plan recovery and does not stop the others.
            inserting = {member.id for member in members if member.report.inserts_runs}
            writing = (self._write_batch(tenure, batch, inserting, read_at) for batch in batches)
            results = await asyncio.gather(*writing, return_exceptions=True)
        for failure in (result for result in results if isinstance(result, BaseException)):
            raise failure
        self._catch_up.planned(fleet)
        if found.replaced:
            # Repeated in each round: a run that was dispatched a moment ago may have started since.
            await self._replace(found.replaced)
        await self._limits.replace(limits)
        moves = {plan.record.name: plan.move for plan in (*found.planned, *found.early)}
        cursors = [move.next_fire for move in moves.values()]
        cursors += (move.next_fire for move in found.repositioned.values())
        following = (fire for fire in cursors if fire is not None)
        left = (record.due_at for record in early if record.name not in moves and record.due_at is not None)
        return [*(fire - self._look_ahead.window for fire in following), *left]

    async def _last_ends(self, records: Sequence[JobRecord]) -> dict[str, datetime]:
        """When the runs of the last moves of these jobs ended."""
        names = {run_id(one.name, one.pending_run.fire): one.name for one in records if one.pending_run is not None}
        runs = await self._runs.get(names) if names else []
        return {names[run.id]: run.ended_at for run in runs if run.ended_at is not None}

    def _decide_all(
        self,
        tenure: Tenure,
        due: Sequence[JobRecord],
        open_runs: Mapping[str, Sequence[OpenRun]],
        ended: Mapping[str, datetime],
        fleet: Fleet,
        now: datetime,
        limits: LimitView,
        uses: Mapping[str, Sequence[LimitUse]],
    ) -> Decisions:
        decisions = Decisions()
        line: list[JobRecord | Contender] = [*due, *self._contention.against(Placer.PLANNER)]
        order = in_turn(line, _rank, self._contention.turn)
        for position, record in enumerate(order):
            if fleet.capacity <= 0:
                # All nodes are full: the rest stays due, and the first free slot sends a signal.
                self._out_of_capacity = True
                decisions.contending += _contenders(order[position:], open_runs, now)
                break
            if isinstance(record, Contender):
                # Room for a run that the reconciler places.
                fleet.place(record.needs)
                continue
            held_by_limits = limits, uses.get(record.name, ())
            runs = open_runs.get(record.name, ()), ended.get(record.name)
            found = self._decide(record, tenure, fleet, now, *runs, *held_by_limits)
            if isinstance(found, CursorMove):
                decisions.repositioned[record.name] = found
                self._deferrals.remove(record.name)
                self._blocked.pop(record.name, None)
            elif isinstance(found, Deferred):
                # This job alone cannot be placed: it is deferred, so that it never starves the others.
                self._defer(decisions, record, found, now)
                if found.replaces:
                    decisions.replaced += [run.id for run in _blocking(open_runs.get(record.name, ()))]
            else:
                decisions.planned.append(found)
                self._deferrals.remove(record.name)
                self._blocked.pop(record.name, None)
        return decisions

    def _defer(self, decisions: Decisions, record: JobRecord, found: Deferred, now: datetime) -> None:
        rounds = self._deferrals.add(record.name)
        waiting = found.waiting.still(record.waiting)
        due_at = now + wait_for(rounds) if found.until is None else min(found.until, now + WAIT_MOST)
        decisions.deferred[record.name] = Deferral(record.rev, due_at, waiting, record.job.priority)
        if found.blocked:
            self._blocked[record.name] = record.job.priority
        if found.no_node is not None and found.no_node.lacks_slot:
            decisions.contending.append(_contender(record))
        elif found.no_node is not None and not found.no_node.busy:
            decisions.unplaced.append((run_id(record.name, waiting.fire), waiting))
        if rounds == 0:
            log.debug("job waits", job=record.name, reason=str(found.waiting))

    async def _replace(self, runs: Sequence[str]) -> None:
        try:
            ended = [run for run in await self._canceller.cancel(runs, REPLACED) if not run.is_open]
        except Conflict as error:
            log.warning("not replaced yet", reason=str(error))
            return
        # Runs that had not started have ended now, and no worker sends a signal for them.
        self._run_ended = self._run_ended or bool(ended)

    def _decide(
        self,
        record: JobRecord,
        tenure: Tenure,
        fleet: Fleet,
        now: datetime,
        open_runs: Sequence[OpenRun],
        ended_at: datetime | None,
        limits: LimitView,
        uses: Sequence[LimitUse],
    ) -> Planned | Deferred | CursorMove:
        placement: Placement | None = None
        open_runs = _blocking(open_runs)
        blocked_by, reason = min(open_runs, key=lambda run: run.created_at).id if open_runs else None, None
        decision = _decision(record, now, open_runs, ended_at)
        if not (is_dynamic(record.job.schedule) and isinstance(decision, Wait | Reposition)):
            decision = self._catch_up.skipped(record, now) or decision
        run = run_id(record.name, record.next_fire or now)
        if isinstance(decision, Fire) and (full := limits.obstacle(uses, run, _rank(record))) is not None:
            if full.on_full is not OnFull.SKIP:
                return Deferred(full.waiting(decision.fire, now), blocked=True, until=full.until)
            decision, blocked_by = skipped(decision, "limit"), full.held_by
        match decision:
            case Reposition():
                return CursorMove(record.rev, decision.next_fire)
            case Wait():
                fire = record.next_fire or now
                waiting = Waiting(fire=fire, since=now, reason=decision.reason, blocked_by=blocked_by)
                return Deferred(waiting, blocked=decision.blocked, replaces=decision.replaces)
            case Fire() if record.job.split is not None:
                state = RunState.RETRYING
            case Fire():
                waited = record.waiting if record.waiting and record.waiting.fire == decision.fire else None
                placed = fleet.place_run(run_id(record.name, decision.fire), record.job, waiting=waited, now=now)
                if isinstance(placed, NoNode):
                    return Deferred(placed.waiting(decision.fire, now), blocked=placed.busy, no_node=placed)
                state, placement = RunState.DISPATCHED, placed
            case SkipFire():
                state, reason = RunState.SKIPPED, decision.reason
        fence = tenure.fences.next(now)
        if state is RunState.DISPATCHED:
            limits.reserve(uses, run, fence)
        pending_run = PendingRun(
            fire=decision.fire,
            state=state,
            fence=fence,
            job_ver=record.ver,
            at=now,
            node=None if placement is None else placement.node,
            covers=decision.covers,
            reason=reason,
            placement=placement,
            blocked_by=blocked_by if reason in ("overlap", "limit") else None,
            followed=record.followed,
            waited=record.waiting if record.waiting is not None and record.waiting.fire == decision.fire else None,
        )
        return Planned(
            record,
            Move(
                job=record.name,
                rev=record.rev,
                next_fire=cursor_after(record, decision),
                pending_run=pending_run,
                priority=record.job.priority,
                counts=isinstance(decision, Fire) and record.runs_left is not None,
            ),
            run,
        )

    async def _write_batch(
        self, tenure: Tenure, batch: Sequence[Planned], inserting: Collection[str], read_at: float
    ) -> None:
        self._intents += 1
        intent = PlanIntent(
            id=f"{tenure.term}-{self._intents}", term=tenure.term, jobs=tuple(plan.record.name for plan in batch)
        )
        await self._plans.write(intent)
        moved = await self._jobs.move([plan.move for plan in batch], tenure.term)
        planned = {plan.run: plan for plan in batch if plan.record.name in moved}
        late = set[str]()
        if self._late_inserts.capacity >= len(planned):
            late = {run for run, plan in planned.items() if _may_be_late(plan, inserting)}
        fresh = await self._insert([plan for run, plan in planned.items() if run not in late], tenure.term)
        # A run that existed already was inserted by plan recovery or an edit; the reconciler dispatches it.
        pushed = [plan for run, plan in planned.items() if run in late or run in fresh]
        pushing = _assignments(pushed, late, tenure.term)
        if late:
            deferred = [Pushed(plan.run, plan.record.job, plan.move.pending_run) for plan in pushed if plan.run in late]
            self._late_inserts.defer(intent.id, tenure.term, deferred, batch[-1].early)
            await self._dispatcher.push(tenure, pushing, read_at)
        else:
            await asyncio.gather(self._dispatcher.push(tenure, pushing, read_at), self._plans.remove([intent.id]))
        self._observe_lateness(pushed)

    async def _insert(self, plans: Sequence[Planned], term: int) -> set[str]:
        """Insert the runs now. Returns the ids of those that are new."""
        if not plans:
            return set()
        runs = [run_of_pending(plan.record.job, plan.move.pending_run, term) for plan in plans]
        fresh = await self._runs.insert(runs)
        for plan, run in zip(plans, runs, strict=True):
            self._pending_runs.inserted(plan.record.name, plan.move.pending_run)
            if run.id in fresh:
                self._count(run)
        if any(run.split is not None for run in runs):
            self._split()
        return fresh

    def _observe_lateness(self, pushed: Iterable[Planned]) -> None:
        now = self._clock.now()
        fires = [plan.move.pending_run.fire for plan in pushed if plan.move.pending_run.state is RunState.DISPATCHED]
        for fire in fires:
            self._meter.observe(metrics.DISPATCH_LATENESS, max(0.0, (now - fire).total_seconds()))
        if fires:
            self._meter.add(metrics.DISPATCHED, by=len(fires))


def _uses(records: Iterable[JobRecord]) -> dict[str, Sequence[LimitUse]]:
    """The limits of the fires of these jobs. A run that has no value for a key is dispatched, and fails there."""
    found: dict[str, Sequence[LimitUse]] = {}
    for record in records:
        # The parts of a run that is split acquire permits, and it needs none.
        if record.job.has_limits and record.job.split is None:
            with suppress(InvalidInput):
                found[record.name] = uses_of(record.job)
    return found


def _rank(item: JobRecord | Contender) -> tuple[int, datetime]:
    if isinstance(item, Contender):
        return item.priority, item.since
    assert item.next_fire is not None  # It is due.
    return item.job.priority, item.next_fire


def _contender(record: JobRecord) -> Contender:
    priority, since = _rank(record)
    return Contender(record.name, priority, since, needs_of(record.job))


def _blocking(open_runs: Sequence[OpenRun]) -> Sequence[OpenRun]:
    """Without the runs of backfills that wait: a fire goes before them."""
    return [run for run in open_runs if run.state is not RunState.RETRYING or backfill_of(run.id) is None]


def _decision(
    record: JobRecord, now: datetime, blocking: Sequence[OpenRun], ended_at: datetime | None = None
) -> Decision:
    opened = [run.created_at for run in blocking if backfill_of(parent_of(run.id) or run.id) is None]
    return decide(record, now, opened, backfilling=len(opened) < len(blocking), ended_at=ended_at)


def _contenders(
    order: Sequence[JobRecord | Contender], open_runs: Mapping[str, Sequence[OpenRun]], now: datetime
) -> Iterable[Contender]:
    """Those of the jobs that only need a free slot."""
    for record in order[:MOST_POSTED]:
        if isinstance(record, JobRecord):
            decision = _decision(record, now, _blocking(open_runs.get(record.name, ())))
            if isinstance(decision, Fire):
                yield _contender(record)


def _may_be_late(plan: Planned, inserting: Collection[str]) -> bool:
    """Whether its worker inserts the run with its first record. A start that must be recorded first, as for
    `at_most_once`, changes a run that exists; and a reservation is stored before its node gets the run.
    """
    pending_run = plan.move.pending_run
    dispatched = pending_run.state is RunState.DISPATCHED and pending_run.node in inserting
    job = plan.record.job
    return dispatched and job.start_guard is StartGuard.REDIS and not job.resources


def _assignments(plans: Iterable[Planned], late: Collection[str], term: int) -> Iterable[tuple[str, Assignment]]:
    for plan in plans:
        pending_run = plan.move.pending_run
        if pending_run.node is not None and pending_run.state is RunState.DISPATCHED:
            yield (
                pending_run.node,
                Assignment(
                    run=plan.run,
                    fence=pending_run.fence,
                    term=term,
                    attempt=1,
                    fire_at=pending_run.fire,
                    job=plan.record.job,
                    pending_run=pending_run if plan.run in late else None,
                    not_before=pending_run.fire if plan.early else None,
                ),
            )
