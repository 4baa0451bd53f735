"""Runs Python functions: coroutine functions in the event loop, plain functions in threads, or each in a child process.

Only functions that the node allows are called: those of its Apps, and those defined in a module of ALLOW_PYTHON. A
handler that does not stop at its timeout blocks nothing: it is abandoned with an error in the log. A thread cannot be
killed, so it occupies its slot until it ends. Output of `print` becomes log lines of its run (see `prints`).
"""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import inspect
import threading
import time
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import replace
from functools import lru_cache, partial
from queue import SimpleQueue
from types import TracebackType
from typing import Self

from cronflow.app import App
from cronflow.context import Context, bind
from cronflow.domain.capabilities import MISSING
from cronflow.domain.durations import format_duration
from cronflow.domain.errors import PermanentError
from cronflow.domain.job import PythonTarget
from cronflow.domain.run import AttemptResult, Outcome, ResourceUse
from cronflow.executors.handlers import failed, finished
from cronflow.executors.prints import captured
from cronflow.executors.process import ChildProcesses
from cronflow.ports import Assignment, LineSink

MOST_WAITING = 1000
"""Lines of a thread that wait for the event loop. A thread that writes faster waits for it too."""

Function = Callable[..., object]


class PythonTargets:
    """The functions that may be called."""

    def __init__(self, apps: Iterable[App] = (), allowed_modules: Iterable[str] = ()) -> None:
        """`allowed_modules` allow the functions defined in these modules and in their submodules."""
        self._known = {ref: function for app in apps for ref, function in app.functions.items()}
        self._allowed = tuple(allowed_modules)

    def known(self, ref: str) -> Function | None:
        """The function, if it belongs to an App or was resolved before."""
        return self._known.get(ref)

    def resolve(self, ref: str) -> Function:
        """Import the function `module:qualname`; call this outside the event loop.

        Raises PermanentError if it is not allowed or does not exist, and whatever the import raises.
        """
        if (function := self._known.get(ref)) is None:
            function = self._known[ref] = self._import(ref)
        return function

    def _import(self, ref: str) -> Function:
        name, _, qualname = ref.partition(":")
        if not self._allows(name):
            raise PermanentError(
                f"{MISSING}{ref}: no app of the node has it and its module is not in ALLOW_PYTHON;"
                f" start the node with --app, or add {name} to ALLOW_PYTHON"
            )
        try:
            found: object = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if not error.name or not f"{name}.".startswith(f"{error.name}."):
                raise
            raise PermanentError(f"{MISSING}{ref}: there is no module {error.name}") from None
        except SystemExit:
            raise PermanentError(f"{MISSING}{ref}: importing {name} ends the process") from None
        for part in qualname.split("."):
            found = getattr(found, part, None)
        if not inspect.isroutine(found):
            raise PermanentError(f"{MISSING}{ref}: {name} has no function {qualname}")
        # An allowed module exposes everything that it imports, for example os.system.
        origin = getattr(found, "__module__", None) or "an unknown module"
        if not self._allows(origin):
            raise PermanentError(f"{MISSING}{ref}: it comes from {origin}, not in ALLOW_PYTHON")
        return found

    def _allows(self, module: str) -> bool:
        return any(f"{module}.".startswith(f"{allowed}.") for allowed in self._allowed)


