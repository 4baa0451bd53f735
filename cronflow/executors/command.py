"""Runs programs: a command line for /bin/sh, or an argument vector without a shell.

A command is its own process group. The group is killed when the command ends, times out or is cancelled, and when its
node dies (see `watcher`). A command cannot block on its output: all of it is read. A command sees no secrets of the
node, because it inherits only a few variables. It can run as another user, and with limits (see `restrictions`).

A process that leaves the group (setsid, a daemon) cannot be stopped. Commands are disabled unless the node allows them.
"""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
from collections.abc import Collection, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Self

from cronflow.domain.job import CommandTarget, Job
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.executors.group import Output, attend, facts, signal_name, timed_out
from cronflow.executors.handlers import classes_of
from cronflow.executors.presence import FilePresence
from cronflow.executors.restrictions import account, limited, reached, refusal
from cronflow.executors.watcher import Watcher
from cronflow.ports import Assignment, LineSink

INHERITED = frozenset(
    {"HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "TZDIR", "USER"}
)
"""Variables that a command inherits from the node."""

_HOPELESS = frozenset({errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.ENOTDIR, errno.E2BIG, errno.ELOOP})
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127


class CommandExecutor:
    """Runs CommandTargets, as an async context manager.

    `users` are those that commands may run as (None: only the user of the node); `grace_s` is the time between SIGTERM
    and SIGKILL; `drain_s` is how long processes that a command has left may continue; `environ` replaces the
    environment to inherit from.
    """

    def __init__(
        self,
        allowed: bool,
        *,
        users: Collection[str] | None = None,
        grace_s: float = 10.0,
        drain_s: float = 1.0,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._allowed = allowed
        self._users = users
        self._grace_s = grace_s
        self._drain_s = drain_s
        self._environ = environ
        self._watcher: Watcher | None = None
        self._presence = FilePresence()

    async def __aenter__(self) -> Self:
        self._watcher = Watcher()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watcher is not None:
            await asyncio.to_thread(self._watcher.close)

    async def declines(self, assignment: Assignment, node: str) -> str | None:
        """See SelectiveExecutor: commands are disabled on this node, or not allowed as this user."""
        target = assignment.job.target
        assert isinstance(target, CommandTarget)
        if self._allowed:
            return refusal(target.run_as, self._users, node)
        return f"commands are not allowed on the node {node}; set ALLOW_SHELL=true to allow them"

    async def run(self, assignment: Assignment, node: str, log: LineSink) -> AttemptResult:
        """See Executor. The job's success exit codes are OK. Without the file `when_present` the run is skipped. A
        program that does not exist or is not executable fails permanently.
        """
        target = assignment.job.target
        assert isinstance(target, CommandTarget)
        if (refused := await self.declines(assignment, node)) is not None:
            return AttemptResult(Outcome.PERMANENT, error=refused)
        if self._watcher is None:
            raise RuntimeError("the CommandExecutor is not open; use `async with`")
        if (absent := await self._without_file(target.when_present, node)) is not None:
            return absent
        environ = environment(assignment, target, os.environ if self._environ is None else self._environ)
        output = Output(log)
        try:
            ended = await attend(
                lambda out, err: _start(target, environ, out, err),
                output,
                self._watcher,
                assignment.job.timeout,
                self._grace_s,
                self._drain_s,
            )
        except (OSError, ValueError) as error:
            return _not_started(error)
        found = (
            timed_out(assignment.job.timeout)
            if ended.code is None
            else _ended(assignment.job, target, ended.code, output.last_error)
        )
        return replace(found, used=ended.used)

    async def _without_file(self, path: str | None, node: str) -> AttemptResult | None:
        """The result if the user of the node does not find the file: skipped if it is not there, an error if that
        cannot be known, for example because of a broken mount. None if it exists.
        """
        problem = None if path is None else await self._presence.problem(path)
        if isinstance(problem, FileNotFoundError | NotADirectoryError):
            return AttemptResult(Outcome.SKIPPED, error=f"node {node} has no {path}")
        return None if problem is None else _not_started(problem)


def environment(assignment: Assignment, target: CommandTarget, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a command: inherited variables, those of its user, those of the target, and the facts of the
    run.
    """
    inherited = {name: value for name, value in environ.items() if name in INHERITED}
    inherited.setdefault("PATH", os.defpath)
    return {
        **inherited,
        **({} if (user := account(target.run_as)) is None else user.variables),
        **target.env,
        **facts(assignment),
    }


def _start(target: CommandTarget, environ: Mapping[str, str], out: int, err: int) -> subprocess.Popen[bytes]:
    words = ["/bin/sh", "-c", target.command] if isinstance(target.command, str) else list(target.command)
    user = account(target.run_as)
    if user is not None:
        for pipe in (out, err):
            # So that the command can open /dev/stdout and /dev/stderr.
            os.fchown(pipe, user.uid, user.gid)
    # The owner of the job asks for a shell, and the node permits it with ALLOW_SHELL.
    return subprocess.Popen(  # noqa: S603
        limited(words, target.limits),
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        cwd=target.cwd,
        env=environ,
        start_new_session=True,
        **({} if user is None else user.options),
    )


def _not_started(error: OSError | ValueError) -> AttemptResult:
    hopeless = isinstance(error, ValueError) or error.errno in _HOPELESS
    outcome = Outcome.PERMANENT if hopeless else Outcome.ERROR
    return AttemptResult(outcome, error=f"could not start it: {error}", error_classes=classes_of(error))


def _ended(job: Job, target: CommandTarget, code: int, last_error: str) -> AttemptResult:
    # As a shell reports a signal.
    reported = code if code >= 0 else 128 - code
    if reported in job.success_exit_codes:
        return AttemptResult(Outcome.OK, result={"exit_code": reported})
    by_shell = isinstance(target.command, str)
    number = -code if code < 0 else code - 128 if code > 128 and by_shell else None
    if code < 0:
        what = f"killed by {signal_name(-code)}"
    elif number is not None:
        what = f"exit code {code} (128 + {signal_name(code - 128)})"
    else:
        what = f"exit code {code}"
    # Exit codes of a shell, which also sets the limits, for a program that is missing or not executable.
    hopeless = (by_shell or bool(target.limits.given)) and code in (_NOT_EXECUTABLE, _NOT_FOUND)
    error = f"{what}: {last_error}" if last_error else what
    if limit := reached(target.limits, number, last_error):
        error = f"{error} ({limit})"
    outcome = Outcome.PERMANENT if hopeless else Outcome.ERROR
    return AttemptResult(outcome, error=error, error_classes=(f"exit:{reported}",))
