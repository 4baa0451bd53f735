"""Runs programs: a line for /bin/sh, or an argument vector that no shell sees.

It protects three rules. What an attempt started ends with it: a command is a process group of its own, and the group
is killed when the command ends, outlives its timeout or is cancelled, or when its node is gone (see `watcher`). A
command can neither block on its output nor flood the log: the output is read to its end and kept up to a limit. And a
command sees no secret of the node: it inherits a handful of variables and no more.

A process that leaves the group (setsid, a daemon) is beyond reach. Commands are off unless the node allows them.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Self

from cronflow.domain.durations import format_duration
from cronflow.domain.job import CommandTarget
from cronflow.domain.run import Ending, Outcome
from cronflow.executors.watcher import Watcher
from cronflow.ports import Assignment, LineSink

MAX_OUTPUT_BYTES = 1024 * 1024
MAX_LINE_BYTES = 8 * 1024
MAX_LINES = 20_000

INHERITED = frozenset(
    {"HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "TZDIR", "USER"}
)
"""What a command gets of the node's environment."""

_POLL_S = 0.01
_LONGEST_POLL_S = 0.2
_KILL_S = 1.0
_HOPELESS = frozenset({errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.ENOTDIR, errno.E2BIG, errno.ELOOP})
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127


class CommandExecutor:
    """Runs CommandTargets. `async with` it.

    `grace_s` lies between SIGTERM and SIGKILL; `drain_s` is how long what a command left behind may go on after it;
    `environ` is what it inherits from, the process's own by default.
    """

    def __init__(
        self, allowed: bool, *, grace_s: float = 10.0, drain_s: float = 1.0, environ: Mapping[str, str] | None = None
    ) -> None:
        self._allowed = allowed
        self._grace_s = grace_s
        self._drain_s = drain_s
        self._environ = environ
        self._watcher: Watcher | None = None

    async def __aenter__(self) -> Self:
        self._watcher = Watcher()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watcher is not None:
            await asyncio.to_thread(self._watcher.close)

    async def declines(self, assignment: Assignment, node: str) -> str | None:
        """See Choosy: commands are off on this node."""
        if self._allowed:
            return None
        return f"commands are not allowed on the node {node}; set ALLOW_SHELL=true to allow them"

    async def run(self, assignment: Assignment, node: str, log: LineSink) -> Ending:
        """See Executor. Exit code 0 is OK; a program that does not exist or may not be executed fails for good."""
        target = assignment.job.target
        assert isinstance(target, CommandTarget)
        if (refused := await self.declines(assignment, node)) is not None:
            return Ending(Outcome.PERMANENT, error=refused)
        if self._watcher is None:
            raise RuntimeError("the CommandExecutor is not open; use `async with`")
        output = _Output(log)
        try:
            return await self._run(assignment, target, output, log, self._watcher)
        finally:
            output.end()

    async def _run(
        self, assignment: Assignment, target: CommandTarget, output: _Output, log: LineSink, watcher: Watcher
    ) -> Ending:
        environ = environment(assignment, target, os.environ if self._environ is None else self._environ)
        readers: list[_Reader] = []
        ends: list[int] = []
        try:
            for level in ("info", "warn"):
                pipe, end = os.pipe()
                ends.append(end)
                readers.append(await output.read(os.fdopen(pipe, "rb", buffering=0), level))
            # From here to the next `try` nothing is awaited, so no cancellation can come between.
            group = _Group(_start(target, environ, *ends), readers)
        except (OSError, ValueError) as error:
            await _close(readers)
            return _not_started(error)
        finally:
            for end in ends:
                os.close(end)
        try:
            watcher.add(group.number)
        except OSError as error:
            log("warn", f"it would go on if this node were killed: {error}")
        try:
            async with asyncio.timeout(assignment.job.timeout.total_seconds()):
                code = await group.exited()
        except TimeoutError:
            await group.stop(self._grace_s)
            limit = format_duration(assignment.job.timeout)
            return Ending(Outcome.TIMEOUT, error=f"it did not end within {limit} and was stopped")
        except asyncio.CancelledError:
            if (ended := group.code()) is not None:
                # It had ended before it could learn of that.
                return _ended(target, ended, output.last_error)
            await group.stop(self._grace_s)
            raise
        else:
            if not await group.quiet(self._drain_s):
                log("warn", "the command has ended; what it left running is killed")
                await group.kill()
            return _ended(target, code, output.last_error)
        finally:
            await group.kill()
            watcher.remove(group.number)
            await _close(readers)


def environment(assignment: Assignment, target: CommandTarget, environ: Mapping[str, str]) -> dict[str, str]:
    """What a command's process sees: the inherited variables, then the target's own, then the facts of the run."""
    inherited = {name: value for name, value in environ.items() if name in INHERITED}
    inherited.setdefault("PATH", os.defpath)
    return {
        **inherited,
        **target.env,
        "CRONFLOW_RUN_ID": assignment.run,
        "CRONFLOW_JOB": assignment.job.name,
        "CRONFLOW_FIRE_AT": f"{assignment.fire_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "CRONFLOW_ATTEMPT": str(assignment.attempt),
        "CRONFLOW_FENCE": str(assignment.fence),
        "CRONFLOW_IDEMPOTENCY_KEY": assignment.run,
        "RETRY_COUNT": str(assignment.attempt - 1),
    }


