"""The recorder: writes the starts, outcomes and log lines of a worker in group commits.

Outcomes go to MongoDB, then the job locks are released in Redis. While MongoDB is unavailable, outcomes go to the
spool, and from there to MongoDB before any later outcome. Starts wait: a run that needs a recorded start does not begin
without it.

Rules: every outcome is a compare-and-set, or the insert of its run; one that does not match, and was not written by
this very finish, is kept as a late result. A large result is written before the run that refers to it. A job lock is
returned only after the outcome is in MongoDB or on the disk.
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
from cronflow.domain.run import DEAD, job_of
from cronflow.domain.transitions import Change
from cronflow.node.role_loop import NodeRole, Outages, Wake
from cronflow.node.timings import Timings
from cronflow.ports import (
    UNMETERED,
    Clock,
    EventSink,
    JobLock,
    JobStore,
    LateResult,
    Meter,
    Queue,
    ResultStore,
    RunStore,
    discard_event,
)
from cronflow.usecases.pause_after import PauseAfterFailures
from cronflow.worker.group_commit import MOST_AT_ONCE, GroupCommit
from cronflow.worker.log_writer import LogWriter
from cronflow.worker.permits import Permits
from cronflow.worker.run_writer import RunWrite, RunWriter
from cronflow.worker.spool import Finish, Spool

SPOOL_LINGER_S = 0.02
NOTHING_TO_REPLAY_S = 60.0

log = structlog.get_logger("cronflow.node")


class Recorder:
    """Four group commits (starts, finishes, releases, log lines) and the role that replays the spool. `permits` has
    its own, which run and stop with these.

    Without a spool, outcomes wait in memory and keep their slots.
    """

    def __init__(
        self,
        jobs: JobStore,
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
        permits: Permits | None = None,
        pause_after: PauseAfterFailures | None = None,
    ) -> None:
        self._permits = permits
        self._runs, self._results, self._queue, self.lines = runs, results, queue, log_writer
        self._writer = RunWriter(jobs, runs, clock)
        self._node = node
        self._clock = clock
        self._linger_s = timings.group_commit
        self._spool = spool
        self._emit = emit
        self._count = count
        self._meter = meter
        self._pause_after = pause_after
        self._stuck = False
        self._ahead = 0
        self._replaying = asyncio.Lock()
        self._starts: GroupCommit[RunWrite, bool | None] = GroupCommit(
            "starts", self._write_starts, clock, outages, self._linger_s
        )
        self._finishes = GroupCommit("finishes", self._write_finishes, clock, outages, self._linger_s)
        self._releases = GroupCommit("releases", self._write_releases, clock, outages, self._linger_s)
        self.replaying = NodeRole("spool", self.replay, Wake())
        self.publishing = self.lines.live_tail_publisher.role

    @property
    def accepts(self) -> bool:
        """Whether the outcomes of more runs could be stored. If not, the worker takes no runs."""
        return not self._stuck and (self._spool is None or not self._spool.full)

    @property
    def spooled(self) -> int:
        """The number of outcomes on the disk that wait for MongoDB."""
        return 0 if self._spool is None else self._spool.pending

    @property
    def backlog(self) -> Backlog:
        """Number, size and age of the spooled outcomes. May be read from any thread."""
        return Backlog() if self._spool is None else self._spool.backlog

    def start_roles(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        loops = (self._starts.run(), self._finishes.run(), self._releases.run(), self.lines.run())
        tasks = [group.create_task(loop, name=f"group commit {k}") for k, loop in enumerate(loops)]
        return tasks if self._permits is None else [*tasks, *self._permits.start_roles(group)]

    async def start(self, write: RunWrite) -> bool | None:
        """Record a start. Returns False when the run belongs to another attempt, None when it is unknown whether the
        start is recorded, because the recorder gave up.
        """
        return await self._starts.put(write)

    async def finish(self, finish: Finish, last_line: asyncio.Future[None] | None = None) -> bool:
        """Record an outcome, and wait for the run's last log line unless MongoDB is unavailable. On return the outcome
        is in MongoDB or on the disk. Returns False when it was too late and is kept as a late result.
        """
        in_time = await self._finishes.put(finish)
        if last_line is not None:
            await self.lines.stored(last_line)
        return in_time

    async def keep_late(self, finish: Finish) -> None:
        """Keep the outcome of a superseded attempt as a late result. It is dropped if MongoDB is unavailable."""
        late = finish.late
        self._report_late(late)
        try:
            if finish.result is not None:
                await self._results.keep([finish.result])
            await self._runs.keep_late([late])
        except BackendUnavailable as error:
            log.warning("late result dropped", run=late.run, fence=late.fence, reason=error.reason)

    async def release(self, job_lock: JobLock, ahead: int) -> None:
        """Return the job lock, and announce how many runs the node accepts beyond its free slots."""
        self._ahead = ahead
        await self._releases.put(job_lock)

    def give_up(self) -> None:
        """The node must stop: wait no longer for servers that are away. Starts stay unrecorded and job locks expire.
        Outcomes are still written, to the spool if need be.
        """
        self._starts.give_up(None)
        self._releases.give_up(None)
        if self._permits is not None:
            self._permits.give_up()

    async def replay(self) -> float:
        """Write the oldest outcomes of the spool to MongoDB. Returns 0 until the spool is empty."""
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
            if self._pause_after is not None:
                # While MongoDB was away, the worker could not check.
                await self._pause_after.check({job_of(f.change.run) for f in finishes if f.change.target in DEAD})
            if not spool.pending:
                log.info("spool replayed")
                self._emit(SpoolDrained(node_name(self._node)))
        return 0.0

    async def replay_all(self) -> None:
        try:
            while self.spooled:
                await self.replay()
        except BackendUnavailable as error:
            log.warning("outcomes stay in the spool", outcomes=self.spooled, reason=error.reason)

    async def _replay_one_by_one(self, spool: Spool, finishes: Sequence[Finish]) -> None:
        # A record that MongoDB refuses for good must not block all others, and this node.
        for finish in finishes:
            try:
                await self._commit([finish.waited(self._clock.now())])
            except BackendUnavailable:
                raise
            except Exception as error:
                await spool.set_aside(finish, f"MongoDB refuses it: {error!r}")

    async def _write_starts(self, starts: Sequence[RunWrite]) -> list[bool]:
        return await self._writer.write(starts)

    async def _write_finishes(self, finishes: Sequence[Finish]) -> list[bool]:
        spool = self._spool
        try:
            # Spooled outcomes are older, so they are written first.
            if spool is None or not spool.pending:
                try:
                    in_time = await self._commit(finishes)
                    self._stuck = False
                    return in_time
                except BackendUnavailable:
                    if spool is None:
                        raise
                except Exception:
                    if spool is None:
                        raise
                    # The replay sets aside what MongoDB refuses for good. Raised here, it would end the node.
                    log.exception("outcomes refused")
            first = not spool.pending
            await spool.append(finishes)
            if first:
                self._emit(SpoolStarted(node_name(self._node)))
        except BackendUnavailable:
            self._stuck = True
            raise
        finally:
            # Each group waits for the disk, so it collects for longer.
            self._finishes.linger_s = SPOOL_LINGER_S if self.spooled else self._linger_s
        self._stuck = False
        self.replaying.wake.set()
        return [True] * len(finishes)

    async def _commit(self, finishes: Sequence[Finish]) -> list[bool]:
        large = [finish.result for finish in finishes if finish.result is not None]
        if large:
            await self._results.keep(large)
        results = await self._writer.write([RunWrite(finish.change, finish.pending) for finish in finishes])
        late = [finish.late for finish, won in zip(finishes, results, strict=True) if not won]
        if late:
            await self._runs.keep_late(late)
            for result in late:
                self._report_late(result)
        # Last, when nothing above can be repeated: a double count would stay.
        applied = [finish.change for finish, won in zip(finishes, results, strict=True) if won]
        for change in applied:
            self._count(change)
        for event in dead_letter_events(applied):
            self._emit(event)
        return results

    def _report_late(self, late: LateResult) -> None:
        self._meter.add(metrics.REJECTIONS, "outcome")
        log.warning("late result kept", run=late.run, fence=late.fence, outcome=late.attempt_result.outcome)
        self._emit(FenceRejected(late.run, late.fence, late.attempt_result.outcome))

    async def _write_releases(self, job_locks: Sequence[JobLock]) -> list[None]:
        await self._queue.release(self._node, job_locks, self._ahead)
        return [None] * len(job_locks)
