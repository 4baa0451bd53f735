"""The reconciler: handles every open run whose `check_at` has passed, each second and on a signal.

Retries, manual runs and runs of lost workers reach a node only through it. `domain.recovery` has the rules; here they
are combined with the state of the workers in Redis. A change that was overtaken by another does not apply, and its run
is not pushed.

`SpoolGrace` decides how long a run is left alone because its outcome may still be on a node's disk.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta

import structlog

from cronflow.domain import transitions
from cronflow.domain.cluster import Tenure, node_name
from cronflow.domain.errors import Deposed
from cronflow.domain.events import RunsReassigned
from cronflow.domain.failures import dead_letter_events
from cronflow.domain.job import JobRecord, Overlap
from cronflow.domain.placement import Fleet, NoNode
from cronflow.domain.recovery import (
    Dispatch,
    End,
    Holder,
    Postpone,
    declined_by_all,
    held_back,
    reconcile,
    refusals,
)
from cronflow.domain.run import Outcome, Run, RunState
from cronflow.domain.transitions import Change, Transition
from cronflow.leader.elector import Elector
from cronflow.leader.planner import Dispatcher
from cronflow.node.role_loop import Outage, Outages, Wake
from cronflow.node.timings import Timings
from cronflow.ports import Assignment, Clock, EventSink, JobStore, Membership, RunStore, discard_event

AT_ONCE = 1000
QUIET = frozenset({Transition.DISPATCH_RETRY, Transition.POSTPONE})
"""Transitions that are too frequent to log."""
IDLE_S = 5.0
NO_NODE_PAUSE = timedelta(seconds=2)
GIVEN_UP_ON_WORKER = frozenset({Transition.REDISPATCH_LOST, Transition.MARK_LOST})
OWN_SPOOL_GRACES = 4
OWN_SPOOL_LOOK_S = 5.0

log = structlog.get_logger("cronflow.node")

Holdings = dict[str, tuple[bool, dict[str, int]]]


class Reconciler:
    def __init__(
        self,
        jobs: JobStore,
        runs: RunStore,
        membership: Membership,
        elector: Elector,
        dispatcher: Dispatcher,
        clock: Clock,
        timings: Timings,
        grace: SpoolGrace,
        emit: EventSink = discard_event,
        count: Callable[[Change], None] = lambda _: None,
    ) -> None:
        self._jobs, self._runs, self._membership = jobs, runs, membership
        self._elector = elector
        self._dispatcher = dispatcher
        self._clock = clock
        self._timings = timings
        self._grace = grace
        self._emit = emit
        self._count = count
        self.wake = Wake()

    async def step(self) -> float:
        tenure = self._elector.tenure
        if tenure is None:
            return IDLE_S
        overdue = await self._runs.overdue(AT_ONCE)
        self._grace.answered(tenure.term)
        if overdue:
            try:
                await self._reconcile(tenure, overdue)
            except Deposed as error:
                self._elector.deposed(str(error))
                return IDLE_S
        return 0.0 if len(overdue) == AT_ONCE else self._timings.reconcile

    async def _reconcile(self, tenure: Tenure, overdue: list[Run]) -> None:
        # Runs are read before their jobs: an edit in between changes the run, and then the change does not apply.
        nodes = {run.node for run in overdue if run.node is not None and run.state is not RunState.RETRYING}
        found, members, holdings = await asyncio.gather(
            self._jobs.get({run.job for run in overdue}),
            self._membership.members(),
            self._membership.holdings(nodes),
        )
        jobs = {record.name: record for record in found}
        others = await self._others(overdue, jobs)
        fleet = Fleet(members, timedelta(seconds=self._timings.stale_after))
        names_up = {member.report.name for member in members}
        now = self._clock.now()
        wanted: list[Change] = []
        placed: dict[str, tuple[str, Assignment]] = {}
        for run in overdue:
            ahead = [state for other, state in others.get(run.job, {}).items() if other != run.id]
            change, where = self._visit(tenure, run, jobs.get(run.job), holdings, fleet, names_up, now, ahead)
            wanted.append(change)
            if where is not None:
                placed[run.id] = where
                # The next run of this job in this batch waits for this one.
                others.get(run.job, {})[run.id] = RunState.DISPATCHED
        applied = await self._runs.apply(wanted)
        for change in wanted:
            if change.run in applied and change.transition not in QUIET:
                log.info(
                    "run reconciled",
                    run=change.run,
                    transition=change.transition,
                    state=change.target,
                    term=tenure.term,
                )
        self._emit_events([change for change in wanted if change.run in applied])
        await self._dispatcher.push(tenure, [where for run, where in placed.items() if run in applied])

    def _emit_events(self, applied: Sequence[Change]) -> None:
        for change in applied:
            self._count(change)
        for event in dead_letter_events(applied):
            self._emit(event)
        again = [change.run for change in applied if change.transition is Transition.REDISPATCH_LOST]
        if again:
            self._emit(RunsReassigned(len(again), again[-1]))

    async def _others(self, overdue: list[Run], jobs: dict[str, JobRecord]) -> dict[str, dict[str, RunState]]:
        """The open runs, by id, of the jobs whose runs exclude each other."""
        excluding = {
            run.job
            for run in overdue
            if run.state is not RunState.RUNNING and run.job in jobs and jobs[run.job].job.overlap is not Overlap.ALLOW
        }
        found = await self._runs.open_of(excluding) if excluding else {}
        return {job: {run.id: run.state for run in runs} for job, runs in found.items()}

    def _visit(
        self,
        tenure: Tenure,
        run: Run,
        record: JobRecord | None,
        holdings: Holdings,
        fleet: Fleet,
        names_up: Collection[str],
        now: datetime,
        others: Collection[RunState],
    ) -> tuple[Change, tuple[str, Assignment] | None]:
        finish_id = secrets.token_hex(12)
        if record is None:
            attempt_result = End(Transition.FAIL, RunState.FAILED, Outcome.PERMANENT, "its job no longer exists")
            return transitions.end(run, attempt_result, finish_id, now), None
        job = record.job
        verdict = reconcile(run, _holder(run, holdings), job.delivery, job.timeout, now)
        if not isinstance(verdict, Postpone) and (left := self._grace.left(run, verdict.transition, names_up)):
            verdict = Postpone(left, counts=False)
        match verdict:
            case Postpone():
                return transitions.postpone(run, verdict), None
            case End():
                return transitions.end(run, verdict, finish_id, now), None
            case Dispatch():
                waits = (
                    held_back(run, job, now, others) if verdict.transition is not Transition.REDISPATCH_LOST else None
                )
                waits = waits or declined_by_all(run, fleet.able(job.require), now)
                if isinstance(waits, Postpone):
                    return transitions.postpone(run, waits), None
                if waits is not None:
                    return transitions.end(run, waits, finish_id, now), None
                placed = fleet.place(job.require, refusals(run, now))
                if isinstance(placed, NoNode):
                    waiting = placed.waiting(run.fire_at, now).still(run.waiting)
                    return transitions.postpone(run, Postpone(NO_NODE_PAUSE), waiting), None
                fence = tenure.fences.next(now)
                if fence <= run.fence:
                    raise Deposed(f"run {run.id} carries a newer fence")
                change = transitions.dispatch(
                    run,
                    verdict,
                    fence=fence,
                    term=tenure.term,
                    node=placed.node,
                    job_ver=record.ver,
                    at=now,
                    placement=placed,
                )
                attempt = change.sets.get("attempt", run.attempt)
                assert isinstance(attempt, int)
                assignment = Assignment(
                    run=run.id,
                    fence=fence,
                    term=tenure.term,
                    attempt=attempt,
                    fire_at=run.fire_at,
                    job=job,
                    args=run.args or {},
                )
                return change, (placed.node, assignment)


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
