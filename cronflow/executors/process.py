"""Runs a Python function in a child process: the node's side of `executors.child`.

Use it for functions that must be stoppable (a thread cannot be killed), that hold the GIL, or that may crash. The child
is its own process group and inherits the node's import path and environment, except CRONFLOW_* settings. It ends with
the attempt.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, timedelta
from typing import Any

import orjson

from cronflow.domain.job import PythonTarget
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.executors.group import Output, attend, facts, signal_name, timed_out
from cronflow.executors.watcher import Watcher
from cronflow.ports import Assignment, LineSink


class ChildProcesses:
    """Runs PythonTargets with `process`. `grace_s` is the time between SIGTERM and SIGKILL; `drain_s` is how long
    processes left behind by the child may continue.
    """

    def __init__(self, *, grace_s: float = 10.0, drain_s: float = 1.0) -> None:
        self._grace_s = grace_s
        self._drain_s = drain_s
        self._watcher = Watcher()

    async def close(self) -> None:
        await asyncio.to_thread(self._watcher.close)

    async def run(self, assignment: Assignment, node: str, args: Mapping[str, object], log: LineSink) -> AttemptResult:
        """See Executor. Standard output becomes `info` lines of the log, standard error `warn` lines."""
        target = assignment.job.target
        assert isinstance(target, PythonTarget)
        output = Output(log)
        messages = await _Messages.open(log)
        try:
            with tempfile.TemporaryFile() as request:
                request.write(_request(assignment, target, node, args))
                request.seek(0)

                def start(out: int, err: int) -> subprocess.Popen[bytes]:
                    # The command is this interpreter with a module of this package.
                    return subprocess.Popen(  # noqa: S603
                        [sys.executable, "-m", "cronflow.executors.child", str(messages.end)],
                        stdin=request,
                        stdout=out,
                        stderr=err,
                        env=_environment(assignment),
                        pass_fds=(messages.end,),
                        start_new_session=True,
                    )

                ended = await attend(start, output, self._watcher, assignment.job.timeout, self._grace_s, self._drain_s)
        except OSError as error:
            return AttemptResult(Outcome.ERROR, error=f"could not start the process: {error}")
        finally:
            await messages.close()
        if ended.code is None:
            return replace(timed_out(assignment.job.timeout), used=ended.used)
        return replace(messages.attempt_result or _vanished(ended.code, output.last_error), used=ended.used)


def _environment(assignment: Assignment) -> dict[str, str]:
    """The node's environment without its settings, which include keys and passwords."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("CRONFLOW_")}
    return {**inherited, "PYTHONUNBUFFERED": "1", **facts(assignment)}


def _request(assignment: Assignment, target: PythonTarget, node: str, args: Mapping[str, object]) -> bytes:
    return orjson.dumps(
        {
            "ref": target.ref,
            "args": dict(args),
            "run": assignment.run,
            "job": assignment.job.name,
            "fire_at": assignment.fire_at.astimezone(UTC).isoformat(),
            "attempt": assignment.attempt,
            "fence": assignment.fence,
            "chain_id": assignment.chain_id,
            "node": node,
            "shard": None if assignment.shard is None else [assignment.shard.index, assignment.shard.total],
            "path": sys.path,
        }
    )


def _vanished(code: int, last_error: str) -> AttemptResult:
    what = f"was killed by {signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
    return AttemptResult(
        Outcome.ERROR, error=f"its process {what} before the function returned: {last_error}".rstrip(": ")
    )


class _Messages(asyncio.Protocol):
    """Reads the child's pipe: log lines and finally the AttemptResult. `end` is the child's end of the pipe."""

    def __init__(self, log: LineSink) -> None:
        self.attempt_result: AttemptResult | None = None
        self.end = -1
        self._log = log
        self._rest = b""
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.BaseTransport | None = None

    @classmethod
    async def open(cls, log: LineSink) -> _Messages:
        """Open the pipe, with a reader in the event loop."""
        pipe, end = os.pipe()
        _, messages = await asyncio.get_running_loop().connect_read_pipe(
            lambda: cls(log), os.fdopen(pipe, "rb", buffering=0)
        )
        messages.end = end
        return messages

    async def close(self) -> None:
        """Read the rest; the child has ended, so the pipe ends too."""
        os.close(self.end)
        if self._transport is not None and self.attempt_result is None:
            await asyncio.wait([self._closed], timeout=1.0)
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            self._message(orjson.loads(line))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._closed.done():
            self._closed.set_result(None)

    def _message(self, message: dict[str, Any]) -> None:
        if "outcome" not in message:
            self._log(message["level"], message["text"])
            return
        delay = message["delay"]
        self.attempt_result = AttemptResult(
            Outcome(message["outcome"]),
            result=message["result"],
            error=message["error"],
            delay=None if delay is None else timedelta(seconds=delay),
            error_classes=tuple(message["error_classes"]),
        )
