"""Runs programs: a line for /bin/sh, or an argument vector that no shell sees.

It protects three rules. What an attempt started ends with it: a command is a process group of its own, and the group
is killed when the command ends, outlives its timeout or is cancelled. A command can neither block on its output nor
flood the log: the output is read to its end and kept up to a limit. And a command sees no secret of the node: it
inherits a handful of variables and no more.

A process that leaves the group (setsid, a daemon) is beyond reach. Commands are off unless the node allows them.
"""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
from collections.abc import Mapping
from datetime import UTC

from cronflow.domain.durations import format_duration
from cronflow.domain.job import CommandTarget
from cronflow.domain.run import Ending, Outcome
from cronflow.executors.group import Group, Output, Reader, let_go, signal_name
from cronflow.ports import Assignment, LineSink

INHERITED = frozenset(
    {"HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "TZDIR", "USER"}
)
"""What a command gets of the node's environment."""

_HOPELESS = frozenset({errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.ENOTDIR, errno.E2BIG, errno.ELOOP})
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127


class CommandExecutor:
    """Runs CommandTargets. `grace_s` lies between SIGTERM and SIGKILL; `drain_s` is how long what a command left behind
    may go on after it; `environ` is what it inherits from, the process's own by default.
    """

    def __init__(
        self, allowed: bool, *, grace_s: float = 10.0, drain_s: float = 1.0, environ: Mapping[str, str] | None = None
    ) -> None:
        self._allowed = allowed
        self._grace_s = grace_s
        self._drain_s = drain_s
        self._environ = environ

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
        output = Output(log)
        try:
            return await self._run(assignment, target, output, log)
        finally:
            output.end()

    async def _run(self, assignment: Assignment, target: CommandTarget, output: Output, log: LineSink) -> Ending:
        environ = environment(assignment, target, os.environ if self._environ is None else self._environ)
        readers: list[Reader] = []
        ends: list[int] = []
        try:
            for level in ("info", "warn"):
                pipe, end = os.pipe()
                ends.append(end)
                readers.append(await output.read(os.fdopen(pipe, "rb", buffering=0), level))
            # From here to the next `try` nothing is awaited, so no cancellation can come between.
            group = Group(_start(target, environ, *ends), readers)
        except (OSError, ValueError) as error:
            await let_go(readers)
            return _not_started(error)
        finally:
            for end in ends:
                os.close(end)
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
            await let_go(readers)


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
        what = f"killed by {signal_name(-code)}"
    elif code > 128 and isinstance(target.command, str):
        what = f"exit code {code} (128 + {signal_name(code - 128)})"
    else:
        what = f"exit code {code}"
    # What the shell says when there is no such program, or none that it may execute.
    hopeless = isinstance(target.command, str) and code in (_NOT_EXECUTABLE, _NOT_FOUND)
    error = f"{what}: {last_error}" if last_error else what
    return Ending(Outcome.PERMANENT if hopeless else Outcome.ERROR, error=error)
