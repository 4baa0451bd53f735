"""The executor for Python targets of a node with handler processes.

Each attempt goes to the process that runs the fewest. A process that ends is started again, after a pause that grows
while it keeps ending. A function with `process` gets a child process of the node as always, so it does not depend on a
handler process; those only check that it exists and is allowed. User code is never imported here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import structlog

from cronflow.domain import metrics
from cronflow.domain.events import HandlerProcessEnded
from cronflow.domain.job import PythonTarget
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.executors.pool.messages import HandlerOptions
from cronflow.executors.pool.process import HandlerProcess
from cronflow.executors.process import ChildProcesses
from cronflow.executors.watcher import Watcher
from cronflow.ports import UNMETERED, Assignment, EventSink, LineSink, Meter, discard_event

CHECK_S = 0.5
FIND_POLL_S = 0.05
FIND_WITHIN_S = 5.0
RESOLVE_WITHIN_S = 30.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
STEADY_S = 60.0
"""A process that has run for this long is started again after the first pause."""

log = structlog.get_logger("cronflow.node")


@asynccontextmanager
async def handler_pool(
    command: Sequence[str], options: HandlerOptions, count: int, meter: Meter = UNMETERED
) -> AsyncIterator[HandlerPool]:
    """Start `count` processes with this command, and end them. Raises InvalidInput if they cannot load the Apps."""
    pool = HandlerPool(command, options, count, meter)
    try:
        await pool.start()
        yield pool
    finally:
        await pool.close()


class HandlerPool:
    """See SelectiveExecutor. `modules` are those of the Apps; `emit` may be set later."""

    def __init__(self, command: Sequence[str], options: HandlerOptions, count: int, meter: Meter = UNMETERED) -> None:
        self._command = command
        self._options = options
        self._count = count
        self._meter = meter
        self._watcher = Watcher()
        self._own_processes = ChildProcesses(grace_s=options.grace_s)
        self._processes: dict[int, HandlerProcess] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._known: set[str] = set()
        self.modules: tuple[str, ...] = ()
        self.emit: EventSink = discard_event
        meter.read(metrics.HANDLER_PROCESSES, lambda: float(sum(one.responds for one in self.processes)))

    @property
    def processes(self) -> list[HandlerProcess]:
        """The newest process of each place; one that has ended stays until the next one starts."""
        return list(self._processes.values())

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self.processes]

    async def start(self) -> None:
        for place in range(self._count):
            self._processes[place] = await self._start_one()
        for process in self._processes.values():
            self.modules = await asyncio.shield(process.modules)
        self._tasks = [asyncio.create_task(self._keep(place)) for place in range(self._count)]
        self._tasks.append(asyncio.create_task(self._check()))
        log.info("handler processes up", pids=self.pids)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await asyncio.gather(*(process.close() for process in self._processes.values()), self._own_processes.close())
        await asyncio.to_thread(self._watcher.close)

    # -------------------------------------------------------------------------------------------------- attempts

    async def declines(self, assignment: Assignment, node: str) -> str | None:
        """See SelectiveExecutor: the function is not allowed or does not exist on this node."""
        target = assignment.job.target
        assert isinstance(target, PythonTarget)
        if target.ref in self._known:
            return None
        refused = await self._resolve(target.ref)
        # A module that exists but is broken is no reason to decline; the attempt reports its traceback.
        return refused.error if refused is not None and refused.outcome is Outcome.PERMANENT else None

    async def run(self, assignment: Assignment, node: str, log: LineSink) -> AttemptResult:
        """See Executor. While no process responds, the attempt is deferred, so that another node can run it."""
        target = assignment.job.target
        assert isinstance(target, PythonTarget)
        if target.process:
            if target.ref not in self._known and (refused := await self._resolve(target.ref)) is not None:
                return refused
            return await self._own_processes.run(assignment, node, {**target.args, **assignment.args}, log)
        process = self._least_busy() or await self._wait_for_process()
        if process is None:
            return _no_process()
        return await process.run(assignment, node, log)

    async def _resolve(self, ref: str) -> AttemptResult | None:
        """None if the function exists and is allowed, otherwise the result of its attempts."""
        process = self._least_busy() or await self._wait_for_process()
        if process is None:
            return _no_process()
        try:
            async with asyncio.timeout(RESOLVE_WITHIN_S):
                refused = await process.resolve(ref)
        except TimeoutError:
            return _no_process()
        if refused is None:
            self._known.add(ref)
        return refused

    def _least_busy(self) -> HandlerProcess | None:
        able = (process for process in self._processes.values() if process.responds)
        return min(able, key=lambda process: process.running, default=None)

    async def _wait_for_process(self) -> HandlerProcess | None:
        try:
            async with asyncio.timeout(FIND_WITHIN_S):
                while (process := self._least_busy()) is None:
                    await asyncio.sleep(FIND_POLL_S)
                return process
        except TimeoutError:
            return None

    # -------------------------------------------------------------------------------------------- the processes

    async def _start_one(self) -> HandlerProcess:
        return await HandlerProcess.start(self._command, self._options, self._watcher)

    async def _check(self) -> None:
        while True:
            for process in self.processes:
                process.check()
            await asyncio.sleep(CHECK_S)

    async def _keep(self, place: int) -> None:
        """Start a process again whenever it ends."""
        loop = asyncio.get_running_loop()
        process, pause = self._processes[place], FIRST_PAUSE_S
        started_at = loop.time()
        while True:
            how = await asyncio.shield(process.ended)
            if loop.time() - started_at >= STEADY_S:
                pause = FIRST_PAUSE_S
            self._report(process, how, pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)
            started_at = loop.time()
            process = self._processes[place] = await self._restarted(place)

    async def _restarted(self, place: int) -> HandlerProcess:
        pause = FIRST_PAUSE_S
        while True:
            try:
                return await self._start_one()
            except OSError as error:
                log.error("handler process not started", reason=str(error), again_in_s=pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def _report(self, process: HandlerProcess, how: str, again_in_s: float) -> None:
        attempts = process.interrupted
        log.error("handler process ended", pid=process.pid, reason=how, attempts=attempts, again_in_s=again_in_s)
        self._meter.add(metrics.HANDLER_PROCESS_ENDS)
        self.emit(HandlerProcessEnded(self._options.node, process.pid, how, attempts))


def _no_process() -> AttemptResult:
    return AttemptResult(
        Outcome.DEFERRED,
        error="no handler process responds: a handler blocks each of them, or they are starting",
        delay=timedelta(seconds=1),
    )
