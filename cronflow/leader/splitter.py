"""The splitter: begins the runs that are split, inserts their parts, and sums them up when all parts have ended.

A parent is open without a node. The leader begins it by one compare-and-set that fixes its parts, then inserts them,
by ids that follow from the parent. So a leader that dies at any point, or is deposed, leaves nothing to repair: the
next one inserts the same parts again, which changes nothing, and goes on. The reconciler dispatches the parts like all
runs that are requested.

Runs of a job that may not overlap begin one after the other. A broadcast waits while a node that was up a moment ago
has no heartbeat, because a Redis that was wiped knows no node at first.

Without a run that is split this costs the leader one read a second.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import structlog

from cronflow.domain.backfill import yields
from cronflow.domain.capabilities import needs_of
from cronflow.domain.cluster import Member, Tenure
from cronflow.domain.errors import Conflict, Deposed
from cronflow.domain.events import RunSplit, RunSummedUp
from cronflow.domain.failures import dead_letter_events
from cronflow.domain.job import JobRecord, Overlap
from cronflow.domain.placement import Waiting
from cronflow.domain.recovery import never_starts
from cronflow.domain.run import DEAD, OPEN, Kind, Run, RunState
from cronflow.domain.shadow import SHADOWED
from cronflow.domain.split import Split, SplitBy, parent_of
from cronflow.domain.splitting import (
    begin,
    knows_parts,
    nodes_for,
    part_run,
    parts_ended,
    split_now,
    sum_up,
    wait_to_split,
)
from cronflow.domain.transitions import Change, end
from cronflow.leader.elector import Elector
from cronflow.leader.read_limit import ReadLimit
from cronflow.node.role_loop import Wake
from cronflow.node.timings import Timings
from cronflow.ports import Clock, EventSink, JobStore, Membership, OpenRun, RunStore, discard_event
from cronflow.usecases.pause_after import PauseAfterFailures
from cronflow.usecases.runs import Canceller

IDLE_S = 5.0
LOOK_S = 1.0
AGAIN_S = 0.1
MOST_PARENTS = 5000
INSERTED_AT_ONCE = 500
EXAMPLES = 5
"""Parts that did not succeed whose errors are read."""
ANOTHER_RUN = "another run of this job is open"

log = structlog.get_logger("cronflow.node")


@dataclass(slots=True)
class _Look:
    """What a round has read. `busy` has the jobs with a run that others may not overlap, and that run."""

    tenure: Tenure
    jobs: Mapping[str, JobRecord]
    counts: Mapping[str, Mapping[RunState, int]]
    busy: dict[str, str] = field(default_factory=dict)
    members: Sequence[Member] = ()


class Splitter:
    """`inserted` is called when there are new runs to dispatch, `freed` when a run has ended. `missing` returns the
    names of nodes that were up a moment ago and are not among those given.
    """

    def __init__(
        self,
        jobs: JobStore,
        runs: RunStore,
        membership: Membership,
        canceller: Canceller,
        elector: Elector,
        clock: Clock,
        timings: Timings,
        inserted: Callable[[], None],
        freed: Callable[[], None],
        missing: Callable[[Collection[str]], Collection[str]],
        emit: EventSink = discard_event,
        held: Callable[[Tenure], str | None] = lambda _: None,
        pause_after: PauseAfterFailures | None = None,
    ) -> None:
        self._jobs, self._runs, self._membership = jobs, runs, membership
        self._canceller = canceller
        self._elector = elector
        self._clock = clock
        self._timings = timings
        self._inserted, self._freed = inserted, freed
        self._missing = missing
        self._emit = emit
        self._held = held
        self._pause_after = pause_after
        self._works = False
        self._limit = ReadLimit(clock, AGAIN_S)
        self.wake = Wake()

    def run_ended(self) -> None:
        """A run has ended. This wakes only a splitter with open parents."""
        if self._works:
            self.wake.set()

    async def step(self) -> float:
        tenure = self._elector.tenure
        if tenure is None:
            self._works = False
            return IDLE_S
        if wait_s := self._limit.wait_s():
            return wait_s
        parents = await self._runs.parents(MOST_PARENTS)
        self._works = bool(parents)
        try:
            if parents:
                await self._work(tenure, parents)
        except Deposed as error:
            self._elector.deposed(str(error))
            return IDLE_S
        return LOOK_S

    async def _work(self, tenure: Tenure, parents: Sequence[Run]) -> None:
        begun = [run for run in parents if run.split is not None and run.split.begun]
        waiting = [run for run in parents if run.split is not None and not run.split.begun]
        jobs = {record.name: record for record in await self._jobs.get({run.job for run in parents})}
        look = _Look(tenure, jobs, await self._runs.part_counts([run.id for run in begun]))
        for run in begun:
            look.busy.setdefault(run.job, run.id)
        for run in begun:
            if (record := jobs.get(run.job)) is not None:
                await self._go_on(look, run, record)
        if waiting:
            await self._begin_all(look, waiting)

    # ------------------------------------------------------------------------------------------ parents that have begun

    async def _go_on(self, look: _Look, run: Run, record: JobRecord) -> None:
        """Insert the parts that are missing, cancel those of a parent that is to be cancelled, or sum up."""
        assert run.split is not None
        counts = look.counts[run.id]
        if sum(counts.values()) < (run.split.count or 0):
            await self._insert_parts(run, record)
            return
        open_parts = sum(counts.get(state, 0) for state in OPEN)
        if open_parts and not run.cancel_requested:
            return
        states = await self._states(run)
        if open_parts:
            await self._cancel_parts(run, [part for part, state in states.items() if state in OPEN])
        else:
            await self._sum_up(run, record, states)

    async def _states(self, run: Run) -> dict[str, RunState]:
        assert run.split is not None
        standings = await self._runs.standings([plan.id for plan in run.split.parts(run.id)])
        return {part: standing.state for part, standing in standings.items()}

    async def _insert_parts(self, run: Run, record: JobRecord) -> None:
        assert run.split is not None
        plans = list(run.split.parts(run.id))
        known = await self._runs.existing([plan.id for plan in plans])
        missing = [plan for plan in plans if plan.id not in known]
        now = self._clock.now()
        for at in range(0, len(missing), INSERTED_AT_ONCE):
            page = missing[at : at + INSERTED_AT_ONCE]
            await self._runs.insert([part_run(run, plan, record, now) for plan in page])
        self._inserted()

    async def _cancel_parts(self, run: Run, parts: Sequence[str]) -> None:
        try:
            await self._canceller.cancel(parts, run.cancel_reason or "", run.cancel_by or "")
        except Conflict as error:
            log.warning("parts not cancelled yet", run=run.id, reason=str(error))

    async def _sum_up(self, run: Run, record: JobRecord, states: Mapping[str, RunState]) -> None:
        ended = parts_ended(run, states)
        if ended is None:
            return
        found = await self._runs.get(ended.others[:EXAMPLES]) if ended.others else []
        errors = {part.id: part.error or part.reason or "" for part in found}
        held = SHADOWED if record.job.is_shadow and not run.is_requested else None
        change = sum_up(run, states, ended, errors, secrets.token_hex(12), self._clock.now(), held=held)
        if not await self._runs.apply([change]):
            return
        log.info("run summed up", run=run.id, parts=ended.total, failed=ended.failed, state=change.target.value)
        self._emit(RunSummedUp(run.id, change.target.value, ended.total, ended.failed))
        for event in dead_letter_events([change]):
            self._emit(event)
        if change.target in DEAD and self._pause_after is not None:
            await self._pause_after.check([run.job])
        self._freed()

    # ---------------------------------------------------------------------------------------------- parents that wait

    async def _begin_all(self, look: _Look, waiting: Sequence[Run]) -> None:
        """Begin those that may, in turn: the runs of backfills last, and the oldest first."""
        waiting = [run for run in waiting if run.job in look.jobs]
        excluding = {run.job for run in waiting if look.jobs[run.job].job.overlap is not Overlap.ALLOW}
        taken = await self._runs.taken_of(excluding - look.busy.keys()) if excluding else {}
        for job, runs in taken.items():
            look.busy.setdefault(job, _first(runs))
        if any(run.split is not None and not knows_parts(run.split) for run in waiting):
            look.members = await self._membership.members()
        order = sorted(waiting, key=lambda run: (run.ranked_as is Kind.BACKFILL, -run.priority, run.created_at, run.id))
        for run in order:
            record = look.jobs[run.job]
            if (skip := never_starts(run, record)) is not None:
                change = end(run, skip, secrets.token_hex(12), self._clock.now())
                await self._runs.apply([replace(change, only_when_due=False)])
                continue
            split = split_now(run, record)
            reason = self._obstacle(look, run, record)
            if reason is None and not knows_parts(split):
                split, reason = self._on_nodes(look, run, record, split)
            if reason is not None:
                await self._wait(run, split, reason)
            else:
                look.busy.setdefault(run.job, run.id)
                await self._begin(look, run, record, split)

    def _obstacle(self, look: _Look, run: Run, record: JobRecord) -> Waiting | None:
        """Why the parent may not begin now, other than for a node."""
        now = self._clock.now()
        if (held := self._held(look.tenure)) is not None:
            return Waiting(fire=run.fire_at, since=now, reason=held)
        if record.job.overlap is not Overlap.ALLOW and (other := look.busy.get(run.job)) is not None:
            return Waiting(fire=run.fire_at, since=now, reason=ANOTHER_RUN, blocked_by=other)
        if run.kind is Kind.BACKFILL and (reason := yields(record, now)) is not None:
            return Waiting(fire=run.fire_at, since=now, reason=reason)
        return None

    def _on_nodes(self, look: _Look, run: Run, record: JobRecord, split: Split) -> tuple[Split, Waiting | None]:
        """The split of a broadcast with its nodes, or why it waits for them."""
        now = self._clock.now()
        away = self._missing({member.report.name for member in look.members})
        if away:
            reason = f"node {min(away)} was up a moment ago, and may send a heartbeat again"
            return split, Waiting(fire=run.fire_at, since=now, reason=reason)
        stale_after = timedelta(seconds=self._timings.stale_after)
        nodes, left_out = nodes_for(look.members, needs_of(record.job), stale_after)
        if not nodes:
            return split, left_out.waiting(run.fire_at, now)
        return replace(split, by=SplitBy.NODES, nodes=nodes), None

    async def _wait(self, run: Run, split: Split, waiting: Waiting) -> None:
        """Record the reason once."""
        before = run.waiting
        if before is None or (before.reason, before.blocked_by) != (waiting.reason, waiting.blocked_by):
            assert run.split is not None
            await self._runs.apply([wait_to_split(run, split, waiting.still(before))])

    async def _begin(self, look: _Look, run: Run, record: JobRecord, split: Split) -> None:
        now = self._clock.now()
        fence = look.tenure.fences.next(now)
        if fence <= run.fence:
            raise Deposed(f"run {run.id} carries a newer fence")
        change: Change = begin(run, split, fence=fence, term=look.tenure.term, job_ver=record.ver, at=now)
        if not await self._runs.apply([change]):
            return
        begun = replace(split, begun=True)
        log.info("run split", run=run.id, parts=begun.count, term=look.tenure.term)
        self._emit(RunSplit(run.id, begun.count or 0))
        await self._insert_parts(replace(run, split=begun, fence=fence), record)


def _first(runs: Sequence[OpenRun]) -> str:
    """The run that others wait for, by its parent if it is a part."""
    first = min(runs, key=lambda run: (run.created_at, run.id)).id
    return parent_of(first) or first