class PythonExecutor:
    """Runs PythonTargets. `threads` limits the plain functions that run concurrently, including abandoned ones;
    `grace_s` is how long a handler may continue after it was asked to stop.
    """

    def __init__(self, targets: PythonTargets, *, threads: int = 16, grace_s: float = 10.0) -> None:
        self._targets = targets
        self._grace_s = grace_s
        self._threads = _Threads(threads)
        self._processes = ChildProcesses(grace_s=grace_s)
        self._left_behind: set[asyncio.Future[AttemptResult]] = set()

    @property
    def busy_threads(self) -> int:
        """Threads that run a handler now, including abandoned ones."""
        return self._threads.busy

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.close()
        for handler in self._left_behind:
            handler.cancel()
        await self._processes.close()

    async def declines(self, assignment: Assignment, node: str) -> str | None:
        """See SelectiveExecutor: the function is not allowed or does not exist on this node."""
        target = assignment.job.target
        assert isinstance(target, PythonTarget)
        if self._targets.known(target.ref) is not None:
            return None
        try:
            await asyncio.to_thread(self._targets.resolve, target.ref)
        except PermanentError as error:
            return str(error)
        except Exception:
            # The module exists but is broken; the attempt reports its traceback.
            return None
        return None

    async def run(self, assignment: Assignment, node: str, log: LineSink) -> AttemptResult:
        """See Executor. The failure is permanent if the function is not allowed, does not exist or does not accept the
        arguments, and if the result is too large or not JSON: a retry would repeat the work for nothing.
        """
        target = assignment.job.target
        assert isinstance(target, PythonTarget)
        stopping = _Stop()
        lines = _Lines(log)
        # The function may change its arguments, and other runs have the same definition.
        args = deepcopy({**target.args, **assignment.args})
        context = Context(
            run_id=assignment.run,
            job=assignment.job.name,
            fire_at=assignment.fire_at,
            attempt=assignment.attempt,
            fence=assignment.fence,
            node=node,
            chain_id=assignment.chain_id,
            args=args,
            sink=lines,
            cancelled=stopping.look,
            monotonic=asyncio.get_running_loop().time,
            shard=assignment.shard,
        )
        try:
            function = self._targets.known(target.ref)
            if function is None:
                function = await asyncio.to_thread(self._targets.resolve, target.ref)
            bound = bind(function, context, args)
        except Exception as error:
            return failed(error)
        if target.process:
            return await self._processes.run(assignment, node, args, log)
        call = _Call(bound, stopping, lines)
        try:
            return await self._attempt(assignment, call, context, log)
        finally:
            lines.close()

    async def _attempt(self, assignment: Assignment, call: _Call, context: Context, log: LineSink) -> AttemptResult:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + assignment.job.timeout.total_seconds()
        if call.is_async:
            # A TaskGroup would wait for a handler that does not stop, so `_settle` owns this task.
            handler: asyncio.Future[AttemptResult] = loop.create_task(
                call.in_loop(), name=f"attempt of {assignment.run}"
            )
        else:
            try:
                async with asyncio.timeout_at(deadline):
                    handler = await self._threads.start(call.in_thread)
            except TimeoutError:
                limit = format_duration(assignment.job.timeout)
                what = f"no thread was free within {limit}: all {self._threads.size} are running handlers"
                return AttemptResult(Outcome.TIMEOUT, error=f"{what}, possibly by abandoned handlers")
        try:
            # Most short handlers end in their first step, and need no timer.
            await asyncio.sleep(0)
            if not handler.done():
                await asyncio.wait({handler}, timeout=deadline - loop.time())
        except asyncio.CancelledError:
            if handler.done():
                return handler.result()
            await self._settle(handler, call, context, log)
            # A function that returned without reading `ctx.cancelled` has completed its work.
            unaware = not call.is_async and not call.stopping.was_seen
            if unaware and handler.done() and handler.result().outcome is Outcome.OK:
                return handler.result()
            raise
        if handler.done():
            return handler.result()
        await self._settle(handler, call, context, log)
        return AttemptResult(Outcome.TIMEOUT, error=f"timed out after {format_duration(assignment.job.timeout)}")

    async def _settle(
        self, handler: asyncio.Future[AttemptResult], call: _Call, context: Context, log: LineSink
    ) -> None:
        """Ask the handler to stop and wait for the grace time; then abandon it with a line in the log."""
        call.stopping.set()
        if call.is_async:
            handler.cancel()
        try:
            await asyncio.wait({handler}, timeout=self._grace_s)
        finally:
            if not handler.done():
                self._left_behind.add(handler)
                handler.add_done_callback(self._left_behind.discard)
                what = "swallows its cancellation" if call.is_async else "does not check ctx.cancelled"
                silent = "" if context.silent_s is None else f", its last heartbeat was {context.silent_s:.1f} s ago"
                log("error", f"abandoned the handler, which is still running: it {what}{silent}")


