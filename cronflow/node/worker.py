"""The worker: takes what its free slots allow, runs it, records how it ended, gives the lock back.

The rules it protects: nothing is taken or started without a valid heartbeat; an incarnation takes a (run, fence) at
most once; a run whose fence is lost is stopped; a slot is free only after the outcome is in MongoDB or in the spool.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from cronflow.domain import changes
from cronflow.domain.changes import Held
from cronflow.domain.job import Overlap, StartGuard
from cronflow.domain.run import Ending, Outcome
from cronflow.node.heartbeat import Heartbeat
from cronflow.node.leases import STOP_TAKES_S, Lease
from cronflow.node.loop import Wake
from cronflow.node.recorder import Finish, Recorder
from cronflow.node.timings import Timings
from cronflow.ports import Assignment, Backends, Clock, Executor, Hold, LateResult, LogLine

PUT_BACK_POLL_S = 0.1
REMEMBERED_TAKES = 100_000
MOST_LINES_A_RUN = 10_000

log = structlog.get_logger("cronflow.node")


@dataclass(slots=True, eq=False)
class Active:
    """A run on this node."""

    assignment: Assignment
    held: Held
    hold: Hold
    start_id: str
    until: float
    started_at: datetime | None = None
    marked: bool = False
    superseded: bool = False
    stopped: Ending | None = None
    handler: asyncio.Future[Ending] | None = None
    lines: int = 0
    last_line: asyncio.Future[None] | None = field(default=None, repr=False)


class Worker:
    """The worker role. `executor` runs an attempt, whatever its target."""

    def __init__(
        self,
        backends: Backends,
        recorder: Recorder,
        heartbeat: Heartbeat,
        executor: Executor,
        clock: Clock,
        timings: Timings,
        *,
        node: str,
        slots: int,
        group: asyncio.TaskGroup,
    ) -> None:
        self._backends = backends
        self._recorder = recorder
        self._heartbeat = heartbeat
        self._executor = executor
        self._clock = clock
        self._timings = timings
        self._node = node
        self._slots = slots
        self._group = group
        self._active: dict[tuple[str, int], Active] = {}
        self._taken: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._stopping = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._loop = asyncio.get_running_loop()
        self.ended = 0
        self.wake = Wake()

    @property
    def in_flight(self) -> int:
        """How many runs are on this node."""
        return len(self._active)

    async def step(self) -> float:
        """Take what the free slots allow."""
        free = self._slots - len(self._active)
        if self._stopping or free <= 0 or not self._heartbeat.valid or not self._recorder.accepts:
            return self._timings.take_poll
        taken = await self._backends.queue.take(self._node, free)
        if taken.dropped:
            log.info("items dropped", count=taken.dropped)
        for assignment in taken.assignments:
            self._accept(assignment)
        if len(taken.assignments) == free:
            return 0.0
        return PUT_BACK_POLL_S if taken.put_back else self._timings.take_poll

    def leases(self) -> list[Lease]:
        """What is held now. May be called from any thread."""
        return [
            Lease(active.held, active.hold, active.marked and not active.superseded, active.until)
            for active in list(self._active.values())
        ]

    def lost(self, lease: Lease) -> None:
        """The fence of a run is somebody else's: stop it. May be called from any thread."""
        self._loop.call_soon_threadsafe(self._stop_if_held, lease)

    async def drain(self, seconds: float) -> None:
        """Take nothing more; wait for what runs, then stop it and hand it on."""
        self._stopping = True
        if not await self._clock.wait(self._idle, seconds):
            log.warning("drain timeout", still_running=len(self._active))
            for active in list(self._active.values()):
                _stop(active, Ending(Outcome.DRAINED, error="its node was shut down"))
            await self._idle.wait()

    # ------------------------------------------------------------------------------------------------ one attempt

    def _accept(self, assignment: Assignment) -> None:
        key = _key(assignment)
        if key in self._taken:
            return
        self._taken[key] = None
        if len(self._taken) > REMEMBERED_TAKES:
            self._taken.popitem(last=False)
        job = assignment.job
        active = Active(
            assignment=assignment,
            held=Held(
                run=assignment.run,
                fence=assignment.fence,
                node=self._node,
                attempt=assignment.attempt,
                retry=job.retry,
                delivery=job.delivery,
            ),
            hold=Hold(
                job=job.name,
                slot=assignment.run if job.overlap is Overlap.ALLOW else "",
                run=assignment.run,
                fence=assignment.fence,
            ),
            start_id=secrets.token_hex(12),
            until=self._clock.monotonic() + job.timeout.total_seconds() + STOP_TAKES_S,
        )
        self._active[key] = active
        self._idle.clear()
        self._group.create_task(self._attempt(active), name=f"run {assignment.run}")

    async def _attempt(self, active: Active) -> None:
        try:
            if active.assignment.job.start_guard is StartGuard.REDIS or await self._mark_start(active):
                await self._run_and_record(active)
            else:
                log.warning("start refused", run=active.held.run, fence=active.held.fence)
            await self._recorder.release(active.hold)
        finally:
            self._active.pop(_key(active.assignment), None)
            self.ended += 1
            if not self._active:
                self._idle.set()
            self.wake.set()

    async def _run_and_record(self, active: Active) -> None:
        active.started_at = active.started_at or self._clock.now()
        mark = None
        if not active.marked:
            mark = self._group.create_task(self._mark_later(active), name=f"mark {active.held.run}")
        ending = await self._execute(active)
        if mark is not None and not active.marked:
            mark.cancel()
        if active.superseded:
            log.warning("run superseded", run=active.held.run, fence=active.held.fence, outcome=ending.outcome)
        await self._record(active, ending)

    async def _execute(self, active: Active) -> Ending:
        """Run the attempt to its ending; a cancellation of ours becomes one too."""

        def sink(level: str, text: str) -> None:
            self._log_line(active, level, text)

        if active.stopped is not None:
            return active.stopped
        active.handler = asyncio.ensure_future(self._executor.run(active.assignment, self._node, sink))
        try:
            await asyncio.wait({active.handler})
        except asyncio.CancelledError:
            # The process ends: what runs must not outlive it.
            active.handler.cancel()
            await asyncio.wait({active.handler})
            raise
        if active.handler.cancelled():
            return active.stopped or Ending(Outcome.INTERRUPTED, error="the handler was cancelled")
        return active.handler.result()

    async def _mark_later(self, active: Active) -> None:
        await self._clock.sleep(self._timings.start_mark)
        if _key(active.assignment) in self._active and not await self._mark_start(active):
            self._supersede(active)

    async def _mark_start(self, active: Active) -> bool:
        started_at = active.started_at or self._clock.now()
        lease = timedelta(seconds=self._timings.run_lease)
        won = await self._recorder.start(changes.start(active.held, active.start_id, started_at, lease))
        active.marked, active.started_at = won, started_at
        return won

    async def _record(self, active: Active, ending: Ending) -> None:
        now = self._clock.now()
        finish_id = secrets.token_hex(12)
        held = active.held
        self._recorder.hurry_lines()
        await self._recorder.finish(
            Finish(
                changes.finish(held, ending, finish_id, active.started_at, now),
                LateResult(run=held.run, fence=held.fence, node=held.node, at=now, ending=ending, finish_id=finish_id),
            ),
            active.last_line,
        )

    def _stop_if_held(self, lease: Lease) -> None:
        active = self._active.get((lease.held.run, lease.held.fence))
        # One that ended while the answer was on its way is not lost.
        if active is not None and not active.superseded:
            self._supersede(active)

    def _supersede(self, active: Active) -> None:
        active.superseded = True
        _stop(active, Ending(Outcome.INTERRUPTED, error="another attempt has a higher fence"))

    def _log_line(self, active: Active, level: str, text: str) -> None:
        if active.lines > MOST_LINES_A_RUN:
            return
        if active.lines == MOST_LINES_A_RUN:
            level, text = "warn", f"more than {MOST_LINES_A_RUN:,} lines; the rest is not kept"
        assignment = active.assignment
        future = self._recorder.line(
            LogLine(
                run=assignment.run,
                job=assignment.job.name,
                fence=assignment.fence,
                attempt=assignment.attempt,
                n=active.lines,
                at=self._clock.now(),
                level=level,
                text=text,
            )
        )
        active.lines += 1
        active.last_line = future or active.last_line


def _stop(active: Active, ending: Ending) -> None:
    """Stop the handler, and it alone: what is being recorded is recorded to its end. The first reason counts."""
    active.stopped = active.stopped or ending
    if active.handler is not None:
        active.handler.cancel()


def _key(assignment: Assignment) -> tuple[str, int]:
    return assignment.run, assignment.fence