class _Output:
    """The lines of a command, as far as they fit into the limits. Beyond them bytes are counted and dropped."""

    def __init__(self, log: LineSink) -> None:
        self.last_error = ""
        self.full = False
        self.cut = 0
        self._log = log
        self._kept = self._lines = 0

    async def read(self, pipe: FileIO, level: str) -> _Reader:
        """Read the pipe to its end, in the background."""
        _, reader = await asyncio.get_running_loop().connect_read_pipe(lambda: _Reader(self, level), pipe)
        return reader

    def line(self, level: str, raw: bytes) -> None:
        size = len(raw) + 1
        if self.full or self._kept + size > MAX_OUTPUT_BYTES or self._lines == MAX_LINES:
            self.full = True
            self.cut += size
            return
        self._kept += size
        self._lines += 1
        text = raw.removesuffix(b"\r").decode(errors="replace")
        if level == "warn" and text.strip():
            self.last_error = text.strip()
        self._log(level, text)

    def end(self) -> None:
        """Say how much is missing."""
        if self.cut:
            limits = f"{MAX_OUTPUT_BYTES >> 20} MiB and {MAX_LINES:,} lines, {MAX_LINE_BYTES >> 10} KiB a line"
            self._log("warn", f"… {self.cut:,} bytes of output were cut (kept are {limits})")


class _Reader(asyncio.Protocol):
    """One stream of a command, cut into lines as it comes; of a line without an end no more is kept than may be."""

    def __init__(self, output: _Output, level: str) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._output = output
        self._level = level
        self._line = bytearray()
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._output.full:
            self._output.cut += len(data)
            return
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
        room = MAX_LINE_BYTES - len(self._line)
        self._line += piece[:room]
        self._output.cut += max(0, len(piece) - room)

    def _flush(self) -> None:
        self._output.line(self._level, bytes(self._line))
        self._line.clear()


class _Group:
    """A running command and all that it started in its process group."""

    def __init__(self, process: subprocess.Popen[bytes], readers: Sequence[_Reader]) -> None:
        self.number = process.pid
        self._process = process
        self._readers = readers

    async def exited(self) -> int:
        """The exit code of the command itself, negative for a signal."""
        try:
            fd = os.pidfd_open(self._process.pid)
        except OSError:
            # An old kernel, or a sandbox that does not know the call.
            while (code := self._process.poll()) is None:
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
        return self._process.wait()

    def code(self) -> int | None:
        """The exit code of the command if it has ended."""
        return self._process.poll()

    async def quiet(self, seconds: float) -> bool:
        """Whether, within so many seconds, the group has ended and nobody holds the pipes."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        closed = [reader.closed for reader in self._readers]
        await asyncio.wait(closed, timeout=seconds)
        pause = _POLL_S
        while not self._ended():
            if loop.time() >= deadline:
                return False
            await asyncio.sleep(min(pause, max(0.0, deadline - loop.time())))
            pause = min(2 * pause, _LONGEST_POLL_S)
        return all(future.done() for future in closed)

    async def stop(self, grace_s: float) -> None:
        """SIGTERM, and the grace to end; whoever does not, has to be killed."""
        self._signal(signal.SIGTERM)
        await self.quiet(grace_s)

    async def kill(self) -> None:
        """SIGKILL to whoever is left, and time for the kernel to do it."""
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
        """Whether nobody in the group runs. Orphans may wait for a lazy init to notice their end, so if the group has
        members still, their states decide.
        """
        return self._gone() or (self._process.returncode is not None and not _has_running(self._process.pid))

    def _gone(self) -> bool:
        """Whether the group is empty. Until it is, the kernel gives its number to nobody else."""
        if self._process.poll() is None:
            return False
        try:
            os.killpg(self._process.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        return False


def _has_running(group: int) -> bool:
    if not (processes := list(Path("/proc").glob("[0-9]*/stat"))):
        return True  # Not a Linux: who knows.
    for process in processes:
        try:
            # After the name, which is in parentheses and may hold anything: state, parent, group.
            state, _, of = process.read_text(errors="replace").rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(of) == group and state not in "ZX":
            return True
    return False


async def _close(readers: Sequence[_Reader]) -> None:
    """Let go of the pipes, even if somebody outside the group still holds them."""
    for reader in readers:
        reader.close()
    if readers:
        await asyncio.wait([reader.closed for reader in readers])


def _start(target: CommandTarget, environ: Mapping[str, str], out: int, err: int) -> subprocess.Popen[bytes]:
    words = ["/bin/sh", "-c", target.command] if isinstance(target.command, str) else list(target.command)
    # The shell is the job's owner's wish, and ALLOW_SHELL the node's consent.
    return subprocess.Popen(  # noqa: S603
        words,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        cwd=target.cwd,
        env=environ,
        start_new_session=True,
    )


def _not_started(error: OSError | ValueError) -> Ending:
    hopeless = isinstance(error, ValueError) or error.errno in _HOPELESS
    return Ending(Outcome.PERMANENT if hopeless else Outcome.ERROR, error=f"it could not be started: {error}")


def _ended(target: CommandTarget, code: int, last_error: str) -> Ending:
    if code == 0:
        return Ending(Outcome.OK, result={"exit_code": 0})
    if code < 0:
        what = f"killed by {_signal_name(-code)}"
    elif code > 128 and isinstance(target.command, str):
        what = f"exit code {code} (128 + {_signal_name(code - 128)})"
    else:
        what = f"exit code {code}"
    # What the shell says when there is no such program, or none that it may execute.
    hopeless = isinstance(target.command, str) and code in (_NOT_EXECUTABLE, _NOT_FOUND)
    error = f"{what}: {last_error}" if last_error else what
    return Ending(Outcome.PERMANENT if hopeless else Outcome.ERROR, error=error)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
