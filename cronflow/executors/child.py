"""The child process of a Python job with `process: true`: runs one attempt and reports the result.

It reads one request from standard input. It writes one JSON object per line to the pipe named by its argument: log
lines, and finally the AttemptResult. The node also reads what the function prints to standard output and error. On
SIGTERM, `ctx.cancelled` becomes true and a coroutine function is cancelled; if it does not stop, the node kills it.
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
from cronflow.domain.split import Shard
from cronflow.domain.storable import storable_text
from cronflow.executors.handlers import failed, finished
from cronflow.operating_system import hide_process


class Messages:
    """Sends messages to the node, from any thread."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe = pipe
        self._one_at_a_time = threading.Lock()

    def line(self, level: str, text: str) -> None:
        self._write({"level": level, "text": storable_text(text)})

    def end(self, attempt_result: AttemptResult) -> None:
        """Send the result, the last message."""
        delay = None if attempt_result.delay is None else attempt_result.delay.total_seconds()
        self._write(
            {
                "outcome": attempt_result.outcome,
                "result": attempt_result.result,
                "error": attempt_result.error and storable_text(attempt_result.error),
                "delay": delay,
                "error_classes": [storable_text(name) for name in attempt_result.error_classes],
            }
        )

    def _write(self, message: dict[str, object]) -> None:
        written = orjson.dumps(message, default=str)
        with self._one_at_a_time:
            self._pipe.write(written + b"\n")
            self._pipe.flush()


def find(ref: str) -> Callable[..., object]:
    """Import the function `module:qualname`. Raises PermanentError, and whatever the import raises."""
    name, _, qualname = ref.partition(":")
    found: Any = importlib.import_module(name)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if not inspect.isroutine(found):
        raise PermanentError(f"{ref} does not exist in a process of its own: {name} has no function {qualname}")
    return found


def attempt(request: dict[str, Any], messages: Messages) -> AttemptResult:
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    context = Context(
        run_id=request["run"],
        job=request["job"],
        fire_at=datetime.fromisoformat(request["fire_at"]),
        attempt=request["attempt"],
        fence=request["fence"],
        node=request["node"],
        chain_id=request["chain_id"],
        args=request["args"],
        sink=messages.line,
        cancelled=stopping.is_set,
        shard=None if request["shard"] is None else Shard(*request["shard"]),
    )
    try:
        function = find(request["ref"])
        bound = bind(function, context, request["args"])
        if inspect.iscoroutinefunction(function):
            return finished(asyncio.run(_in_loop(bound, stopping)))
        return finished(bound())
    except BaseException as error:
        return failed(error)


async def _in_loop(bound: Callable[[], object], stopping: threading.Event) -> object:
    task = asyncio.current_task()
    assert task is not None

    def stop() -> None:
        stopping.set()
        task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
    result: object = await bound()  # type: ignore[misc]
    return result


def main() -> None:
    """Read the request, run it and send the result."""
    hide_process()
    with os.fdopen(int(sys.argv[1]), "wb", buffering=0) as pipe:
        messages = Messages(pipe)
        request = orjson.loads(sys.stdin.buffer.read())
        sys.path[:] = request["path"]
        messages.end(attempt(request, messages))
        sys.stdout.flush()
        sys.stderr.flush()
    # Exit even if the function left threads behind.
    os._exit(0)


if __name__ == "__main__":
    main()
