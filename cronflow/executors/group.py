"""A process group started by an attempt: its output as lines, its exit, and how to stop all of it.

The group ends with its attempt: it gets SIGTERM and, after a grace time, SIGKILL. If the node dies, the watcher does
this. No process can block on its output: all of it is read as it arrives, so lines of standard output and error keep
the order in which the node receives them. What a process writes to both within a moment may be swapped; `2>&1` keeps
its exact order. A process that leaves the group (setsid, a daemon) cannot be stopped.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta
from io import FileIO

from cronflow.domain.durations import format_duration
from cronflow.domain.run import AttemptResult, Outcome, ResourceUse
from cronflow.executors.watcher import Watcher
from cronflow.operating_system import MAXRSS_UNIT, exit_descriptor, has_running_process
from cronflow.ports import Assignment, LineSink

MAX_LINE_BYTES = 8 * 1024

_POLL_S = 0.01
_LONGEST_POLL_S = 0.2
_KILL_S = 1.0


Start = Callable[[int, int], subprocess.Popen[bytes]]
"""Starts a process group with these file descriptors as standard output and error."""


def facts(assignment: Assignment) -> dict[str, str]:
    """Environment variables that describe the run."""
    shard = assignment.shard
    of_shard = {}
    if shard is not None:
        of_shard = {"CRONFLOW_SHARD_INDEX": str(shard.index), "CRONFLOW_SHARD_TOTAL": str(shard.total)}
    return {
        **of_shard,
        "CRONFLOW_RUN_ID": assignment.run,
        "CRONFLOW_JOB": assignment.job.name,
        "CRONFLOW_FIRE_AT": f"{assignment.fire_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "CRONFLOW_ATTEMPT": str(assignment.attempt),
        "CRONFLOW_FENCE": str(assignment.fence),
        "CRONFLOW_IDEMPOTENCY_KEY": assignment.run,
        "CRONFLOW_CHAIN_ID": assignment.chain_id,
        "RETRY_COUNT": str(assignment.attempt - 1),
    }


@dataclass(slots=True)
class ProcessEnd:
    """How a process ended: its exit code, negative for a signal, or None if it timed out and was stopped. `used` is
    what it and the processes that it waited for have used.
    """

    code: int | None
    used: ResourceUse | None


async def attend(
    start: Start, output: Output, watcher: Watcher, timeout: timedelta, grace_s: float, drain_s: float
) -> ProcessEnd:
    """Start a process group and wait for it.

    `grace_s` is the time between SIGTERM and SIGKILL; `drain_s` is how long processes left behind may continue.
    Cancelling stops the group first; if the process has ended by then, its exit code is returned. Raises what `start`
    raises.
    """
    readers: list[Reader] = []
    ends: list[int] = []
    try:
        for level in ("info", "warn"):
            pipe, end = os.pipe()
            ends.append(end)
            readers.append(await output.read(os.fdopen(pipe, "rb", buffering=0), level))
        # No await until the next `try`, so no cancellation can come in between.
        group = Group(start(ends[0], ends[1]), readers)
    except BaseException:
        await let_go(readers)
        raise
    finally:
        for end in ends:
            os.close(end)
    try:
        watcher.add(group.number)
    except OSError as error:
        output.say("warn", f"the command will continue if this node is killed: {error}")
    try:
        async with asyncio.timeout(timeout.total_seconds()):
            code = await group.exited()
    except TimeoutError:
        await group.stop(grace_s)
        return ProcessEnd(None, group.used)
    except asyncio.CancelledError:
        if (ended := group.code()) is not None:
            # The process ended before it was signalled.
            return ProcessEnd(ended, group.used)
        await group.stop(grace_s)
        raise
    else:
        if not await group.quiet(drain_s):
            output.say("warn", "the command has ended; what it left running is killed")
            await group.kill()
        return ProcessEnd(code, group.used)
    finally:
        await group.kill()
        watcher.remove(group.number)
        await let_go(readers)


def timed_out(timeout: timedelta) -> AttemptResult:
    return AttemptResult(Outcome.TIMEOUT, error=f"timed out after {format_duration(timeout)}")


class Output:
    """The output of a command, as lines. `last_error` is the last line of standard error that is not blank."""

    def __init__(self, log: LineSink) -> None:
        self.last_error = ""
        self._log = log

    async def read(self, pipe: FileIO, level: str) -> Reader:
        """Read the pipe to its end in the background."""
        _, reader = await asyncio.get_running_loop().connect_read_pipe(lambda: Reader(self, level), pipe)
        return reader

    def line(self, level: str, raw: bytes, cut: int) -> None:
        """Log a line without its last `cut` bytes."""
        text = raw.removesuffix(b"\r").decode(errors="replace")
        if cut:
            text += f"… ({cut:,} bytes were cut)"
        if level == "warn" and text.strip():
            self.last_error = text.strip()
        self._log(level, text)

    def say(self, level: str, text: str) -> None:
        """Write a line of the executor itself."""
        self._log(level, text)


class Reader(asyncio.Protocol):
    """Splits one output stream into lines; an overlong line is cut at the limit."""

    def __init__(self, output: Output, level: str) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._output = output
        self._level = level
        self._line = bytearray()
        self._cut = 0
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *ended, rest = data.split(b"\n")
        for piece in ended:
            self._extend(piece)
            self._flush()
        self._extend(rest)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._line:
            self._flush()
        if not self.closed.done():
            self.closed.set_result(None)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _extend(self, piece: bytes) -> None:
        capacity = MAX_LINE_BYTES - len(self._line)
        self._line += piece[:capacity]
        self._cut += max(0, len(piece) - capacity)

    def _flush(self) -> None:
        self._output.line(self._level, bytes(self._line), self._cut)
        self._line.clear()
        self._cut = 0


class Group:
    """A running command and its process group."""

    def __init__(self, process: subprocess.Popen[bytes], readers: Sequence[Reader]) -> None:
        self.number = process.pid
        self.used: ResourceUse | None = None
        self._process = process
        self._readers = readers

    async def exited(self) -> int:
        """Wait for the exit code of the command itself, negative for a signal."""
        fd = exit_descriptor(self._process.pid)
        if fd is None:
            while (code := self.code()) is None:
                await asyncio.sleep(_POLL_S)
            return code
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        loop.add_reader(fd, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(fd)
            os.close(fd)
        code = self.code()
        return self._process.wait() if code is None else code

    def code(self) -> int | None:
        """The exit code, or None while the command is running. Reaping it here shows what it has used."""
        if self._process.returncode is None:
            try:
                pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
            except ChildProcessError:
                return self._process.poll()
            if pid != 0:
                self._process.returncode = os.waitstatus_to_exitcode(status)
                self.used = ResourceUse(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * MAXRSS_UNIT)
        return self._process.returncode

    async def quiet(self, seconds: float) -> bool:
        """Whether the group ends and all pipes close within `seconds`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        closed = [reader.closed for reader in self._readers]
        if closed:
            await asyncio.wait(closed, timeout=seconds)
        pause = _POLL_S
        while not self._ended():
            if loop.time() >= deadline:
                return False
            await asyncio.sleep(min(pause, max(0.0, deadline - loop.time())))
            pause = min(2 * pause, _LONGEST_POLL_S)
        return all(future.done() for future in closed)

    async def stop(self, grace_s: float) -> None:
        """Send SIGTERM and wait for the grace time, then kill the rest."""
        self._signal(signal.SIGTERM)
        await self.quiet(grace_s)

    async def kill(self) -> None:
        """Send SIGKILL to the rest, and give the kernel time."""
        if not self._gone():
            self._signal(signal.SIGKILL)
            await self.quiet(_KILL_S)

    def _signal(self, number: signal.Signals) -> None:
        if self._gone():
            return
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # It ended just now, or what is left runs as another user.

    def _ended(self) -> bool:
        """Whether no process of the group is running. Dead orphans may wait for init to reap them, so check the process
        states if the group is not empty.
        """
        return self._gone() or (self._process.returncode is not None and not has_running_process(self._process.pid))

    def _gone(self) -> bool:
        """Whether the group is empty. Until then the kernel does not reuse its id."""
        if self.code() is None:
            return False
        try:
            os.killpg(self._process.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        return False


async def let_go(readers: Sequence[Reader]) -> None:
    """Close the pipes, even if a process outside the group still has them open."""
    for reader in readers:
        reader.close()
    if readers:
        await asyncio.wait([reader.closed for reader in readers])


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
