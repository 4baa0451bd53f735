"""The worker: takes runs for its free slots, executes them, records their outcomes and releases their job locks.

Rules: it takes and starts nothing without a valid heartbeat. An incarnation either takes a (run, fence) once or gives
it back, never both. It stops a run whose fence is lost or whose cancellation was requested. A slot is free when the
handler has ended, but with MOST_UNRECORDED outcomes that are neither in MongoDB nor in the spool it takes nothing. A
node that takes no work gives its queue back, and so does one whose slots stay full. It declines runs that it cannot
execute.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections import OrderedDict
from collections.abc import Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog
from structlog.contextvars import bind_contextvars

from cronflow.domain import metrics, transitions
from cronflow.domain.cluster import node_name
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.job import Overlap, StartGuard
from cronflow.domain.placement import MEMORY_LIMIT
from cronflow.domain.run import AttemptResult, Outcome, cancelled_text, fire_of
from cronflow.domain.transitions import ClaimedRun
from cronflow.node.heartbeat import Heartbeat
from cronflow.node.role_loop import Wake, end_tasks
from cronflow.node.timings import Timings
from cronflow.ports import (
    UNMETERED,
    Assignment,
    Bus,
    Clock,
    Executor,
    JobLock,
    LateResult,
    Meter,
    Queue,
    RunStore,
    SelectiveExecutor,
    Signal,
)
from cronflow.worker.attempt_log import LINES_PER_RUN, AttemptLog
from cronflow.worker.leases import STOP_TAKES_S, Lease
from cronflow.worker.recorder import Recorder
from cronflow.worker.run_writer import RunWrite, pending_of
from cronflow.worker.spool import Finish
from cronflow.worker.throughput import AHEAD_S, Throughput

PUT_BACK_POLL_S = 0.1
CANCEL_POLL_S = 2.0
MOST_UNRECORDED = 500
REMEMBERED_TAKES = 100_000
SHUT_DOWN = "its node was shut down"
NO_MORE_WORK = "its node takes no more work"

log = structlog.get_logger("cronflow.node")


@dataclass(slots=True, eq=False)
class Active:
    """A run on this node."""

    assignment: Assignment
    claimed: ClaimedRun
    job_lock: JobLock
    log: AttemptLog = field(repr=False)
    start_id: str
    began: float
    until: float
    started_at: datetime | None = None
    marked: bool = False
    superseded: bool = False
    recorded: bool = False
    stop: AttemptResult | None = None
    task: asyncio.Task[None] | None = None
    executing: bool = False

    def stop_result(self) -> AttemptResult | None:
        """The result of the attempt if it was stopped. A method, because another task sets `stop` between two calls."""
        return self.stop


class Worker:
    def __init__(
        self,
        queue: Queue,
        runs: RunStore,
        bus: Bus,
        recorder: Recorder,
        heartbeat: Heartbeat,
        executor: Executor,
        clock: Clock,
        timings: Timings,
        *,
        node: str,
        slots: int,
        lines_per_run: int = LINES_PER_RUN,
        meter: Meter = UNMETERED,
    ) -> None:
        self._queue, self._runs, self._bus = queue, runs, bus
        self._recorder = recorder
        self._heartbeat = heartbeat
        self._executor = executor
        self._declines = executor.declines if isinstance(executor, SelectiveExecutor) else None
        self._clock = clock
        self._timings = timings
        self._node = node
        self._slots = slots
        self._lines_per_run = lines_per_run
        self._meter = meter
        self._active: dict[tuple[str, int], Active] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._taken: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._occupied = self._unrecorded = 0
        self._throughput = Throughput(slots)
        self._had_room_at = clock.monotonic()
        self._marking: asyncio.Task[None] | None = None
        # Unique: a random part for this process, and a number.
        self._ids = map(f"{secrets.token_hex(8)}{{:08x}}".format, itertools.count())
        self._stopping = False
        self.paused = False
        self._taking = asyncio.Lock()
        self._idle = asyncio.Event()
        self._idle.set()
        self._group: asyncio.TaskGroup | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.ended = 0
        self.wake = Wake()
        self.cancellations = Wake()
        self._obeyed_at = self._forgot_at = clock.monotonic()

    def start(self, group: asyncio.TaskGroup) -> None:
        self._group, self._loop = group, asyncio.get_running_loop()

    @property
    def in_flight(self) -> int:
        return len(self._active)

    async def step(self) -> float:
        """Take as many runs as there are free slots. A node that takes no work gives its queue back."""
        async with self._taking:
            await self._forget_ended()
            if not self._takes_work():
                await self.give_back()
                return self._timings.take_poll
            free = self._slots - self._occupied
            if free <= 0:
                return await self._without_room()
            self._had_room_at = self._clock.monotonic()
            free = min(free, MOST_UNRECORDED - self._unrecorded)
            if free <= 0 or not self._heartbeat.valid or not self._recorder.accepts:
                return self._timings.take_poll
            taken = await self._queue.take(self._node, free)
            if taken.dropped:
                log.info("items dropped", count=taken.dropped)
            if taken.put_back:
                self._meter.add(metrics.REJECTIONS, "take", by=taken.put_back)
            # Their leader was deposed. The next leader would only look at them when their acknowledgement is overdue.
            await self._hand_back(taken.outdated, "its leader was deposed before it was taken")
            if not self._takes_work():
                # The node was drained or paused while the reply was on its way.
                await self._hand_back(taken.assignments)
                for assignment in taken.assignments:
                    await self._recorder.release(_job_lock(assignment), 0)
                return 0.0
            newest: dict[str, int] = {}
            for assignment in taken.assignments:
                newest[assignment.run] = max(assignment.fence, newest.get(assignment.run, 0))
            for assignment in taken.assignments:
                # An edit may requeue a run, and the leader place it here again, while the first item is still queued:
                # only the newest fence counts.
                if assignment.fence == newest[assignment.run] and self._is_new(assignment):
                    self._begin(assignment)
            if len(taken.assignments) == free:
                return 0.0
            return PUT_BACK_POLL_S if taken.put_back else self._timings.take_poll

    async def _without_room(self) -> float:
        """Give the queue back if no slot was freed for a second: another node may start these runs sooner. Returns the
        pause of the role.
        """
        full_for = self._clock.monotonic() - self._had_room_at
        if full_for < AHEAD_S:
            return AHEAD_S - full_for
        if self._recorder.accepts:
            await self.give_back("all slots of its node stayed occupied")
        return self._timings.take_poll

    async def _forget_ended(self) -> None:
        """Once per heartbeat, make the list of this node's runs in Redis agree with the runs that it holds."""
        now = self._clock.monotonic()
        if now - self._forgot_at >= self._timings.heartbeat:
            gone = await self._queue.forget_ended(self._node, [lease.job_lock for lease in self.leases()])
            self._forgot_at = now
            if gone:
                log.info("runs in redis forgotten", count=gone, reason="this node does not hold them")

    def ahead(self) -> int:
        """How many runs this node accepts beyond its free slots."""
        if not self._takes_work() or not self._recorder.accepts:
            return 0
        before, long = self._clock.monotonic() - AHEAD_S, 0
        for active in self._active.values():
            if active.began > before:
                break
            long += active.executing
        return self._throughput.ahead(long)

    def leases(self) -> list[Lease]:
        """The runs that this node holds now, until their outcomes are recorded. May be called from any thread."""
        return [
            Lease(active.claimed, active.job_lock, active.marked and not active.superseded, active.until)
            for active in list(self._active.values())
            if not active.recorded
        ]

    def _takes_work(self) -> bool:
        return not (self._stopping or self.paused)

    def lost(self, lease: Lease) -> None:
        """Stop a run whose fence belongs to another attempt. May be called from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop_if_held, lease)

    async def look_for_cancellations(self) -> float:
        """The mark in Redis is a hint and may be lost, so the documents are read as often as leases are renewed."""
        runs = {active.claimed.run for active in self._active.values() if active.stop is None}
        now = self._clock.monotonic()
        if now - self._obeyed_at >= self._timings.run_lease / 3:
            self._obeyed_at = now
            await self._stop_cancelled(runs)
        elif runs:
            await self._stop_cancelled(await self._queue.cancelled(runs))
        return CANCEL_POLL_S

    async def _stop_cancelled(self, runs: Collection[str]) -> None:
        """Stop the runs whose documents are cancelled or have a cancellation request."""
        for run in await self._runs.get(runs) if runs else ():
            for active in [active for active in self._active.values() if active.claimed.run == run.id]:
                if not run.is_open:
                    self._supersede(active)
                elif run.cancel_requested and run.fence == active.claimed.fence:
                    text = cancelled_text(run.cancel_reason, run.cancel_by)
                    self._stop(active, AttemptResult(Outcome.CANCELLED, error=text))

    async def give_back(self, why: str = NO_MORE_WORK) -> None:
        """Return the runs in the node's queue, none of which has started; the leader places them elsewhere at once."""
        await self._hand_back(await self._queue.give_back(self._node), why)

    async def _hand_back(self, assignments: Sequence[Assignment], why: str = NO_MORE_WORK) -> None:
        # A duplicate of an item that runs here, or that was given back already, is ignored.
        assignments = [assignment for assignment in assignments if self._is_new(assignment)]
        if assignments:
            log.info("given back", count=len(assignments))
            await self._return(assignments, why)

    async def _return(self, assignments: Sequence[Assignment], why: str) -> None:
        """Return runs whose handlers have not started to the leader."""
        attempt_result = AttemptResult(Outcome.DRAINED, error=why)
        now = self._clock.now()
        finishes = []
        for assignment in assignments:
            claimed, finish_id = self._claimed(assignment), next(self._ids)
            late = LateResult(
                run=claimed.run,
                fence=claimed.fence,
                node=claimed.node,
                at=now,
                attempt_result=attempt_result,
                finish_id=finish_id,
            )
            change = transitions.give_back(claimed, finish_id, attempt_result, now)
            finishes.append(Finish(change, late, pending=pending_of(assignment)))
        await asyncio.gather(*(self._recorder.finish(finish) for finish in finishes))
        await self._notify_leader()

    async def _notify_leader(self) -> None:
        try:
            await self._bus.notify(Signal.JOBS)
        except BackendUnavailable:
            # The leader finds the runs at its next poll.
            return

    def pause(self, paused: bool) -> None:
        self.paused = paused
        self.wake.set()

    async def drain(self, seconds: float) -> None:
        """Take nothing more. Wait for running jobs, then stop them and give them back, and wait no longer for servers
        that are away.
        """
        self._stopping = True
        self.wake.set()
        async with self._taking:
            # A `take` that was under way has finished, and its runs were given back.
            pass
        if not await self._clock.wait(self._idle, seconds):
            log.warning("drain timeout", still_running=len(self._active))
            self._recorder.give_up()
            for active in list(self._active.values()):
                self._stop(active, AttemptResult(Outcome.DRAINED, error=SHUT_DOWN))
            await self._idle.wait()

    async def abandon(self) -> None:
        if self._tasks:
            log.error("attempts abandoned", runs=sorted(active.claimed.run for active in self._active.values()))
        await end_tasks(self._tasks)

    # ------------------------------------------------------------------------------------------------ one attempt

    def _is_new(self, assignment: Assignment) -> bool:
        """Whether this incarnation sees the (run, fence) for the first time."""
        key = _key(assignment)
        if key in self._taken:
            return False
        self._taken[key] = None
        if len(self._taken) > REMEMBERED_TAKES:
            self._taken.popitem(last=False)
        return True

    def _begin(self, assignment: Assignment) -> None:
        now = self._clock.monotonic()
        active = Active(
            assignment=assignment,
            claimed=self._claimed(assignment),
            job_lock=_job_lock(assignment),
            log=AttemptLog(self._recorder.lines, assignment, node_name(self._node), self._clock, self._lines_per_run),
            start_id=next(self._ids),
            began=now,
            until=now + assignment.job.timeout.total_seconds() + STOP_TAKES_S,
        )
        self._active[_key(assignment)] = active
        self._occupied += 1
        self._idle.clear()
        active.task = self._create_task(self._attempt(active), f"run {assignment.run}")

    def _create_task(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        assert self._group is not None
        task = self._group.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _attempt(self, active: Active) -> None:
        assignment = active.assignment
        bind_contextvars(run=assignment.run, job=assignment.job.name, attempt=assignment.attempt)
        attempt_result: AttemptResult | None = None
        try:
            try:
                refusal = await self._refusal(assignment)
                if refusal is not None:
                    attempt_result = refusal
                elif assignment.job.start_guard is StartGuard.REDIS or (recorded := await self._mark_start(active)):
                    attempt_result = await self._execute(active)
            finally:
                self._free_slot(active)
            if attempt_result is not None:
                await self._record(active, attempt_result)
                if refusal is not None:
                    await self._notify_leader()
            elif recorded is None:
                await self._return([assignment], SHUT_DOWN)
            else:
                self._meter.add(metrics.REJECTIONS, "start")
                log.warning("start refused", run=active.claimed.run, fence=active.claimed.fence)
            # A lock that cannot be released must expire.
            active.recorded = True
            self._unrecorded -= 1
            self.wake.set()
            await self._recorder.release(active.job_lock, self.ahead())
        finally:
            self._active.pop(_key(assignment), None)
            self.ended += 1
            if not self._active:
                self._idle.set()

    def _free_slot(self, active: Active) -> None:
        self._occupied -= 1
        self._unrecorded += 1
        self._had_room_at = self._clock.monotonic()
        if active.started_at is not None:
            self._throughput.ended(self._clock.monotonic() - active.began)
        self.wake.set()

    async def _refusal(self, assignment: Assignment) -> AttemptResult | None:
        """Why the run is deferred or declined, or None. Neither uses up an attempt."""
        if self._heartbeat.memory >= MEMORY_LIMIT:
            return AttemptResult(Outcome.DEFERRED, error=f"memory at {self._heartbeat.memory:.0%}")
        if self._declines is not None:
            reason = await self._declines(assignment, self._node)
            if reason is not None:
                return AttemptResult(Outcome.DECLINED, error=reason)
        return None

    async def _execute(self, active: Active) -> AttemptResult:
        """Run the executor to its result; a stopped attempt has the result that it was stopped with."""
        self._observe_start(active)
        if (stop := active.stop_result()) is not None:
            return stop
        task = active.task
        assert task is not None
        active.executing = True
        try:
            attempt_result = await self._executor.run(active.assignment, self._node, active.log.add)
        except asyncio.CancelledError:
            attempt_result = active.stop_result() or AttemptResult(
                Outcome.INTERRUPTED, error="the handler was cancelled"
            )
        finally:
            active.executing = False
            stop = active.stop_result()
            if stop is not None:
                # Only the handler was to be cancelled. What follows, the recording, must not be.
                task.uncancel()
        if task.cancelling():
            # The process ends, and its handlers with it.
            raise asyncio.CancelledError
        # A handler that succeeded in spite of a cancellation has succeeded; one that failed is cancelled, not retried.
        failed = attempt_result.outcome in (Outcome.ERROR, Outcome.TIMEOUT)
        return stop if stop is not None and failed and stop.outcome is Outcome.CANCELLED else attempt_result

    def _stop(self, active: Active, attempt_result: AttemptResult) -> None:
        """Cancel the handler, but never the recording of its result. The first reason counts."""
        if active.stop is not None:
            return
        active.stop = attempt_result
        if active.executing and active.task is not None:
            active.task.cancel()

    def _observe_start(self, active: Active) -> None:
        """Observe how late the run starts, and have the start recorded after `start_mark` seconds, unless it is."""
        active.started_at = active.started_at or self._clock.now()
        if active.assignment.attempt == 1:
            fire = fire_of(active.claimed.run)
            if fire is not None:
                late = (active.started_at - fire).total_seconds()
                self._meter.observe(metrics.START_LATENESS, max(0.0, late))
        if not active.marked and self._marking is None:
            self._marking = self._create_task(self._mark_starts(), "mark starts")

    async def _mark_starts(self) -> None:
        """Record the starts that are older than half of `start_mark`, until no unrecorded start is left. Most runs have
        ended by then.
        """
        try:
            while unmarked := [active for active in self._active.values() if active.executing and not active.marked]:
                pause = self._timings.start_mark / 2
                before = self._clock.monotonic() - pause
                old = [active for active in unmarked if active.began <= before]
                await asyncio.gather(*map(self._mark, old), self._clock.sleep(pause))
        finally:
            self._marking = None

    async def _mark(self, active: Active) -> None:
        if await self._mark_start(active) is False and active.executing:
            self._meter.add(metrics.REJECTIONS, "start")
            self._supersede(active)

    async def _mark_start(self, active: Active) -> bool | None:
        started_at = active.started_at or self._clock.now()
        lease = timedelta(seconds=self._timings.run_lease)
        change = transitions.start(active.claimed, active.start_id, started_at, lease)
        won = await self._recorder.start(RunWrite(change, pending_of(active.assignment)))
        active.marked, active.started_at = bool(won), started_at
        return won

    async def _record(self, active: Active, attempt_result: AttemptResult) -> None:
        pending = None if active.marked else pending_of(active.assignment)
        now = self._clock.now()
        finish = Finish.of(active.claimed, attempt_result, next(self._ids), active.started_at, now, pending)
        await active.log.end()
        self._recorder.lines.hurry()
        if active.superseded:
            log.warning(
                "run superseded", run=active.claimed.run, fence=active.claimed.fence, outcome=attempt_result.outcome
            )
            # After a duplicated item, the other attempt may have this very fence: a `finish` would then end its run.
            await self._recorder.keep_late(finish)
            return
        await self._recorder.finish(finish, active.log.last_stored)

    def _stop_if_held(self, lease: Lease) -> None:
        active = self._active.get((lease.claimed.run, lease.claimed.fence))
        # It may have ended while the reply was on its way.
        if active is not None and not active.superseded:
            self._supersede(active)

    def _supersede(self, active: Active) -> None:
        active.superseded = True
        self._stop(active, AttemptResult(Outcome.INTERRUPTED, error="another attempt has a higher fence"))

    def _claimed(self, assignment: Assignment) -> ClaimedRun:
        return ClaimedRun(
            run=assignment.run,
            fence=assignment.fence,
            node=self._node,
            attempt=assignment.attempt,
            retry=assignment.job.retry,
            delivery=assignment.job.delivery,
        )


def _job_lock(assignment: Assignment) -> JobLock:
    return JobLock(
        job=assignment.job.name,
        slot=assignment.run if assignment.job.overlap is Overlap.ALLOW else "",
        run=assignment.run,
        fence=assignment.fence,
    )


def _key(assignment: Assignment) -> tuple[str, int]:
    return assignment.run, assignment.fence
