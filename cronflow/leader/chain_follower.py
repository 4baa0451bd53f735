"""The chain follower: creates the runs that follow ended runs.

A run whose job is followed has a mark from its creation. The follower reads those that have ended, inserts what follows
by ids that are computed from the runs that are followed, and then removes the marks. So a leader that dies in between,
or is deposed, leaves nothing to repair: the next one reads the same ends, inserts the same runs again, which changes
nothing, and goes on. Only a join of several ends has a document, which changes by compare-and-set (see
`domain.following`).

Without followed jobs this costs the leader three small reads every five seconds, and when jobs change.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from cronflow.domain.chain import RunEnd
from cronflow.domain.events import RunHeldBack
from cronflow.domain.following import (
    JoinRecord,
    arrive,
    expire,
    finish,
    forget,
    join_id,
    needs_join,
    run_of_join,
    run_that_follows,
)
from cronflow.domain.job import JobRecord
from cronflow.domain.job_graph import JobGraph
from cronflow.domain.run import Run, RunState, job_of
from cronflow.leader.elector import Elector
from cronflow.leader.read_limit import ReadLimit
from cronflow.node.role_loop import Wake
from cronflow.ports import ChainStore, Clock, EventSink, JobStore, RunStore, discard_event

IDLE_S = 5.0
LOOK_S = 1.0
GRAPH_S = 5.0
"""The graph is also read so often: a process may die before it has published a change."""
AGAIN_S = 0.02
AT_ONCE = 500
"""Ends per round."""
JOINS_AT_ONCE = 16


class Arriving(NamedTuple):
    """Ends that arrive at a join: the join if it does not exist yet, the job that follows, the ends in their order."""

    join: JoinRecord
    record: JobRecord
    ends: list[RunEnd]


class Arrived(NamedTuple):
    """The join with these ends as it was written, and the run that it leads to. `join` None: another leader has changed
    it, and all has to be done again.
    """

    ends: Sequence[RunEnd]
    join: JoinRecord | None
    run: Run | None


class ChainFollower:
    """`inserted` is called when there are new runs to dispatch, `count` with each run that was skipped."""

    def __init__(
        self,
        chains: ChainStore,
        jobs: JobStore,
        runs: RunStore,
        elector: Elector,
        clock: Clock,
        inserted: Callable[[], None],
        count: Callable[[Run], None] = lambda _: None,
        emit: EventSink = discard_event,
    ) -> None:
        self._chains, self._jobs, self._runs = chains, jobs, runs
        self._elector = elector
        self._clock = clock
        self._inserted = inserted
        self._count = count
        self._emit = emit
        self._graph: JobGraph | None = None
        self._term = 0
        self._descendants: dict[str, set[str]] = {}
        self._limit = ReadLimit(clock, AGAIN_S)
        self._graph_version = 0
        self._graph_read_at = 0.0
        self.wake = Wake()

    def run_ended(self) -> None:
        """A run has ended. This wakes only a follower of a cluster in which jobs follow others."""
        if self._graph is not None and self._graph.jobs:
            self.wake.set()

    async def step(self) -> float:
        tenure = self._elector.tenure
        if tenure is None:
            self._graph = None
            return IDLE_S
        if wait_s := self._limit.wait_s():
            return wait_s
        if tenure.term != self._term:
            self._graph, self._term = None, tenure.term
        await self._update_graph()
        ends = await self._chains.ended(AT_ONCE)
        left = await self._answer(ends) if ends else False
        if self._graph is not None and self._graph.jobs:
            left |= await self._look_at_joins()
            return 0.0 if len(ends) == AT_ONCE else AGAIN_S if left else LOOK_S
        return 0.0 if len(ends) == AT_ONCE else IDLE_S

    async def _update_graph(self) -> None:
        """Read which jobs follow which, if that has changed. It only decides about joins: the jobs that follow an end
        are read for each.
        """
        version = await self._chains.graph_version()
        is_old = self._clock.monotonic() - self._graph_read_at >= GRAPH_S
        if self._graph is not None and version == self._graph_version and not is_old:
            return
        self._graph_version = version
        following = await self._chains.following()
        self._graph = JobGraph({job.name: job.after for job in following})
        self._descendants.clear()
        self._graph_read_at = self._clock.monotonic()
        if following:
            # An edit by CronFlow 0.9 removes it.
            await self._chains.follow({upstream.job for job in following for upstream in job.after})

    async def _answer(self, ends: Sequence[RunEnd]) -> bool:
        """Insert what follows these ends, and remove their marks. Returns whether some are left for the next round."""
        # Read after the ends: a job that was changed before one of these runs was created is seen here.
        followers: dict[str, list[JobRecord]] = defaultdict(list)
        for record in await self._chains.followers({end.job for end in ends}):
            for upstream in record.job.after:
                followers[upstream.job].append(record)
        if any(needs_join(record.job) for found in followers.values() for record in found):
            # Or the join could be that of a job for one end, and that of a chain for the other.
            await self._update_graph()
        now = self._clock.now()
        runs: list[Run] = []
        arriving: dict[str, Arriving] = {}
        for end in ends:
            for record in followers.get(end.job, ()):
                if needs_join(record.job):
                    join = self._join_of(record, end)
                    arriving.setdefault(join.id, Arriving(join, record, [])).ends.append(end)
                elif (run := run_that_follows(record, [end], now)) is not None:
                    runs.append(run)
        joined = await self._arrive_all(arriving) if arriving else []
        unwritten = {end.run for one in joined if one.join is None for end in one.ends}
        written = [one.join for one in joined if one.join is not None]
        runs += [one.run for one in joined if one.run is not None]
        await self._insert(runs)
        await self._finish_all(written)
        await self._chains.answered([end.run for end in ends if end.run not in unwritten])
        return bool(unwritten)

    def _join_of(self, record: JobRecord, end: RunEnd) -> JoinRecord:
        """The join that the end belongs to, as a new one."""
        root = job_of(end.chain_id)
        if root not in self._descendants:
            self._descendants[root] = {root, *(self._graph.downstream(root) if self._graph is not None else ())}
        of_chain = all(one.job in self._descendants[root] for one in record.job.after)
        chain = end.chain_id if of_chain else None
        return JoinRecord(id=join_id(record.name, chain), job=record.name, chain=chain)

    async def _arrive_all(self, arriving: Mapping[str, Arriving]) -> list[Arrived]:
        stored = {join.id: join for join in await self._chains.joins(arriving)}
        # Read after the joins: an end that a join has forgotten has no mark by then.
        recent = {run for join in stored.values() for run in join.recent}
        marked = await self._chains.marked(recent | {end.run for one in arriving.values() for end in one.ends})
        at_once = asyncio.Semaphore(JOINS_AT_ONCE)

        async def write(one: Arriving) -> Arrived:
            async with at_once:
                return await self._arrive(forget(stored.get(one.join.id, one.join), marked), one, marked)

        return await asyncio.gather(*map(write, arriving.values()))

    async def _arrive(self, join: JoinRecord, one: Arriving, marked: Collection[str]) -> Arrived:
        """Add ends to a join. The run that it leads to is inserted before the marks of these ends are removed."""
        changed = False
        for end in one.ends:
            if end.run not in marked or join.knows(end.run):
                continue
            if join.completed:
                await self._insert_of(join, one.record)
                join = finish(join)
            join, changed = arrive(join, one.record.job, end), True
            if join.completed:
                if not await self._chains.write_join(join):
                    return Arrived(one.ends, None, None)
                join, changed = replace(join, rev=join.rev + 1), False
        if changed:
            if not await self._chains.write_join(join):
                return Arrived(one.ends, None, None)
            join = replace(join, rev=join.rev + 1)
        # Also what an author that died had not inserted.
        return Arrived(one.ends, join, run_of_join(one.record, join, self._clock.now()))

    async def _finish_all(self, joins: Iterable[JoinRecord]) -> None:
        """Record that the runs of these joins are inserted. If a write is lost, the runs are inserted again, which
        changes nothing.
        """
        at_once = asyncio.Semaphore(JOINS_AT_ONCE)

        async def write(join: JoinRecord) -> None:
            async with at_once:
                await self._chains.write_join(finish(join))

        await asyncio.gather(*(write(join) for join in joins if join.completed))

    async def _look_at_joins(self) -> bool:
        """Handle joins whose ends have waited for too long, and those whose author died before it inserted a run.
        Returns whether there may be more.
        """
        due = await self._chains.due_joins(self._clock.now(), JOINS_AT_ONCE)
        if not due:
            return False
        jobs = {record.name: record for record in await self._jobs.get({join.job for join in due})}
        marked = await self._chains.marked({run for join in due for run in join.recent})
        for join in due:
            record = jobs.get(join.job)
            join = forget(join, marked)
            if record is None or record.deleted_at is not None:
                await self._chains.write_join(replace(finish(join), arrived=(), expires_at=None, waits=False))
                continue
            if join.completed:
                await self._insert_of(join, record)
                join = finish(join)
                if not await self._chains.write_join(join):
                    continue
                join = replace(join, rev=join.rev + 1)
            expired = expire(join, record.job, self._clock.now())
            if expired is not join and await self._chains.write_join(expired):
                await self._insert_of(expired, record)
                await self._chains.write_join(finish(replace(expired, rev=expired.rev + 1)))
        return len(due) == JOINS_AT_ONCE

    async def _insert_of(self, join: JoinRecord, record: JobRecord) -> None:
        run = run_of_join(record, join, self._clock.now())
        if run is not None:
            await self._insert([run])

    async def _insert(self, runs: Sequence[Run]) -> None:
        if not runs:
            return
        fresh = await self._runs.insert(runs)
        for run in runs:
            if run.id in fresh and run.state is RunState.SKIPPED:
                self._count(run)
                self._emit(RunHeldBack(run.id, run.job, run.reason or ""))
        if any(run.is_open for run in runs):
            self._inserted()
