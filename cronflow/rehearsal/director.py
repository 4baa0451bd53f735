"""Moves the time of a rehearsal from event to event.

While something is under way, the loop's time passes as it would in production, to the next timer of any role. When
nothing is, the wall clock skips to the next event: the end of a run, the instant of a job, or what the scenario plans.
Rule: time is skipped only while a leader is elected and nothing was written for a moment, so no role would have acted.

A job or run that waits without an instant, such as for a slot, waits for the end of a run, which is an event. Because
some roles look at it only from time to time, the skips are short while there is one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta

from cronflow.domain.catch_up import CatchUpState
from cronflow.node.role_loop import SHORTEST_PAUSE_S
from cronflow.ports import Signal
from cronflow.rehearsal.stage import Stage

SETTLE_S = 0.02
"""Longer than any role takes that was woken by a signal."""
SETTLE_STUCK_S = 1.5
"""Longer than the reconciler's poll."""
LEAD = timedelta(seconds=0.26)
"""The planner learns of an instant in the poll before it, and then acts on time."""
STUCK_SKIP = timedelta(seconds=60)
LEAST_SKIP = timedelta(seconds=0.05)
POLL_S = 0.05
NO_LEADER_POLL_S = 0.25
EXPIRY_S = 120.0
"""Longer than the lease of a dead node, of its runs and of its job locks."""


class Director:
    """`leaderless` has the periods without a leader, apart from outages."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.leaderless: list[tuple[datetime, datetime]] = []
        self._clock = stage.clock
        self._wake = asyncio.Event()
        self._lost_at: datetime | None = None
        stage.executor.scheduled = self._wake.set

    async def run_until(self, end: datetime) -> None:
        """Let the cluster work until the wall clock shows `end`."""
        stage, clock = self.stage, self._clock
        while (now := clock.now()) < end:
            self._wake.clear()
            if stage.executor.end_due():
                # Their outcomes are yet to be recorded.
                stage.note_activity()
            self._note_leader(now)
            if stage.leader is None:
                stage.check()
                pause = NO_LEADER_POLL_S
            else:
                skip, pause = self._look_ahead(now, end)
                if skip:
                    await self._skip(skip)
                    continue
            ends = [instant for instant in (end, stage.executor.next_end()) if instant is not None]
            left_s = (min(ends) - now).total_seconds()
            await clock.wait(self._wake, max(SHORTEST_PAUSE_S, min(pause, left_s)))

    def _look_ahead(self, now: datetime, end: datetime) -> tuple[timedelta | None, float]:
        """The time to skip, if any, and otherwise the seconds until the next look."""
        settled_s = self._clock.monotonic() - self.stage.changed_at
        if settled_s < SETTLE_S or not self._is_quiet():
            return None, POLL_S
        target, stuck = self._horizon(now, end)
        if stuck and settled_s < SETTLE_STUCK_S:
            return None, max(SETTLE_STUCK_S - settled_s, SHORTEST_PAUSE_S)
        return (target - now, 0.0) if target - now >= LEAST_SKIP else (None, POLL_S)

    async def power_cut(self, until: datetime) -> None:
        """Kill all nodes, and start them again at `until`."""
        stage = self.stage
        await stage.kill(list(stage.nodes))
        # All that lives in Redis expires.
        left_s = (until - self._clock.now()).total_seconds()
        await self._clock.sleep(min(EXPIRY_S, left_s))
        self._clock.skip(max(timedelta(0), until - self._clock.now()))
        stage.start()

    async def kill_leader(self) -> str | None:
        """Kill the leader for good. Returns its name."""
        stage = self.stage
        for running in stage.nodes:
            if running.node.leads:
                self._lost_at = self._clock.now()
                await stage.kill([running])
                return running.rehearsed.name
        return None

    def _note_leader(self, now: datetime) -> None:
        if self._lost_at is not None and self.stage.leader is not None:
            self.leaderless.append((self._lost_at, now))
            self._lost_at = None

    def _is_quiet(self) -> bool:
        documents = self.stage.backends.documents
        plan = documents.catch_up
        counting = plan is not None and plan.state in (CatchUpState.COUNTING, CatchUpState.SKIPPING)
        return not (counting or self.stage.in_transit or self._overdue())

    def _overdue(self) -> bool:
        """Whether a pause or the wait of a join is over, and the leader is yet to notice it."""
        now, joins = self._clock.now(), self.stage.backends.documents.joins.values()
        pauses = [record.pause.until for record in self.stage.paused() if record.pause is not None]
        instants = [*pauses, *(join.due_at for join, _ in joins)]
        return any(instant is not None and instant <= now for instant in instants)

    def _horizon(self, now: datetime, end: datetime) -> tuple[datetime, bool]:
        """Until when nothing happens by itself, and whether something waits without an instant."""
        due_at, stuck_job = self.stage.jobs.next_due(now)
        check_at, stuck_run = self.stage.runs.next_check(now)
        instants = [end, *self._deadlines(now)]
        if due_at is not None:
            instants.append(due_at - LEAD)
        instants += (instant for instant in (check_at, self.stage.executor.next_end()) if instant is not None)
        draining = self._draining()
        if stuck := stuck_job or stuck_run or draining:
            instants.append(now + STUCK_SKIP)
        return min(instants), stuck

    def _draining(self) -> bool:
        plan = self.stage.backends.documents.catch_up
        return plan is not None and plan.state is CatchUpState.DRAINING

    def _deadlines(self, now: datetime) -> Iterator[datetime]:
        """Rarer instants: the end of a pause, of the wait of a join, and the next start of a recovery with a rate."""
        documents = self.stage.backends.documents
        for record in self.stage.paused():
            if record.pause is not None and record.pause.until is not None and record.pause.until > now:
                yield record.pause.until
        for join, _ in documents.joins.values():
            if join.due_at is not None and join.due_at > now:
                yield join.due_at
        plan = documents.catch_up
        if plan is not None and plan.state is CatchUpState.DRAINING and plan.next_at is not None and plan.next_at > now:
            yield plan.next_at

    async def _skip(self, time: timedelta) -> None:
        deadlines = list(self._deadlines(self._clock.now()))
        await self.stage.skip(time)
        # Whatever is due now needs a moment to be noticed.
        self.stage.note_activity()
        if any(instant <= self._clock.now() for instant in deadlines):
            await self.stage.backends.bus.notify(Signal.JOBS)
