"""The worker: takes runs for its free slots, executes them, records their outcomes and releases their job locks.

Rules: it takes and starts nothing without a valid heartbeat. An incarnation either takes a (run, fence) once or gives
it back, never both. It stops a run whose fence is lost or whose cancellation was requested. A slot is free when the
handler has ended, but with MOST_UNRECORDED outcomes that are neither in MongoDB nor in the spool it takes nothing. A
node that takes no work gives its queue back, and so does one whose slots stay full. It declines runs that it cannot
execute.

A run with limits acquires its permits before its start is recorded, and releases them after its outcome is. Once it may
have lost its lease, its handler is stopped, because another node may then start the run.

A run that was dispatched before its instant waits in the local queue, where it uses no slot. It is returned if it
cannot start in time, and dropped if it was cancelled or an edit has withdrawn it.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections import OrderedDict
from collections.abc import Coroutine, Iterable, Sequence
from datetime import datetime, timedelta

import structlog
from structlog.contextvars import bind_contextvars

from cronflow.domain import metrics, transitions
from cronflow.domain.cluster import node_name
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.job import Delivery, StartGuard
from cronflow.domain.placement import Waiting
from cronflow.domain.run import DEAD, AttemptResult, Outcome, fire_of
from cronflow.node.heartbeat import Heartbeat
from cronflow.node.role_loop import SHORTEST_PAUSE_S, Wake, end_tasks
from cronflow.node.timings import Timings
from cronflow.ports import (
    UNMETERED,
    Assignment,
    Bus,
    Clock,
    Executor,
    Meter,
    Queue,
    RunStore,
    Taken,
)
from cronflow.usecases.job_breakers import JobBreakers
from cronflow.usecases.pause_after import PauseAfterFailures
from cronflow.worker.active import Active, claimed_of, key_of
from cronflow.worker.admission import Admission
from cronflow.worker.attempt_log import LINES_PER_RUN, AttemptLog
from cronflow.worker.cancellations import Cancellations
from cronflow.worker.leases import STOP_TAKES_S, Lease
from cronflow.worker.local_queue import LocalQueue, QueuedRun
from cronflow.worker.permits import Permits
from cronflow.worker.recorder import Recorder
from cronflow.worker.returns import Returns
from cronflow.worker.run_writer import pending_of
from cronflow.worker.spool import Finish
from cronflow.worker.starts import Starts
from cronflow.worker.throughput import AHEAD_S, Throughput
from cronflow.worker.unexpected import failed_unexpectedly

PUT_BACK_POLL_S = 0.1
EARLY_AT_ONCE = 200
"""How many more items than free slots are taken while some must wait for their instant."""
BLOCKED_POLL_S = 0.25
IDLE_S = 60.0
MOST_UNRECORDED = 500
REMEMBERED_TAKES = 100_000
SHUT_DOWN = "its node was shut down"
NO_MORE_WORK = "its node accepts no more runs"
NO_SLOT = "no slot of its node became free"
LATE_START = timedelta(milliseconds=100)
"""How late the first attempt of a run starts if its times on the node are recorded."""
TOO_LATE = "its node could not start the run in time"
UNRENEWED = "its node could not renew its lease"

log = structlog.get_logger("cronflow.node")


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
        permits: Permits,
        node: str,
        slots: int,
        lines_per_run: int = LINES_PER_RUN,
        meter: Meter = UNMETERED,
        breakers: JobBreakers | None = None,
        pause_after: PauseAfterFailures | None = None,
    ) -> None:
        self._permits = permits
        self._queue, self._runs, self._bus = queue, runs, bus
        self._recorder = recorder
        self._heartbeat = heartbeat
        self._executor = executor
        self._admission = Admission(heartbeat, executor, permits, clock, node)
        self._clock = clock
        self._timings = timings
        self._node = node
        self._slots = slots
        self._lines_per_run = lines_per_run
        self._meter = meter
        self._breakers, self._pause_after = breakers, pause_after
        self._active: dict[tuple[str, int], Active] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._taken: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._occupied = self._unrecorded = 0
        self._full_until = clock.monotonic()
        self._waiting = LocalQueue()
        self._early_lately = False
        self._throughput = Throughput(slots)
        self._had_room_at = clock.monotonic()
        self._starts = Starts(recorder, clock, timings, self._active, self._superseded_at_start, self._create_task)
        # Unique: a random part for this process, and a number.
        self._ids = map(f"{secrets.token_hex(8)}{{:08x}}".format, itertools.count())
        self._returns = Returns(
            recorder, bus, clock, node, self._ids, self._create_task, ahead=self.ahead, done=self._set_idle
        )
        self._stopping = False
        self.paused = False
        self._taking = asyncio.Lock()
        self._idle = asyncio.Event()
        self._idle.set()
        self._group: asyncio.TaskGroup | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.ended = 0
        self.wake = Wake()
        self.cancellations = Cancellations(
            queue,
            runs,
            clock,
            timings,
            active=self._active,
            waiting=self._waiting,
            stop=self._stop,
            superseded=self._supersede,
            drop=self._returns.let_go,
        )
        self.instants = Wake()
        self._forgot_at = clock.monotonic()

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
            self._start_waiting()
            free = self._slots - self._occupied
            if free <= 0:
                return await self._without_room()
            self._had_room_at = self._clock.monotonic()
            free = min(free, MOST_UNRECORDED - self._unrecorded)
            if free <= 0 or not self._heartbeat.valid or not self._recorder.accepts:
                return self._timings.take_poll
            most = free + EARLY_AT_ONCE if self._early_lately else free
            asked_at = self._clock.monotonic()
            taken = await self._queue.take(self._node, most)
            if taken.dropped:
                log.info("items dropped", count=taken.dropped)
                self._throughput.dropped(taken.dropped)
            if taken.put_back:
                self._meter.add(metrics.REJECTIONS, "take", by=taken.put_back)
            # Their leader was deposed. The next leader would only look at them when their acknowledgement is overdue.
            await self._hand_back(taken.outdated, "its leader was deposed before the run was claimed")
            if not self._takes_work():
                # The node was drained or paused while the reply was on its way.
                await self._hand_back(taken.assignments)
                for assignment in taken.assignments:
                    await self._recorder.release(assignment.job_lock, 0)
                return 0.0
            self._receive(taken, asked_at)
            # The list may have more. If it paused, items would become too old faster than it drops them.
            if len(taken.assignments) == most or taken.dropped or taken.outdated:
                return 0.0
            return PUT_BACK_POLL_S if taken.put_back else self._timings.take_poll

    def _receive(self, taken: Taken, asked_at: float) -> None:
        """Begin the runs that were taken, or hold them until their instant."""
        newest: dict[str, int] = {}
        for assignment in taken.assignments:
            newest[assignment.run] = max(assignment.fence, newest.get(assignment.run, 0))
        early = False
        for assignment, seconds in zip(taken.assignments, taken.start_within, strict=True):
            early = early or assignment.not_before is not None
            # An edit may requeue a run, and the leader place it here again, while the first item is still queued: only
            # the newest fence counts.
            if assignment.fence == newest[assignment.run] and self._is_new(assignment):
                self._begin_or_hold(assignment, asked_at + seconds)
        if early:
            self.instants.set()
            # It may have been withdrawn while the reply was on its way.
            self.cancellations.wake.set()
        if taken.assignments:
            self._early_lately = early

    def _begin_or_hold(self, assignment: Assignment, start_by: float) -> None:
        early = assignment.not_before is not None and assignment.not_before > self._clock.now()
        if early or self._occupied >= self._slots:
            self._waiting.add(QueuedRun(assignment, start_by, self._clock.monotonic()))
        else:
            self._begin(assignment, start_by, self._clock.monotonic())

    async def start_due(self) -> float:
        """Start the waiting runs whose instant has come. Returns the seconds until the next instant."""
        self._start_waiting()
        self._returns.let_go(self._waiting.remove_late(self._clock.monotonic()), TOO_LATE)
        instant = self._waiting.next_instant()
        if instant is None:
            return IDLE_S
        left = (instant - self._clock.now()).total_seconds()
        # At its instant, the first slot that is freed starts it.
        return max(left, SHORTEST_PAUSE_S) if left > 0 else BLOCKED_POLL_S

    def _start_waiting(self) -> None:
        """Start what waits and is due, as far as slots are free."""
        while self._waiting and self._may_start():
            queued = self._waiting.pop_due(self._clock.now())
            if queued is None:
                return
            self._had_room_at = self._clock.monotonic()
            self._begin(queued.assignment, queued.start_by, queued.taken)

    def _may_start(self) -> bool:
        room = self._occupied < self._slots and self._unrecorded < MOST_UNRECORDED
        return room and self._takes_work() and self._heartbeat.valid and self._recorder.accepts

    async def _without_room(self) -> float:
        """Give the queue back if no slot was freed for a second: another node may start these runs sooner. Returns the
        pause of the role.
        """
        full_for = self._clock.monotonic() - self._had_room_at
        if full_for < AHEAD_S:
            return max(AHEAD_S - full_for, SHORTEST_PAUSE_S)
        if self._recorder.accepts:
            self._returns.let_go(self._waiting.remove_due(self._clock.now()), NO_SLOT)
            await self._give_list_back(NO_SLOT)
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
        return self._throughput.ahead(self._long_runs(self._active.values()))

    def accepts_early(self) -> int:
        """How many runs this node accepts beyond its slots before their instant. May be called from any thread."""
        if not self._takes_work() or not self._recorder.accepts:
            return 0
        return self._throughput.early(self._long_runs(list(self._active.values())))

    def _long_runs(self, active_runs: Iterable[Active]) -> int:
        before, long = self._clock.monotonic() - AHEAD_S, 0
        for active in active_runs:
            if active.began > before:
                break
            long += active.executing
        return long

    def leases(self) -> list[Lease]:
        """The runs that this node holds now, until their outcomes are recorded. May be called from any thread."""
        # First those that wait: a run that begins in between is then in both.
        waiting = self._waiting.all()
        held = [active.lease() for active in list(self._active.values()) if not active.recorded]
        return held + [queued.lease(self._node) for queued in waiting]

    def _takes_work(self) -> bool:
        return not (self._stopping or self.paused)

    def lost(self, lease: Lease) -> None:
        """Stop a run whose fence belongs to another attempt. May be called from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop_if_held, lease)

    def unrenewed(self, lease: Lease) -> None:
        """Stop a run with limits whose lease expires soon; it is retried. May be called from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop_unrenewed, lease)

    async def give_back(self, why: str = NO_MORE_WORK) -> None:
        """Return the runs that have not begun, here and in the node's list; the leader places them elsewhere."""
        self._returns.let_go(self._waiting.clear(), why)
        await self._give_list_back(why)

    async def _give_list_back(self, why: str) -> None:
        await self._hand_back(await self._queue.give_back(self._node), why)

    async def _hand_back(self, assignments: Sequence[Assignment], why: str = NO_MORE_WORK) -> None:
        # A duplicate of an item that runs here, or that was given back already, is ignored.
        assignments = [assignment for assignment in assignments if self._is_new(assignment)]
        if assignments:
            log.info("given back", count=len(assignments))
            await self._returns.give_back(assignments, why)

    def _set_idle(self) -> None:
        if self._active or self._returns.busy:
            self._idle.clear()
        else:
            self._idle.set()

    def pause(self, paused: bool) -> None:
        self.paused = paused
        self.wake.set()

    def interrupt(self, why: str) -> int:
        """Stop the running jobs that may start again elsewhere, and give them back. Returns how many."""
        stopped = 0
        for active in list(self._active.values()):
            if active.claimed.delivery is Delivery.AT_LEAST_ONCE and active.stop is None and active.executing:
                self._stop(active, AttemptResult(Outcome.DRAINED, error=why))
                stopped += 1
        return stopped

    async def drain(self, seconds: float) -> None:
        """Take nothing more. Wait for running jobs, then stop them and give them back, and wait no longer for servers
        that are away.
        """
        self._stopping = True
        self.wake.set()
        async with self._taking:
            # A `take` that was under way has finished, and its runs were given back.
            self._returns.let_go(self._waiting.clear(), NO_MORE_WORK)
        if not await self._clock.wait(self._idle, seconds):
            log.warning("drain timeout", still_running=len(self._active))
            self._recorder.give_up()
            for active in list(self._active.values()):
                self._stop(active, AttemptResult(Outcome.DRAINED, error=SHUT_DOWN))
            await self._idle.wait()

    async def end(self) -> None:
        """End what is left after `drain`, also attempts that could not be stopped."""
        if self._active:
            log.error("attempts abandoned", runs=sorted(active.claimed.run for active in self._active.values()))
        await end_tasks(self._tasks)

    # ------------------------------------------------------------------------------------------------ one attempt

    def _is_new(self, assignment: Assignment) -> bool:
        """Whether this incarnation sees the (run, fence) for the first time."""
        key = key_of(assignment)
        if key in self._taken:
            return False
        self._taken[key] = None
        if len(self._taken) > REMEMBERED_TAKES:
            self._taken.popitem(last=False)
        return True

    def _begin(self, assignment: Assignment, start_by: float, taken: float) -> None:
        now = self._clock.monotonic()
        active = Active(
            assignment=assignment,
            claimed=claimed_of(assignment, self._node, next(self._ids)),
            job_lock=assignment.job_lock,
            log=AttemptLog(self._recorder.lines, assignment, node_name(self._node), self._clock, self._lines_per_run),
            began=now,
            until=now + assignment.job.timeout.total_seconds() + STOP_TAKES_S,
            start_by=start_by,
            taken=taken,
            slot=max(taken, self._full_until),
        )
        self._active[key_of(assignment)] = active
        self._occupied += 1
        self._set_idle()
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
        if assignment.chain is not None:
            bind_contextvars(chain=assignment.chain.id)
        attempt_result: AttemptResult | None = None
        recorded: bool | None = None
        why = SHUT_DOWN
        waiting: Waiting | None = None
        try:
            try:
                refusal = await self._admission.refusal(active)
                if refusal is not None:
                    attempt_result, waiting = refusal.result, refusal.waiting
                    why = refusal.why or SHUT_DOWN
                elif self._clock.monotonic() > active.start_by:
                    # An edit since the leader read the job may have been acknowledged.
                    why = TOO_LATE
                elif assignment.job.start_guard is StartGuard.REDIS or (recorded := await self._starts.record(active)):
                    attempt_result = await self._execute(active)
            finally:
                self._free_slot(active)
            # Not if this task was cancelled: then the process ends.
            self._start_waiting()
            left = False
            if attempt_result is not None:
                left = await self._record(active, attempt_result)
                if refusal is not None:
                    await self._returns.notify_leader()
            elif recorded is None:
                left = await self._returns.give_back([assignment], why, active.claimed.start_id, waiting)
            else:
                self._meter.add(metrics.REJECTIONS, "start")
                log.warning("start refused", run=active.claimed.run, fence=active.claimed.fence)
            if left and active.permits.uses:
                # Otherwise another holder of this fence may have the permits.
                self._permits.release(active.permits)
            # A lock that cannot be released must expire.
            active.recorded = True
            self._unrecorded -= 1
            self._start_waiting()
            self.wake.set()
            await self._recorder.release(active.job_lock, self.ahead())
        finally:
            self._active.pop(key_of(assignment), None)
            self.ended += 1
            self._set_idle()

    def _free_slot(self, active: Active) -> None:
        if self._occupied >= self._slots:
            self._full_until = self._clock.monotonic()
        self._occupied -= 1
        self._unrecorded += 1
        self._had_room_at = self._clock.monotonic()
        if active.started_at is not None:
            self._throughput.ended(self._clock.monotonic() - active.began)
        self.wake.set()

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
        except Exception as error:
            attempt_result = failed_unexpectedly(active, error)
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
        """Observe how late the run starts, and have the start recorded soon, unless it is."""
        now = self._clock.now()
        active.started_at = active.started_at or now
        active.times = active.times_at(now, self._clock.monotonic(), LATE_START)
        if active.assignment.attempt == 1:
            fire = fire_of(active.claimed.run)
            if fire is not None:
                late = (active.started_at - fire).total_seconds()
                self._meter.observe(metrics.START_LATENESS, max(0.0, late))
        self._starts.expect(active)

    async def _record(self, active: Active, attempt_result: AttemptResult) -> bool:
        """Returns whether the run was changed, now or by what is in the spool."""
        pending = None if active.marked else pending_of(active.assignment)
        now = self._clock.now()
        stopped = await self._stopped(active, attempt_result, now)
        finish = Finish.of(
            active.claimed, attempt_result, next(self._ids), active.started_at, now, pending, stopped, active.times
        )
        await active.log.end()
        self._recorder.lines.hurry()
        if active.superseded:
            log.warning(
                "run superseded", run=active.claimed.run, fence=active.claimed.fence, outcome=attempt_result.outcome
            )
            # After a duplicated item, the other attempt may have this very fence: a `finish` would then end its run.
            await self._recorder.keep_late(finish)
            return False
        in_time = await self._recorder.finish(finish, active.log.last_stored)
        job = active.assignment.job
        if in_time and finish.change.target in DEAD and job.pause_after is not None and self._pause_after is not None:
            await self._pause_after.check([job.name])
        return in_time

    async def _stopped(self, active: Active, attempt_result: AttemptResult, now: datetime) -> str | None:
        """Why the job's circuit breaker forbids a retry, or None; also while it cannot be read: the leader looks at it
        again before the retry.
        """
        job, claimed = active.assignment.job, active.claimed
        if job.breaker is None or self._breakers is None or active.superseded:
            return None
        attempt = transitions.ended_attempt(claimed, attempt_result, active.started_at, now)
        try:
            return await self._breakers.observe(job, attempt)
        except BackendUnavailable as error:
            log.warning("circuit breaker not read", run=claimed.run, job=job.name, reason=error.reason)
            return None

    def _stop_if_held(self, lease: Lease) -> None:
        active = self._active.get((lease.claimed.run, lease.claimed.fence))
        # It may have ended while the reply was on its way.
        if active is not None and not active.superseded:
            self._supersede(active)

    def _stop_unrenewed(self, lease: Lease) -> None:
        active = self._active.get((lease.claimed.run, lease.claimed.fence))
        if active is not None:
            self._stop(active, AttemptResult(Outcome.DRAINED, error=UNRENEWED))

    def _superseded_at_start(self, active: Active) -> None:
        self._meter.add(metrics.REJECTIONS, "start")
        self._supersede(active)

    def _supersede(self, active: Active) -> None:
        active.superseded = True
        self._stop(active, AttemptResult(Outcome.INTERRUPTED, error="another attempt has a higher fence"))
