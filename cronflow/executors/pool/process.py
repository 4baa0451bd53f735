"""One handler process as its node sees it: its start, the attempts that run in it, and its end.

When it dies, for whatever reason, only its own attempts end with it. A process whose event loop is blocked does not
respond; it gets no further attempts until it does. It is killed when an attempt has not ended long after its timeout
or cancellation, because nothing else can stop it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import structlog

from cronflow.domain.durations import format_duration
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.executors.group import Group, signal_name
from cronflow.executors.pool.frames import BadFrame, FrameReader, FrameWriter, Message
from cronflow.executors.pool.messages import HandlerOptions, attempt_document, attempt_result_of
from cronflow.executors.watcher import Watcher
from cronflow.ports import Assignment, LineSink

SILENT_S = 1.0
"""A process that has not answered for this long does not respond."""
OVERDUE_S = 1.0
"""How much longer than its own grace time a process has to end an attempt."""
READ_REST_S = 1.0
CLOSE_S = 5.0

log = structlog.get_logger("cronflow.node")


@dataclass(slots=True, eq=False)
class SentAttempt:
    """An attempt that was sent to a handler process. Once it is over, `result` is None if it was cancelled there."""

    assignment: Assignment
    log: LineSink
    overdue_at: float
    ended: asyncio.Future[None]
    over: bool = False
    cancelled: bool = False
    result: AttemptResult | None = None

    def end(self, attempt_result: AttemptResult | None) -> None:
        self.over, self.result = True, attempt_result
        if not self.ended.done():
            self.ended.set_result(None)


class HandlerProcess(asyncio.Protocol):
    """Create it with `start`."""

    def __init__(self, process: subprocess.Popen[bytes], watcher: Watcher, grace_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = process
        self._group = Group(process, ())
        self._watcher = watcher
        self._grace_s = grace_s
        self._transport: asyncio.Transport | None = None
        self._writer = FrameWriter(self._write, self._loop)
        self._frames = FrameReader()
        self._numbers = count(1)
        self._attempts: dict[int, SentAttempt] = {}
        self._questions: dict[int, asyncio.Future[AttemptResult | None]] = {}
        self._disconnected = asyncio.Event()
        self._pinged_at: float | None = None
        self._up = False
        self._closing = False
        self._why = ""
        """Why the process ends, if its exit code does not show it."""
        self.interrupted = 0
        """How many attempts ended with the process."""
        self.modules: asyncio.Future[tuple[str, ...]] = self._loop.create_future()
        """The modules of its Apps, once it is ready. InvalidInput if it cannot load them or ends first."""
        self.ended = self._loop.create_task(self._attend(), name=f"handler process {process.pid}")
        """How it ended."""

    @classmethod
    async def start(cls, command: Sequence[str], options: HandlerOptions, watcher: Watcher) -> HandlerProcess:
        """Start a process. Raises OSError if that is impossible."""
        process, ours = _spawn(command)
        started = cls(process, watcher, options.grace_s)
        try:
            watcher.add(process.pid)
        except OSError as error:
            log.warning("watcher not started", reason=str(error))
        try:
            await started._loop.create_unix_connection(lambda: started, sock=ours)
        except BaseException:
            process.kill()
            ours.close()
            raise
        started._writer.send("open", options.document())
        return started

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> int:
        return len(self._attempts)

    @property
    def responds(self) -> bool:
        """Whether it can be given attempts now."""
        silent = self._pinged_at is not None and self._loop.time() - self._pinged_at > SILENT_S
        return self._up and not silent

    # -------------------------------------------------------------------------------------------------- attempts

    async def run(self, assignment: Assignment, node: str, lines: LineSink) -> AttemptResult:
        """See Executor."""
        attempt = SentAttempt(
            assignment,
            lines,
            self._loop.time() + assignment.job.timeout.total_seconds() + self._grace_s + OVERDUE_S,
            self._loop.create_future(),
        )
        number = next(self._numbers)
        try:
            self._writer.send("run", number, attempt_document(assignment, node))
        except TypeError as error:
            return AttemptResult(Outcome.PERMANENT, error=f"the arguments are not JSON: {error}")
        self._attempts[number] = attempt
        try:
            await attempt.ended
        except asyncio.CancelledError:
            # It may have ended just before the cancellation.
            if not attempt.over:
                await self._stop(number, attempt)
            if attempt.result is None:
                raise
        # Only an attempt that is cancelled here has none.
        return attempt.result or AttemptResult(Outcome.ERROR, error="it was cancelled in its handler process")

    async def _stop(self, number: int, attempt: SentAttempt) -> None:
        """Cancel an attempt, and wait until its handler has stopped or its process was killed."""
        attempt.ended = self._loop.create_future()
        attempt.cancelled = True
        attempt.overdue_at = min(attempt.overdue_at, self._loop.time() + self._grace_s + OVERDUE_S)
        self._writer.send("cancel", number)
        await attempt.ended

    async def resolve(self, ref: str) -> AttemptResult | None:
        """Import the function in the process. Returns the result of an attempt if that fails."""
        number = next(self._numbers)
        answer: asyncio.Future[AttemptResult | None] = self._loop.create_future()
        self._questions[number] = answer
        self._writer.send("resolve", number, ref)
        try:
            return await answer
        finally:
            self._questions.pop(number, None)

    # ------------------------------------------------------------------------------------------ the process itself

    def check(self) -> None:
        """Call this a few times a second: finds out whether the process responds, and kills it if it must be."""
        now = self._loop.time()
        if self._up and self._pinged_at is None:
            self._pinged_at = now
            self._writer.send("ping")
        overdue = [attempt.assignment.run for attempt in self._attempts.values() if now >= attempt.overdue_at]
        if overdue:
            self._kill(f"was killed because it did not stop {overdue[0]}")

    async def close(self) -> None:
        """End the process in order, so that its exit handlers run; kill it if that takes too long."""
        self._closing = True
        if self._up:
            self._up = False
            self._writer.send("close")
        else:
            self._process.kill()
        await asyncio.wait({self.ended}, timeout=CLOSE_S)
        if not self.ended.done():
            log.warning("handler process killed", pid=self.pid, reason=f"it did not end within {CLOSE_S:g} s")
            self._process.kill()
            await asyncio.wait({self.ended})

    def _kill(self, why: str) -> None:
        if self._process.poll() is None:
            self._why = self._why or why
            self._up = False
            self._process.kill()

    async def _attend(self) -> str:
        """Wait for the process to end, and end what depends on it. Returns how it ended."""
        code = await self._group.exited()
        self._up = False
        # Its commands are in its group, and may have the socket open.
        await self._group.kill()
        self._watcher.remove(self._group.number)
        try:
            async with asyncio.timeout(READ_REST_S):
                await self._disconnected.wait()
        except TimeoutError:
            pass  # A process that left the group has the socket open.
        if self._transport is not None:
            self._transport.close()
        ended = f"was killed by {signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
        how = self._why or ended
        self._end_all(how)
        return how

    def _end_all(self, how: str) -> None:
        self._up = False
        if not self.modules.done():
            self._refuse(InvalidInput(Problem("--app", f"the process that imported the apps {how}")))
        now = self._loop.time()
        attempts, self._attempts = self._attempts, {}
        self.interrupted = len(attempts)
        for attempt in attempts.values():
            if attempt.cancelled:
                attempt.end(None)
            elif self._why and now >= attempt.overdue_at:
                limit = format_duration(attempt.assignment.job.timeout)
                text = f"timed out after {limit}; its handler process did not stop it and was killed"
                attempt.end(AttemptResult(Outcome.TIMEOUT, error=text))
            else:
                text = f"its handler process {how} before the function returned"
                attempt.end(AttemptResult(Outcome.ERROR, error=text))
        for answer in self._questions.values():
            if not answer.done():
                error = f"its handler process {how} while it imported the function"
                answer.set_result(AttemptResult(Outcome.ERROR, error=error))

    def _refuse(self, refused: InvalidInput) -> None:
        self.modules.set_exception(refused)
        # Retrieve it: when a process is started again, nobody waits for its modules.
        self.modules.exception()

    # ----------------------------------------------------------------------------------------------- the connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._up = False
        self._disconnected.set()
        if not self._closing:
            # The connection of a process that dies is closed a moment before its exit is seen.
            self._loop.call_later(READ_REST_S, self._kill, "was killed because it closed its connection to the node")

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        self._pinged_at = None
        try:
            for message in self._frames.feed(data):
                self._receive(message)
        except (BadFrame, LookupError, TypeError, ValueError) as error:
            self._kill(f"was killed because it sent something other than messages: {error}")

    def _receive(self, message: Message) -> None:
        match message:
            case ["line", number, level, text]:
                if (attempt := self._attempts.get(number)) is not None:
                    attempt.log(level, text)
            case ["ended", number, document]:
                if (attempt := self._attempts.pop(number, None)) is not None:
                    attempt.end(None if document is None else attempt_result_of(document))
            case ["resolved", number, document]:
                if (answer := self._questions.get(number)) is not None and not answer.done():
                    answer.set_result(None if document is None else attempt_result_of(document))
            case ["pong"]:
                pass
            case ["ready", modules] if not self.modules.done():
                self._up = not self._closing
                self.modules.set_result(tuple(modules))
            case ["refused", problems] if not self.modules.done():
                refused = InvalidInput([Problem(*words) for words in problems])
                self._why = f"could not load the apps: {refused}"
                self._refuse(refused)
            case _:
                raise ValueError(f"{message[:1]}")


def _spawn(command: Sequence[str]) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start the program of a handler process. Returns it with the node's end of their connection."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs:
        try:
            # In a session of its own, it does not get the signals of the terminal, and its group contains the commands
            # of its handlers. Its environment lacks the settings of the node, which include keys and passwords.
            process = subprocess.Popen(  # noqa: S603 - this interpreter with a module of this package
                [*command, str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                env={name: value for name, value in os.environ.items() if not name.startswith("CRONFLOW_")},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
    return process, ours