class _Stop:
    """A request to stop, and whether the handler has seen it."""

    def __init__(self) -> None:
        self._wished = self.was_seen = False

    def set(self) -> None:
        self._wished = True

    def look(self) -> bool:
        """May be called from any thread."""
        self.was_seen = self.was_seen or self._wished
        return self._wished


class _Call:
    """One call of a handler. Its exceptions become an AttemptResult in the thread or task that runs it."""

    def __init__(self, bound: partial[object], stopping: _Stop, lines: LineSink) -> None:
        self.is_async = _is_async(bound.func)
        self.stopping = stopping
        self._bound = bound
        self._lines = lines

    def in_thread(self) -> AttemptResult:
        """The thread runs nothing else meanwhile, so its CPU time is that of the handler. Memory is shared by all."""
        before = time.thread_time()
        try:
            with captured(self._lines):
                ended = finished(self._bound())
        except BaseException as error:
            ended = failed(error)
        return replace(ended, used=ResourceUse(time.thread_time() - before))

    async def in_loop(self) -> AttemptResult:
        try:
            with captured(self._lines):
                return finished(await self._bound())  # type: ignore[misc]
        except BaseException as error:
            # A SystemExit that leaves the task would end the whole node. A cancellation has no further effect here; an
            # unrequested one is a failure of the handler.
            return failed(error)


@lru_cache(maxsize=1024)
def _is_async(function: Function) -> bool:
    return inspect.iscoroutinefunction(function)


class _Threads:
    """A pool of at most `size` daemon threads. concurrent.futures joins its threads at exit, so one handler that never
    ends would keep the process alive.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.busy = 0
        self._free = asyncio.Semaphore(size)
        self._idle = 0
        self._closed = False
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    async def start(self, attempt: Callable[[], AttemptResult]) -> asyncio.Future[AttemptResult]:
        """Run the attempt once a thread is free. The future completes with the attempt."""
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[AttemptResult] = loop.create_future()

        def end(attempt_result: AttemptResult) -> None:
            self.busy -= 1
            self._free.release()
            if self._closed:
                self._work.put(None)
            else:
                self._idle += 1
            if not ended.done():
                ended.set_result(attempt_result)

        def work() -> None:
            attempt_result = attempt()
            try:
                loop.call_soon_threadsafe(end, attempt_result)
            except RuntimeError:
                pass  # The loop is closed: the process is exiting and does not wait for this handler.

        if self._idle:
            self._idle -= 1
        else:
            try:
                threading.Thread(target=self._serve, name="cronflow-handler", daemon=True).start()
            except RuntimeError as refused:
                self._free.release()
                ended.set_result(failed(refused))
                return ended
        self.busy += 1
        self._work.put(partial(contextvars.copy_context().run, work))
        return ended

    def close(self) -> None:
        """End idle threads now and busy threads when they become free."""
        self._closed = True
        for _ in range(self._idle):
            self._work.put(None)
        self._idle = 0

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            work()


class _Lines:
    """Passes a handler's log lines from any thread to the event loop while the attempt lasts."""

    # Shared, because few attempts write lines from threads.
    _change = threading.Condition()

    def __init__(self, log: LineSink) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._log: LineSink | None = log
        self._waiting: list[tuple[str, str]] = []

    def __call__(self, level: str, text: str) -> None:
        if threading.get_ident() == self._thread:
            self._write(level, text)
            return
        with self._change:
            while len(self._waiting) >= MOST_WAITING and self._log is not None and self._change.wait(1.0):
                continue
            self._waiting.append((level, text))
            if len(self._waiting) > 1:
                return
        try:
            self._loop.call_soon_threadsafe(self._take)
        except RuntimeError:
            pass  # The loop is closed; the attempt is over.

    def close(self) -> None:
        """Drop further lines of an abandoned handler."""
        self._log = None

    def _take(self) -> None:
        with self._change:
            waiting, self._waiting = self._waiting, []
            self._change.notify_all()
        for level, text in waiting:
            self._write(level, text)

    def _write(self, level: str, text: str) -> None:
        if self._log is not None:
            self._log(level, text)
