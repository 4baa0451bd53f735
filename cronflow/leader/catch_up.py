"""Holds the runs that an outage made the planner miss, and gives them back to it in turn.

Each round, the planner shows what is due (`take`). Fires that were missed in an outage leave the round: their jobs are
held, which is one write each under their `rev`. When all have been counted, they start by priority and age at the rate
of the plan, or they wait for a person if they are too many. They start in ordinary rounds of the planner, so whoever
dies in between leaves nothing to repair. The plan is one document, changed by compare-and-set on its own `rev`.

The rate is charged before the runs start: a leader that dies in between starts fewer, never more. Without missed fires
a round costs one comparison for each due job, and the role one read every five seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

import structlog

from cronflow.domain.backfill import BackfillRate
from cronflow.domain.catch_up import (
    HELD,
    MOST_AT_ONCE,
    ONE_AFTER,
    TOP,
    CatchUpPlan,
    CatchUpState,
    HeldSummary,
    held_until,
    missed_runs,
    page_of,
    room_for_missed,
    skips_first,
)
from cronflow.domain.events import RecoveryEnded, RecoveryWaiting, RecoveryWithdrawn
from cronflow.domain.job import JobRecord
from cronflow.domain.placement import Fleet
from cronflow.domain.planning import SkipFire, skip_missed
from cronflow.leader.elector import Elector
from cronflow.leader.maintenance_watch import NOT_READ
from cronflow.leader.read_limit import ReadLimit
from cronflow.node.role_loop import Wake
from cronflow.node.timings import Timings
from cronflow.ports import CatchUpStore, Clock, EventSink, HeldFire, JobStore, Membership, discard_event

IDLE_S = 5.0
LOOK_S = 0.5
OUTAGE_AFTER_S = 10.0
"""A leader that could plan nothing for so long looks for missed fires."""
PAGE = 1000
"""Overdue jobs that a round of counting reads."""
RECENT = timedelta(seconds=60)
"""While it counts, the planner reads what fell due since then first; that is how late most jobs may be."""
NO_LEADER = "the cluster had no leader"
NO_NODES = "no node accepted runs"
MAINTENANCE = "maintenance"

log = structlog.get_logger("cronflow.node")


class CatchUpOptions(NamedTuple):
    """`rate` bounds how fast missed runs start; with more of them than `limit`, a person decides (0: never)."""

    rate: BackfillRate | None = None
    limit: int = 0


@dataclass(slots=True)
class _Outage:
    """When the last outage ended, and what it was."""

    ended_at: datetime
    cause: str


class NothingMissed:
    """For a planner that holds nothing: every fire is planned as soon as a slot is free."""

    reads_since: datetime | None = None
    waits_for_slots = False

    def begin(self, term: int, now: datetime) -> None: ...

    def interrupted(self, reason: str) -> None: ...

    def planned(self, fleet: Fleet | None = None) -> None: ...

    def wait_s(self, now: datetime, most: float) -> float:
        return most

    def skipped(self, record: JobRecord, now: datetime) -> SkipFire | None:
        return None

    async def take(self, due: Sequence[JobRecord], now: datetime, full: bool) -> list[JobRecord]:
        return list(due)


NOTHING_MISSED = NothingMissed()


class CatchUp:
    def __init__(
        self,
        store: CatchUpStore,
        jobs: JobStore,
        membership: Membership,
        elector: Elector,
        clock: Clock,
        timings: Timings,
        options: CatchUpOptions,
        emit: EventSink = discard_event,
    ) -> None:
        self._store, self._jobs, self._membership = store, jobs, membership
        self._elector = elector
        self._clock = clock
        self._timings = timings
        self._options = options
        self._emit = emit
        self._term = 0
        self._outage: _Outage | None = None
        self._planned_at = 0.0
        self._in_maintenance = False
        self._unable_since: float | None = None
        self._plan: CatchUpPlan | None = None
        self._known = False
        # The fires that had their turn and wait for reasons of their own. By job, because each has one cursor.
        self._had_turn: dict[str, datetime] = {}
        self._skips: dict[str, str] = {}
        self._passed = 0
        self._next_at: datetime | None = None
        self._limit = ReadLimit(clock, LOOK_S)
        self.held_runs = 0
        """When they were last counted."""
        self._more = False
        self.waits_for_slots = False
        self.wake = Wake()
        self.planner_wake: Wake | None = None

    # ------------------------------------------------------------------------------------------ rounds of the planner

    def begin(self, term: int, now: datetime) -> None:
        """A round begins in which something may be planned."""
        self._more = self.waits_for_slots = False
        self._next_at = None
        self._skips.clear()
        idle_s = self._clock.monotonic() - self._planned_at
        if term != self._term:
            self._term = term
            self._plan, self._known = None, False
            self._unable_since = None
            self._over(now, NO_LEADER)
        elif self._in_maintenance:
            self._over(now, MAINTENANCE)
        elif idle_s > OUTAGE_AFTER_S:
            self._over(now, f"nothing could be planned for {idle_s:.0f} s")
        self._in_maintenance = False

    def interrupted(self, reason: str) -> None:
        """A round in which nothing may be planned, because of the maintenance mode."""
        self._in_maintenance = reason != NOT_READ

    def planned(self, fleet: Fleet | None = None) -> None:
        """The round ended well. `fleet` are the nodes that it used, if something was due."""
        self._planned_at = self._clock.monotonic()
        if fleet is None:
            return
        if fleet.slots:
            self._unable_since = None
        elif self._unable_since is None:
            self._unable_since = self._planned_at

    def _over(self, now: datetime, cause: str) -> None:
        self._outage = _Outage(now, cause)
        self._planned_at = self._clock.monotonic()
        self._had_turn.clear()

    @property
    def reads_since(self) -> datetime | None:
        """While it counts, it reads what is older itself; the planner need not."""
        plan = self._plan
        return plan.cutoff - RECENT if plan is not None and plan.state is CatchUpState.COUNTING else None

    def wait_s(self, now: datetime, most: float) -> float:
        """How long the planner may wait until the next round, in seconds."""
        if self._more:
            return 0.0
        return most if self._next_at is None else max(0.0, min(most, (self._next_at - now).total_seconds()))

    def skipped(self, record: JobRecord, now: datetime) -> SkipFire | None:
        """The decision to skip the missed fires of this job, if a person wants that."""
        reason = self._skips.get(record.name)
        return None if reason is None else skip_missed(record, now, reason)

    async def take(self, due: Sequence[JobRecord], now: datetime, full: bool) -> list[JobRecord]:
        """What to plan of the due jobs in this round, and the missed ones whose turn it is. `full`: more are due."""
        if self._unable_since is not None:
            await self._look_for_nodes(now)
        missed = {record.name: runs for record in due if (runs := self._missed(record, now))}
        plan = self._plan
        if not missed and (plan is None or not plan.active):
            return list(due)
        if not self._known:
            plan = await self._load()
        if plan is None or not plan.active:
            if not self._needs_plan(sum(missed.values()), full):
                return list(due)
            plan = await self._open(now)
        elif (
            plan.state is not CatchUpState.SKIPPING
            and self._ended_after(plan)
            and any(record.name in missed and not _is_held(record) for record in due)
        ):
            plan = await self._count_again(plan)
        records = list(due)
        counted = False
        if plan is not None and plan.state is CatchUpState.COUNTING:
            page = await self._jobs.due(plan.cutoff, PAGE)
            known = {record.name for record in due}
            records += (record for record in page if record.name not in known)
            older = {record.name: runs for record in page if (runs := self._missed(record, now))}
            # What is missed behind an excluded fire shows once that is skipped.
            hidden = any(record.name not in older and skips_first(record, now) for record in records)
            counted = not hidden and (len(page) < PAGE or not older)
            missed |= older
        self._more = self._more or bool(missed)
        await self._hold([record for record in records if record.name in missed], missed, now)
        on_time = [record for record in records if record.name not in missed]
        if plan is None:
            return on_time
        if counted:
            plan = await self._finish_counting(plan, now)
        released = await self._release(plan, now, len(on_time)) if plan is not None else []
        known = {record.name for record in released}
        return [*(record for record in on_time if record.name not in known), *released]

    def _missed(self, record: JobRecord, now: datetime) -> int:
        if self._outage is None or record.next_fire is None:
            return 0
        # Cheap, because this is all that most fires need.
        if now - record.next_fire <= record.job.misfire.late_after:
            return 0
        if self._had_turn.get(record.name) == record.next_fire:
            return 0
        return missed_runs(record, now, self._outage.ended_at)

    async def _look_for_nodes(self, now: datetime) -> None:
        assert self._unable_since is not None
        if not (await self._fleet()).slots:
            return
        away_s = self._clock.monotonic() - self._unable_since
        self._unable_since = None
        if away_s > OUTAGE_AFTER_S:
            self._over(now, NO_NODES)

    async def _fleet(self) -> Fleet:
        return Fleet(await self._membership.members(), timedelta(seconds=self._timings.stale_after))

    # ------------------------------------------------------------------------------------------------------- the plan

    def _needs_plan(self, runs: int, full: bool) -> bool:
        if not runs:
            return False
        return self._options.rate is not None or (self._options.limit > 0 and (full or runs > self._options.limit))

    def _ended_after(self, plan: CatchUpPlan) -> bool:
        """Whether there was an outage that the plan does not contain."""
        return self._outage is not None and self._outage.ended_at > plan.cutoff

    async def _load(self) -> CatchUpPlan | None:
        self._plan = await self._store.plan()
        self._known = True
        return self._plan

    async def _write(self, plan: CatchUpPlan) -> CatchUpPlan | None:
        """None if a person or another leader has changed it."""
        if not await self._store.write(plan):
            self._known = False
            return None
        self._plan = replace(plan, rev=plan.rev + 1)
        return self._plan

    async def _open(self, now: datetime) -> CatchUpPlan | None:
        assert self._outage is not None
        last = self._plan
        if last is not None and not self._ended_after(last):
            # A straggler of the same outage, such as a job that a long run of its own held up.
            return await self._write(replace(last, state=CatchUpState.SKIPPING if last.skip else CatchUpState.DRAINING))
        return await self._write(
            CatchUpPlan(
                number=1 if last is None else last.number + 1,
                rev=0 if last is None else last.rev,
                state=CatchUpState.COUNTING,
                cutoff=self._outage.ended_at,
                cause=self._outage.cause,
                since=now,
                rate=self._options.rate,
            )
        )

    async def _count_again(self, plan: CatchUpPlan) -> CatchUpPlan | None:
        """After a further outage. What a person decided about holds for the runs that were missed before."""
        assert self._outage is not None
        known = plan.known
        if plan.state is CatchUpState.DRAINING:
            known = (await self._store.summary(0)).runs
        elif plan.state is CatchUpState.WAITING:
            known = 0
        return await self._write(
            replace(
                plan,
                state=CatchUpState.COUNTING,
                cutoff=self._outage.ended_at,
                cause=self._outage.cause,
                known=known,
                approved=(),
                skipped=(),
            )
        )

    async def _finish_counting(self, plan: CatchUpPlan, now: datetime) -> CatchUpPlan | None:
        found = await self._store.summary(TOP)
        self.held_runs = found.runs
        waits = self._options.limit > 0 and found.runs - plan.known > self._options.limit
        written = await self._write(_counted(plan, found, CatchUpState.WAITING if waits else CatchUpState.DRAINING))
        if written is not None:
            log.info("missed runs counted", runs=found.runs, jobs=found.jobs, cause=plan.cause, waits=waits)
            if waits and found.runs > plan.runs:
                self._emit(RecoveryWaiting(found.runs, found.jobs, plan.cause))
        return written

    async def _end(self, plan: CatchUpPlan) -> None:
        ended = await self._write(replace(plan, state=CatchUpState.ENDED, ended_at=self._clock.now()))
        self.held_runs = 0
        if ended is not None and plan.ended_at is None and plan.runs:
            self._emit(RecoveryEnded(plan.runs, plan.jobs))

    async def _hold(self, records: Sequence[JobRecord], missed: dict[str, int], now: datetime) -> None:
        fires = {}
        for record in records:
            since = record.waiting.since if record.waiting is not None and _is_held(record) else now
            fires[record.name] = HeldFire(
                record.rev, held_until(record, now), since, missed[record.name], record.job.priority
            )
        if fires:
            await self._store.hold(fires)

    # --------------------------------------------------------------------------------------------------- giving back

    async def _release(self, plan: CatchUpPlan, now: datetime, on_time: int) -> list[JobRecord]:
        if plan.state is CatchUpState.COUNTING or (
            plan.state is CatchUpState.WAITING and not (plan.approved or plan.skipped)
        ):
            return []
        # A person may have changed it a moment ago.
        present = await self._load()
        if present is None or not present.active or present.state is CatchUpState.COUNTING:
            return []
        waits = present.state is CatchUpState.WAITING
        if present.state is CatchUpState.SKIPPING or (waits and present.skipped):
            found = await self._store.held(MOST_AT_ONCE, among=present.skipped if waits else ())
            self._skips |= {record.name: present.skip_reason for record in found}
            if found:
                self._more = True
                return found
        if present.state is CatchUpState.DRAINING or (waits and present.approved):
            return await self._start(present, now, on_time, among=present.approved if waits else ())
        if present.state is CatchUpState.SKIPPING:
            await self._end(present)
        return []

    async def _start(self, plan: CatchUpPlan, now: datetime, on_time: int, among: Collection[str]) -> list[JobRecord]:
        if plan.rate is not None and plan.next_at is not None and now < plan.next_at:
            self._next_at = plan.next_at
            return []
        room = await self._room(on_time)
        if plan.rate is not None:
            room = min(room, page_of(plan.rate))
        found = await self._store.held(min(max(room, 1), MOST_AT_ONCE), among=among)
        if not found:
            if plan.state is CatchUpState.DRAINING and not self._more:
                await self._end(plan)
            return []
        if not room:
            self.waits_for_slots = True
            return []
        if plan.rate is not None:
            next_at = now + plan.rate.interval * len(found)
            if await self._write(replace(plan, next_at=next_at)) is None:
                return []
            self._next_at = next_at
        for record in found:
            assert record.next_fire is not None
            self._had_turn[record.name] = record.next_fire
        self.waits_for_slots = True
        return found

    async def _room(self, on_time: int) -> int:
        fleet = await self._fleet()
        room = room_for_missed(fleet.capacity, fleet.slots, on_time)
        self._passed = 0 if room else self._passed + on_time
        if not room and fleet.capacity > 0 and self._passed >= ONE_AFTER:
            self._passed = 0
            return 1
        return room

    # ------------------------------------------------------------------------------------------------------- the role

    async def step(self) -> float:
        """Read the plan, which a person may have changed, and count what is left of it."""
        tenure = self._elector.tenure
        if tenure is None:
            self._limit.reset()
            self.held_runs = 0
            return IDLE_S
        if wait_s := self._limit.wait_s():
            return wait_s
        before, plan = self._plan, await self._load()
        if tenure.term != self._term:
            # The planner has not begun its first round, which forgets what is known.
            self._known = False
        if plan is None or not plan.active:
            self.held_runs = 0
            return IDLE_S
        if plan.state is not CatchUpState.COUNTING:
            self.held_runs = (await self._store.summary(0)).runs
        if plan.state is CatchUpState.WAITING:
            await self._reconsider(plan)
        if before != self._plan and self.planner_wake is not None:
            self.planner_wake.set()
        return IDLE_S

    async def _reconsider(self, plan: CatchUpPlan) -> None:
        """Edits, pauses and instants that cover the missed ones make fewer."""
        if not self.held_runs:
            await self._end(plan)
        elif self.held_runs <= self._options.limit and not (plan.approved or plan.skipped):
            withdrawn = await self._write(replace(plan, state=CatchUpState.DRAINING))
            if withdrawn is not None:
                self._emit(RecoveryWithdrawn(self.held_runs))


def _is_held(record: JobRecord) -> bool:
    return record.waiting is not None and record.waiting.reason == HELD


def _counted(plan: CatchUpPlan, found: HeldSummary, state: CatchUpState) -> CatchUpPlan:
    return replace(
        plan,
        state=state,
        jobs=found.jobs,
        runs=found.runs,
        oldest=found.oldest,
        by_priority=tuple(sorted(found.by_priority.items(), reverse=True)),
        top=found.top,
    )
