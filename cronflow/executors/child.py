"""The child process of a Python job with `process: true`: runs one attempt and says how it ended.

It reads one request from its standard input and writes messages, an object a line, to the pipe that its argument
names: the lines of the run's log, and at the end the Ending. What the function prints goes to the standard output and
error, which the node reads too. SIGTERM is the wish to stop: `ctx.cancelled` becomes true and a coroutine function is
cancelled; who does not stop is killed by the node.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable
from datetime import datetime
from typing import Any, BinaryIO

import orjson

from cronflow.context import Context, bind
from cronflow.domain.errors import PermanentError
from cronflow.domain.run import AttemptResult
from cronflow.executors.handlers import failed, finished


class Messages:
    """Writes to the node, from whatever thread."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe = pipe
        self._one_at_a_time = threading.Lock()

    def line(self, level: str, text: str) -> None:
        """A line of the run's log."""
        self._write({"level": level, "text": text})

    def end(self, attempt_result: AttemptResult) -> None:
        """How it ended; the last message."""
        delay = None if attempt_result.delay is None else attempt_result.delay.total_seconds()
        self._write(
            {
                "outcome": attempt_result.outcome,
                "result": attempt_result.result,
                "error": attempt_result.error,
                "delay": delay,
            }
        )

    def _write(self, message: dict[str, object]) -> None:
        written = orjson.dumps(message, default=str)
        with self._one_at_a_time:
            self._pipe.write(written + b"\n")
            self._pipe.flush()


def find(ref: str) -> Callable[..., object]:
    """The function `module:qualname`. Raises PermanentError, and whatever importing the module raises."""
    name, _, qualname = ref.partition(":")
    found: Any = importlib.import_module(name)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if not inspect.isroutine(found):
        raise PermanentError(f"{ref} does not exist in a process of its own: {name} has no function {qualname}")
    return found


def attempt(request: dict[str, Any], messages: Messages) -> AttemptResult:
    """Run it to its end."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    context = Context(
        run_id=request["run"],
        job=request["job"],
        fire_at=datetime.fromisoformat(request["fire_at"]),
        attempt=request["attempt"],
        fence=request["fence"],
        node=request["node"],
        args=request["args"],
        sink=messages.line,
        cancelled=stopping.is_set,
    )
    try:
        function = find(request["ref"])
        bound = bind(function, context, request["args"])
        if inspect.iscoroutinefunction(function):
            return finished(asyncio.run(_in_loop(function, bound, stopping)))
        return finished(function(*bound.args, **bound.kwargs))
    except BaseException as error:
        return failed(error)


async def _in_loop(function: Callable[..., object], bound: inspect.BoundArguments, stopping: threading.Event) -> object:
    task = asyncio.current_task()
    assert task is not None

    def stop() -> None:
        stopping.set()
        task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
    result: object = await function(*bound.args, **bound.kwargs)  # type: ignore[misc]
    return result


def main() -> None:
    """Read the request, run it, tell the ending."""
    with os.fdopen(int(sys.argv[1]), "wb", buffering=0) as pipe:
        messages = Messages(pipe)
        request = orjson.loads(sys.stdin.buffer.read())
        sys.path[:] = request["path"]
        messages.end(attempt(request, messages))
        sys.stdout.flush()
        sys.stderr.flush()
    # Threads that the function left behind must not hold the process up.
    os._exit(0)


if __name__ == "__main__":
    main()
