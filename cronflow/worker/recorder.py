"""The recorder: what a worker writes, in group commits.

Starts and ends of runs go to MongoDB, then the locks are released in Redis, then the run is off the node. While
MongoDB is away the ends go to the spool, and from there to MongoDB before any later one does. Starts wait: nothing that
needs a recorded start begins without it.

The rules it protects: an outcome is never written blindly. What does not match and was not written by this very finish
is kept as a late result. A large result is there before its run says so. And no outcome is given up before it is in
MongoDB or on the disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from cronflow.domain import metrics
from cronflow.domain.cluster import Backlog, node_name
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.events import FenceRejected, SpoolDrained, SpoolStarted
from cronflow.domain.failures import dead_letter_events
from cronflow.domain.transitions import Change
from cronflow.node.role_loop import NodeRole, Outages, Wake
from cronflow.node.timings import Timings
from cronflow.ports import (
    UNMETERED,
    Clock,
    EventSink,
    JobLock,
    LateResult,
    LogLine,
    Meter,
    Queue,
    ResultStore,
    RunStore,
    discard_event,
)
from cronflow.worker.group_commit import MOST_AT_ONCE, GroupCommit, apply_each
from cronflow.worker.log_writer import LogWriter
from cronflow.worker.spool import Finish, Spool

SPOOL_LINGER_S = 0.02
NOTHING_TO_REPLAY_S = 60.0

log = structlog.get_logger("cronflow.node")


class Recorder:
    """Four group commits of one node: starts, finishes, releases, log lines; and the role that replays the spool.

    Without a spool, outcomes wait in memory and hold their slots.
    """

    def __init__(
        self,
        runs: RunStore,
        results: ResultStore,
        queue: Queue,
        log_writer: LogWriter,
        node: str,
        clock: Clock,
        timings: Timings,
        outages: Outages,
        spool: Spool | None = None,
        emit: EventSink = discard_event,
        count: Callable[[Change], None] = lambda _: None,
        meter: Meter = UNMETERED,
    ) -> None:
        self._runs, self._results, self._queue, self._lines = runs, results, queue, log_writer
        self._node = node
        self._clock = clock
        self._linger_s = timings.group_commit
        self._spool = spool
        self._emit = emit
        self._count = count
        self._meter = meter
        self._stuck = False
        self._replaying = asyncio.Lock()
        self._starts = GroupCommit("starts", self._write_starts, clock, outages, self._linger_s)
        self._finishes = GroupCommit("finishes", self._write_finishes, clock, outages, self._linger_s)
        self._releases = GroupCommit("releases", self._write_releases, clock, outages, self._linger_s)
        self.replaying = NodeRole("spool", self.replay, Wake())
        self.publishing = self._lines.live_tail_publisher.role

    @property
    def accepts(self) -> bool:
        """Whether the outcomes of more runs could be kept. If not, nothing is to be begun."""
        return not self._stuck and (self._spool is None or not self._spool.full)

    @property
    def spooled(self) -> int:
        """How many outcomes wait on the disk for MongoDB."""
        return 0 if self._spool is None else self._spool.pending

    @property
    def backlog(self) -> Backlog:
        """The same, with its size and age. May be read from any thread."""
        return Backlog() if self._spool is None else self._spool.backlog

    def start_roles(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Run the four loops in the group."""
        loops = (self._starts.run(), self._finishes.run(), self._releases.run(), self._lines.run())
        return [group.create_task(loop, name=f"group commit {k}") for k, loop in enumerate(loops)]

    async def start(self, change: Change) -> bool:
        """Record a start; False means that somebody else has the run."""
        return await self._starts.add(change)

    async def finish(self, finish: Finish, last_line: asyncio.Future[None] | None = None) -> bool:
        """Record an end, after the lines of the run if MongoDB takes them. When this returns it is in MongoDB or on the
        disk. False means that it came too late and was kept aside.
        """
        in_time = await self._finishes.add(finish)
        if last_line is not None:
            await self._lines.stored(last_line)
        return in_time

    async def keep_late(self, finish: Finish) -> None:
        """Keep the outcome of an attempt that MongoDB has refused. It counts for nothing, so nothing waits for it."""
        late = finish.late
        self._report_late(late)
        try:
            if finish.result is not None:
                await self._results.keep([finish.result])
            await self._runs.keep_late([late])
        except BackendUnavailable as error:
            log.warning("late result dropped", run=late.run, fence=late.fence, reason=error.reason)

    async def release(self, job_lock: JobLock) -> None:
        """Give the job lock back."""
        await self._releases.add(job_lock)

    def line(self, line: LogLine) -> asyncio.Future[None] | None:
        """Store a line of a run's log soon. None: too many are waiting already, this one is dropped."""
        return self._lines.put(line)

    def hurry_lines(self) -> None:
        """Store the waiting lines at once."""
        self._lines.hurry()

    async def replay(self) -> float:
        """Write the oldest outcomes of the spool to MongoDB; at once again until it is empty."""
        spool = self._spool
        async with self._replaying:
            if spool is None or not spool.pending:
                return NOTHING_TO_REPLAY_S
            finishes = await spool.read(MOST_AT_ONCE)
            now = self._clock.now()
            try:
                await self._commit([finish.waited(now) for finish in finishes])
            except BackendUnavailable:
                raise
            except Exception:
                log.exception("spool record refused")
                await self._replay_one_by_one(spool, finishes)
            await spool.acknowledge()
            if not spool.pending:
                log.info("spool replayed")
                self._emit(SpoolDrained(node_name(self._node)))
        return 0.0

    async def replay_all(self) -> None:
        """Empty the spool now, as far as MongoDB allows. Never raises BackendUnavailable."""
        try:
            while self.spooled:
                await self.replay()
        except BackendUnavailable as error:
            log.warning("outcomes stay in the spool", outcomes=self.spooled, reason=error.reason)

    async def _replay_one_by_one(self, spool: Spool, finishes: Sequence[Finish]) -> None:
        # One of them is wrong in a way that no repetition mends; it must not keep all others, and this node, down.
        for finish in finishes:
            try:
                await self._commit([finish.waited(self._clock.now())])
            except BackendUnavailable:
                raise
            except Exception as error:
                await spool.set_aside(finish, f"MongoDB refuses it: {error!r}")

    async def _write_starts(self, starts: Sequence[Change]) -> list[bool]:
        return await apply_each(self._runs, starts)

    async def _write_finishes(self, finishes: Sequence[Finish]) -> list[bool]:
        spool = self._spool
        try:
            # What lies in the spool came first, and is written first.
            if spool is None or not spool.pending:
                try:
                    in_time = await self._commit(finishes)
                    self._stuck = False
                    return in_time
                except BackendUnavailable:
                    if spool is None:
                        raise
            begun = not spool.pending
            await spool.append(finishes)
            if begun:
                self._emit(SpoolStarted(node_name(self._node)))
        except BackendUnavailable:
            self._stuck = True
            raise
        finally:
            # Each group costs a wait for the disk.
            self._finishes.linger_s = SPOOL_LINGER_S if self.spooled else self._linger_s
        self._stuck = False
        self.replaying.wake.set()
        return [True] * len(finishes)

    async def _commit(self, finishes: Sequence[Finish]) -> list[bool]:
        large = [finish.result for finish in finishes if finish.result is not None]
        if large:
            await self._results.keep(large)
        results = await apply_each(self._runs, [finish.change for finish in finishes])
        late = [finish.late for finish, won in zip(finishes, results, strict=True) if not won]
        if late:
            await self._runs.keep_late(late)
            for result in late:
                self._report_late(result)
        # At the end, when nothing of this is repeated any more: what is counted twice stays so.
        applied = [finish.change for finish, won in zip(finishes, results, strict=True) if won]
        for change in applied:
            self._count(change)
        for event in dead_letter_events(applied):
            self._emit(event)
        return results

    def _report_late(self, late: LateResult) -> None:
        self._meter.add(metrics.REJECTIONS, "outcome")
        log.warning("late result kept aside", run=late.run, fence=late.fence, outcome=late.attempt_result.outcome)
        self._emit(FenceRejected(late.run, late.fence, late.attempt_result.outcome))

    async def _write_releases(self, job_locks: Sequence[JobLock]) -> list[None]:
        await self._queue.release(self._node, job_locks)
        return [None] * len(job_locks)
