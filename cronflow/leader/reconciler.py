"""The reconciler: handles every open run whose `check_at` has passed, each second and on a signal.

Retries, manual runs and runs of lost workers reach a node only through it. `domain.recovery` has the rules; here they
are combined with the state of the workers in Redis. A change that was overtaken by another does not apply, and its run
is not pushed.

`SpoolGrace` decides how long a run is left alone because its outcome may still be on a node's disk.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from cronflow.domain import transitions
from cronflow.domain.capabilities import needs_of
from cronflow.domain.cluster import Tenure, node_name
from cronflow.domain.concurrency import LimitUse, OnFull, uses_of
from cronflow.domain.errors import Deposed, InvalidInput
from cronflow.domain.events import MOST_MOVES, RunsReassigned
from cronflow.domain.failures import dead_letter_events
from cronflow.domain.job import JobRecord, Overlap
from cronflow.domain.placement import Fleet, NoNode, Placement, Waiting, in_turn
from cronflow.domain.recovery import (
    Dispatch,
    End,
    HeldBack,
    Holder,
    Postpone,
    Verdict,
    decline_pause,
    held_back,
    reconcile,
    refusals,
    retry_ended,
)
from cronflow.domain.retry_decision import failed_attempt
from cronflow.domain.run import DEAD, SCHEDULED, Outcome, Run, RunState, job_of
from cronflow.domain.splitting import LOOK_AT_PARENT, node_missing, wait_to_split
from cronflow.domain.transitions import Change, Transition
from cronflow.leader.contention import Contender, Contention, Placer
from cronflow.leader.dispatcher import Dispatcher
from cronflow.leader.elector import Elector
from cronflow.leader.left_out import LeftOut
from cronflow.leader.limits import LimitGate, LimitView
from cronflow.leader.look_ahead import LookAhead
from cronflow.leader.maintenance_watch import NOT_READ
from cronflow.leader.occupancy_reader import OccupancyReader
from cronflow.leader.pending_runs import PendingRuns
from cronflow.leader.unplaced import UnplacedReporter
from cronflow.node.role_loop import SHORTEST_ROUND_S, Outage, Outages, Wake
from cronflow.node.timings import Timings
from cronflow.ports import Assignment, Clock, EventSink, JobStore, Membership, RunStore, discard_event
from cronflow.usecases.job_breakers import JobBreakers
from cronflow.usecases.pause_after import PauseAfterFailures

AT_ONCE = 1000
LEAST_WAITING = 100
"""How many more waiting runs are read than there were free slots in the last round."""
QUIET = frozenset({Transition.DISPATCH_RETRY, Transition.POSTPONE})
"""Transitions that are too frequent to log."""
IDLE_S = 5.0
NO_NODE_PAUSE = timedelta(seconds=2)
WHILE_HELD = timedelta(seconds=5)
WITHOUT_ITS_NODE = Postpone(timedelta(seconds=5), counts=False)
GIVEN_UP_ON_WORKER = frozenset({Transition.REDISPATCH_LOST, Transition.MARK_LOST})
OWN_SPOOL_GRACES = 4
OWN_SPOOL_LOOK_S = 5.0
LIMIT_PAUSE, SHORTEST_LIMIT_PAUSE = timedelta(seconds=5), timedelta(milliseconds=50)

log = structlog.get_logger("cronflow.node")

Holdings = dict[str, tuple[bool, dict[str, int]]]


@dataclass(slots=True, kw_only=True)
class Round:
    """What a round has read, and what it found: the changes, the runs to push, those that found no node, the jobs whose
    runs wait for another one, and the reasons of those that wait for a limit.
    """

    tenure: Tenure
    now: datetime
    jobs: Mapping[str, JobRecord]
    holdings: Holdings
    fleet: Fleet
    names_up: Collection[str]
    others: dict[str, dict[str, RunState]]
    uses: Mapping[str, Sequence[LimitUse]]
    limits: LimitView
    stopped: Mapping[str, str]
    changes: list[Change] = field(default_factory=list)
    placed: dict[str, tuple[str, Assignment]] = field(default_factory=dict)
    contending: list[Contender] = field(default_factory=list)
    unplaced: list[tuple[str, Waiting]] = field(default_factory=list)
    blocked: dict[str, timedelta | None] = field(default_factory=dict)
    full: dict[str, timedelta | None] = field(default_factory=dict)
    slotless: dict[str, Waiting] = field(default_factory=dict)


class Reconciler:
    def __init__(
        self,
        jobs: JobStore,
        runs: RunStore,
        membership: Membership,
        elector: Elector,
        dispatcher: Dispatcher,
        pending_runs: PendingRuns,
        limits: LimitGate,
        clock: Clock,
        timings: Timings,
        grace: SpoolGrace,
        emit: EventSink = discard_event,
        count: Callable[[Change], None] = lambda _: None,
        contention: Contention | None = None,
        unplaced: UnplacedReporter | None = None,
        look_ahead: LookAhead | None = None,
        breakers: JobBreakers | None = None,
        pause_after: PauseAfterFailures | None = None,
        held: Callable[[Tenure], str | None] = lambda _: None,
        occupancy: OccupancyReader | None = None,
    ) -> None:
        self._held = held
        self._jobs, self._runs, self._membership = jobs, runs, membership
        self._elector = elector
        self._dispatcher = dispatcher
        self._pending_runs = pending_runs
        self._limits = limits
        self._clock = clock
        self._timings = timings
        self._grace = grace
        self._emit = emit
        self._count = count
        self._contention = contention or Contention(clock)
        self._unplaced = unplaced or UnplacedReporter()
        self._look_ahead = look_ahead or LookAhead()
        self._breakers, self._pause_after = breakers, pause_after
        self._occupancy = occupancy or OccupancyReader(jobs, runs, pending_runs)
        self._contends = False
        self._waiting_at_once = LEAST_WAITING
        # The waits for a slot are too frequent to be stored before they end.
        self._slotless: Mapping[str, Waiting] = {}
        self._blocked, self._full = LeftOut(clock), LeftOut(clock)
        self.wake = Wake()

    def capacity_freed(self) -> None:
        """A run has ended. This wakes only a reconciler with runs that wait for a free slot, another run or a limit."""
        self._blocked.run_ended()
        self._full.run_ended()
        if self._contends or self._blocked or self._full:
            self.wake.set()

    async def step(self) -> float:
        tenure = self._elector.tenure
        if tenure is None:
            return IDLE_S
        if self._held(tenure) == NOT_READ:
            return self._timings.reconcile
        blocked, full = self._blocked.current(), self._full.current()
        overdue = await self._runs.overdue(AT_ONCE, self._waiting_at_once, blocked, full)
        self._grace.answered(tenure.term)
        more = False
        if overdue:
            try:
                async with self._contention.placing():
                    more = await self._reconcile(tenure, overdue)
            except Deposed as error:
                self._elector.deposed(str(error))
                return IDLE_S
        else:
            self._contends = False
            self._contention.post(Placer.RECONCILER, (), 0)
        if more:
            return 0.0
        left = max(SHORTEST_ROUND_S, min(self._blocked.left_s(), self._full.left_s()))
        return min(self._timings.reconcile, left)

    async def _reconcile(self, tenure: Tenure, overdue: list[Run]) -> bool:
        """Returns whether to look at once at those that were not read."""
        read_at = self._clock.monotonic()
        # Runs are read before their jobs: an edit in between changes the run, and then the change does not apply.
        nodes = {run.node for run in overdue if run.node is not None and run.state is not RunState.RETRYING}
        found, members, holdings = await asyncio.gather(
            self._jobs.get({run.job for run in overdue}),
            self._membership.members(),
            self._membership.holdings(nodes),
        )
        jobs = {record.name: record for record in found}
        uses = _uses(overdue, jobs)
        limits = await self._limits.read(itertools.chain(*uses.values()), tenure.term, Placer.RECONCILER)
        now, stale_after = self._clock.now(), timedelta(seconds=self._timings.stale_after)
        async with self._occupancy.placing(found, tenure.term, now) as occupancy:
            fleet = Fleet(members, stale_after, early=self._look_ahead.waiting(now), occupancy=occupancy)
            this = Round(
                tenure=tenure,
                now=now,
                jobs=jobs,
                holdings=holdings,
                fleet=fleet,
                names_up={member.report.name for member in members},
                others=await self._others(tenure, overdue, jobs),
                uses=uses,
                limits=limits,
                stopped=await self._stopped(overdue, jobs),
            )
            retrying = [run for run in overdue if run.state is RunState.RETRYING]
            full = len(overdue) - len(retrying) == AT_ONCE or len(retrying) >= self._waiting_at_once
            self._waiting_at_once = min(AT_ONCE, max(0, fleet.capacity) + LEAST_WAITING)
            self._visit_all(this, overdue, retrying)
            applied = await self._runs.apply(this.changes)
        for change in this.changes:
            if change.run in applied and change.transition not in QUIET:
                log.info(
                    "run reconciled",
                    run=change.run,
                    transition=change.transition,
                    state=change.target,
                    term=tenure.term,
                )
        self._emit_events([change for change in this.changes if change.run in applied])
        self._emit_moves(this, overdue, applied)
        await self._dispatcher.push(tenure, [where for run, where in this.placed.items() if run in applied], read_at)
        await self._limits.replace(limits)
        dead = {job_of(change.run) for change in this.changes if change.target in DEAD and change.run in applied}
        if self._pause_after is not None:
            await self._pause_after.check(
                [name for name in dead if name in jobs and jobs[name].job.pause_after is not None]
            )
        # Without a change, the next round would read the same runs.
        new = [self._blocked.add(this.blocked), self._full.add(this.full)]
        return full and (any(new) or bool(this.changes))

    def _visit_all(self, this: Round, overdue: Sequence[Run], retrying: Sequence[Run]) -> None:
        # Runs that have a node come first: they need another one only if their worker is gone.
        for run in overdue:
            if run.state is not RunState.RETRYING:
                self._visit(this, run)
        line: list[Run | Contender] = [*retrying, *self._contention.against(Placer.RECONCILER)]
        for item in in_turn(line, lambda item: _rank(item, this.jobs), self._contention.turn):
            if isinstance(item, Contender):
                # Room for a fire that the planner places.
                this.fleet.place(item.needs)
            else:
                self._visit(this, item)
        self._slotless = this.slotless
        self._contends = bool(this.contending)
        self._contention.post(Placer.RECONCILER, this.contending, len(this.placed))
        self._unplaced.report(this.unplaced, this.now)

    def _emit_events(self, applied: Sequence[Change]) -> None:
        for change in applied:
            self._count(change)
        for event in dead_letter_events(applied):
            self._emit(event)

    def _emit_moves(self, this: Round, overdue: Sequence[Run], applied: Collection[str]) -> None:
        """The runs that a lost worker had taken, with the nodes that have them now."""
        runs = {run.id: run for run in overdue}
        moved = [
            change
            for change in this.changes
            if change.run in applied
            and (change.transition is Transition.REDISPATCH_LOST or self._was_untaken(this, runs[change.run], change))
        ]
        if not moved:
            return
        moves = [
            f"{change.run} {node_name(runs[change.run].node or '-')} {node_name(str(change.sets['node']))}"
            for change in moved[:MOST_MOVES]
        ]
        self._emit(RunsReassigned(len(moved), moved[-1].run, "\n".join(moves), this.tenure.term))

    def _was_untaken(self, this: Round, run: Run, change: Change) -> bool:
        """Whether it was in the list of a worker that is gone."""
        if change.transition is not Transition.REDISPATCH_UNTAKEN:
            return False
        return _holder(run, this.holdings) in (Holder.DEAD, Holder.DEAD_WITH_IT)

    async def _others(
        self, tenure: Tenure, overdue: list[Run], jobs: dict[str, JobRecord]
    ) -> dict[str, dict[str, RunState]]:
        """The runs that nodes have, by id, of the jobs whose runs exclude each other."""
        excluding = {
            run.job
            for run in overdue
            if run.state is not RunState.RUNNING
            and run.split is None
            and run.parent is None
            and run.job in jobs
            and jobs[run.job].job.overlap is not Overlap.ALLOW
        }
        if not excluding:
            return {}
        await self._pending_runs.ensure([jobs[name] for name in excluding], tenure.term)
        found = await self._runs.taken_of(excluding)
        return {job: {run.id: run.state for run in runs} for job, runs in found.items()}

    async def _stopped(self, overdue: Sequence[Run], jobs: Mapping[str, JobRecord]) -> Mapping[str, str]:
        """Why failing runs of a job are not retried, for the jobs with a retry that is due."""
        failed = {run.job for run in overdue if run.job in jobs and failed_attempt(run) is not None}
        return {} if self._breakers is None else await self._breakers.stopped(jobs[name].job for name in failed)

    def _visit(self, this: Round, run: Run) -> None:
        """Decide the run. Its change, if any, goes into the round."""
        now, finish_id = this.now, secrets.token_hex(12)
        record = this.jobs.get(run.job)
        if record is not None and (parent := _as_parent(run, record)) is not None:
            this.changes.append(parent)
            return
        if record is None:
            verdict: Verdict = End(Transition.FAIL, RunState.FAILED, Outcome.PERMANENT, "its job no longer exists")
        else:
            job = record.job
            verdict = reconcile(run, _holder(run, this.holdings), job.delivery, job.timeout, now)
            left = None if isinstance(verdict, Postpone) else self._left(this, run, verdict)
            verdict = verdict if left is None else Postpone(left, counts=False)
        match verdict:
            case Postpone():
                this.changes.append(transitions.postpone(run, verdict))
            case End():
                this.changes.append(transitions.end(run, verdict, finish_id, now))
            case Dispatch():
                assert record is not None
                self._dispatch(this, run, record, verdict, finish_id)

    def _left(self, this: Round, run: Run, verdict: Dispatch | End) -> timedelta | None:
        return self._grace.left(run, verdict.transition, this.names_up)

    def _dispatch(self, this: Round, run: Run, record: JobRecord, verdict: Dispatch, finish_id: str) -> None:
        job, now = record.job, this.now
        if self._is_held_back(this, run, record, verdict, finish_id) or self._is_full(this, run, record, finish_id):
            return
        refused = refusals(run, now)
        pause = decline_pause(run, now)
        early = run.kind in SCHEDULED and run.fire_at > now
        placed: Placement | NoNode = NoNode(refused)
        if run.only_node is not None and self._lacks_its_node(this, run, record, verdict, finish_id):
            return
        if pause is None:
            placed = this.fleet.place_run(
                run.id, job, refused, early=early, waiting=run.waiting, now=now, only=run.only_node
            )
        if isinstance(placed, NoNode) and early:
            # An edit or a stopping node gave it back before its instant, when it is decided again.
            this.changes.append(transitions.postpone(run, Postpone(run.fire_at - now, counts=False), releases=True))
            return
        if isinstance(placed, NoNode):
            waiting = placed.waiting(run.fire_at, now).still(run.waiting)
            if not placed.busy:
                this.unplaced.append((run.id, waiting))
            elif placed.lacks_slot and run.state is RunState.RETRYING:
                # It stays overdue, and is placed as soon as a slot is free.
                this.contending.append(Contender(run.id, *_rank(run, this.jobs), needs_of(job)))
                this.slotless[run.id] = waiting.still(self._slotless.get(run.id))
                return
            this.changes.append(transitions.postpone(run, Postpone(pause or NO_NODE_PAUSE), waiting, releases=True))
            return
        fence = this.tenure.fences.next(now)
        if fence <= run.fence:
            raise Deposed(f"run {run.id} carries a newer fence")
        change = transitions.dispatch(
            run,
            verdict,
            fence=fence,
            term=this.tenure.term,
            node=placed.node,
            job_ver=record.ver,
            at=now,
            placement=placed,
            reserved=job.resources,
            followed=record.followed,
            slotless=self._slotless.get(run.id),
        )
        attempt = change.sets.get("attempt", run.attempt)
        assert isinstance(attempt, int)
        assignment = Assignment(
            run=run.id,
            fence=fence,
            term=this.tenure.term,
            attempt=attempt,
            fire_at=run.fire_at,
            job=job,
            args=run.args or {},
            chain=run.chain,
            not_before=run.fire_at if early else None,
            # Only a deadline for retries needs it.
            requested_at=run.created_at if job.retry.deadline is not None and run.kind not in SCHEDULED else None,
            shard=run.shard,
        )
        if early:
            self._look_ahead.placed(placed.node, run.fire_at)
        this.limits.reserve(this.uses.get(run.id, ()), run.id, fence)
        this.changes.append(change)
        this.placed[run.id] = (placed.node, assignment)
        # The next run of this job in this round waits for this one.
        this.others.setdefault(run.job, {})[run.id] = RunState.DISPATCHED

    def _lacks_its_node(self, this: Round, run: Run, record: JobRecord, verdict: Dispatch, finish_id: str) -> bool:
        """Whether a part of a broadcast waits for its node, which is gone, or ends because of that."""
        assert run.only_node is not None
        named = this.fleet.named(run.only_node)
        missing = node_missing(run, named, needs_of(record.job), verdict.lost, this.now)
        if isinstance(missing, End):
            this.changes.append(transitions.end(run, missing, finish_id, this.now))
        elif missing is not None:
            this.changes.append(transitions.postpone(run, WITHOUT_ITS_NODE, missing, releases=True))
        return missing is not None

    def _is_held_back(self, this: Round, run: Run, record: JobRecord, verdict: Dispatch, finish_id: str) -> bool:
        """Whether the run waits for a reason other than a node or a limit, or ends instead."""
        now = this.now
        if (held := self._held(this.tenure)) is not None:
            waiting = Waiting(fire=run.fire_at, since=now, reason=held)
            self._wait(this, run, waiting, Postpone(WHILE_HELD, counts=False))
            return True
        ended = retry_ended(run, record.job, this.stopped.get(run.job), now)
        if ended is None and verdict.transition is not Transition.REDISPATCH_LOST:
            ahead = {other: state for other, state in this.others.get(run.job, {}).items() if other != run.id}
            waits = held_back(run, record, now, ahead.values())
            if isinstance(waits, HeldBack):
                first = min(ahead, key=lambda other: (ahead[other] is not RunState.RUNNING, other), default=None)
                waiting = Waiting(fire=run.fire_at, since=now, reason=waits.reason, blocked_by=first)
                self._wait(this, run, waiting, waits.verdict, of_job=waits.of_job)
                return True
            ended = waits
        if ended is None:
            return False
        this.changes.append(transitions.end(run, ended, finish_id, now))
        return True

    def _wait(
        self,
        this: Round,
        run: Run,
        waiting: Waiting,
        verdict: Postpone,
        pause: timedelta | None = None,
        *,
        of_job: bool = False,
    ) -> None:
        """The run is not dispatched now. If no node has it, it keeps its place, records the reason once, and is left
        out for `pause` with all that wait for the same: with `of_job` the runs of its job, otherwise those with the
        same reason.
        """
        waiting = waiting.still(run.waiting)
        if run.state is not RunState.RETRYING:
            this.changes.append(transitions.postpone(run, verdict, waiting, releases=True))
            return
        if of_job:
            this.blocked[run.job] = pause
        else:
            this.full[waiting.reason] = pause
        if run.waiting is None or run.waiting.reason != waiting.reason:
            this.changes.append(transitions.hold(run, waiting))

    def _is_full(self, this: Round, run: Run, record: JobRecord, finish_id: str) -> bool:
        """Whether a limit keeps the run from being dispatched. A run that waits for a limit stays overdue, and is left
        out like the others that wait for it until a permit is released or the rate allows a start.
        """
        uses = this.uses.get(run.id, ())
        full = this.limits.obstacle(uses, run.id, _rank(run, this.jobs))
        if full is None:
            return False
        if full.on_full is OnFull.SKIP and not run.attempts and run.state is RunState.RETRYING:
            skip = End(Transition.SKIP_WAITING, RunState.SKIPPED, None, reason="limit")
            this.changes.append(transitions.end(run, skip, finish_id, this.now))
            return True
        pause = None if full.until is None else min(max(full.until - this.now, SHORTEST_LIMIT_PAUSE), LIMIT_PAUSE)
        waiting = full.waiting(run.fire_at, this.now)
        self._wait(this, run, waiting, Postpone(pause or LIMIT_PAUSE, counts=False), pause)
        return True


def _uses(runs: Sequence[Run], jobs: Mapping[str, JobRecord]) -> dict[str, Sequence[LimitUse]]:
    """The limits of these runs. A run that has no value for a key is dispatched, and fails there."""
    found: dict[str, Sequence[LimitUse]] = {}
    for run in runs:
        record = jobs.get(run.job)
        if record is not None and record.job.has_limits and run.split is None:
            with suppress(InvalidInput):
                found[run.id] = uses_of(record.job, run.args)
    return found


def _rank(item: Run | Contender, jobs: Mapping[str, JobRecord]) -> tuple[int, datetime]:
    """Its priority, and since when it waits: for the first time in this attempt, or since it was due."""
    if isinstance(item, Contender):
        return item.priority, item.since
    due = item.next_check
    assert due is not None  # It is open.
    record = jobs.get(item.job)
    since = due if item.waiting is None else min(due, item.waiting.since)
    return (0 if record is None else record.job.priority_of(item.ranked_as)), since


def _as_parent(run: Run, record: JobRecord) -> Change | None:
    """The change of a run that waits and is split, which is the splitter's; None for any other. A run that waited while
    its job was edited, or that a node of 0.9 inserted, becomes a parent.
    """
    if run.split is not None:
        return transitions.postpone(run, Postpone(LOOK_AT_PARENT, counts=False), run.waiting)
    if run.parent is not None or run.state is not RunState.RETRYING or record.job.split is None:
        return None
    return None if run.cancel_requested else wait_to_split(run, record.job.split, None)


def _holder(run: Run, holdings: Holdings) -> Holder:
    alive, claimed = holdings.get(run.node or "", (False, {}))
    has_it = claimed.get(run.id) == run.fence
    if alive:
        return Holder.HAS_IT if has_it else Holder.WITHOUT_IT
    return Holder.DEAD_WITH_IT if has_it else Holder.DEAD


class SpoolGrace:
    """How long the leader leaves runs alone whose outcomes may still be on a node's disk.

    Rule: a run that has ended is not started again because its node could not report it. After a takeover, and after a
    long outage of MongoDB, a run is left alone for a while if its node is up, in this incarnation or a later one of the
    same name, which replays the spool of its predecessor. The grace is finite, so no run stays open for ever.

    `spooled` returns the number of outcomes in this node's own spool, which gets more time.
    """

    def __init__(self, clock: Clock, timings: Timings, outages: Outages, spooled: Callable[[], int]) -> None:
        self._clock = clock
        self._timings = timings
        self._outages = outages
        self._spooled = spooled
        self._term: int | None = None
        self._leads_since = 0.0
        self._answered: Outage | None = None
        self._spooled_since: float | None = None

    def answered(self, term: int) -> None:
        """The reconciler calls this in each round, after MongoDB has answered."""
        now = self._clock.monotonic()
        if term != self._term:
            self._term, self._leads_since = term, now
        began = self._outages.began("MongoDB")
        # For another role it may still be away, perhaps for ever, so the wait counts from the first answer.
        if began is not None and (self._answered is None or self._answered.began != began):
            self._answered = Outage(began, now)
        if not self._spooled():
            self._spooled_since = None
        elif self._spooled_since is None:
            self._spooled_since = now

    def left(self, run: Run, transition: Transition, names_up: Collection[str]) -> timedelta | None:
        """For how long this transition of the run must wait, or None. This node's own spool may be empty at any moment
        and most runs are not in it, so the wait for it is short and repeated.
        """
        if transition is not Transition.REDISPATCH_UNTAKEN and transition not in GIVEN_UP_ON_WORKER:
            return None
        if run.node is None or node_name(run.node) not in names_up:
            return None
        # A start is recorded within a fraction of a second, so a run without a recorded start can only have ended if
        # MongoDB was away. A takeover alone does not delay the many runs that were merely not pushed.
        until = self._after_outage()
        if transition in GIVEN_UP_ON_WORKER:
            until = max(until, self._leads_since + self._timings.spool_grace)
        now = self._clock.monotonic()
        left = max(until - now, min(self._own_spool() - now, OWN_SPOOL_LOOK_S))
        return timedelta(seconds=left) if left > 0 else None

    def _own_spool(self) -> float:
        """Until when to wait for this node's own spool."""
        if self._spooled_since is None:
            return 0.0
        return self._spooled_since + OWN_SPOOL_GRACES * self._timings.spool_grace

    def _after_outage(self) -> float:
        """Until when to wait for outcomes of an outage."""
        outage = self._latest()
        # A leader elected during an outage did not see its beginning, so it assumes a long one.
        if outage is None or (
            outage.ended - outage.began < self._timings.long_outage and self._leads_since < outage.began
        ):
            return 0.0
        return outage.ended + self._timings.spool_grace

    def _latest(self) -> Outage | None:
        last = self._outages.last("MongoDB")
        if self._answered is None or (last is not None and last.began > self._answered.began):
            return last
        return self._answered
