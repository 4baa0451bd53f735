"""Handles SIGTERM and SIGINT from the start of a process to its end.

No signal is lost. asyncio turns SIGINT into a cancellation, which drivers may swallow while they connect, and the
process would continue. Therefore these handlers are installed before anything is opened.

The process ends within a time limit after the first signal, although a name look-up or a handler hangs in a thread: the
interpreter would wait for that thread, and the supervisor would have to kill the process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from typing import TypeVar

import structlog

Opened = TypeVar("Opened")

log = structlog.get_logger("cronflow.node")


def _exit(limit_s: float) -> None:
    log.error("stop overdue", limit_s=limit_s, remedy="the process ends now; what it had not recorded is recovered")
    os._exit(1)


class ShutdownSignals:
    """Create it in the event loop of the process, before anything else. `exit_after` seconds after the first signal the
    process ends with exit code 1, whatever it still does.
    """

    def __init__(self, exit_after: float | None = None) -> None:
        self._exit_after = exit_after
        self._requested = asyncio.Event()
        self._stop: Callable[[int], object] = lambda _number: self._requested.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._signal, number)

    def _signal(self, number: int) -> None:
        if self._exit_after is not None:
            overdue = threading.Timer(self._exit_after, _exit, (self._exit_after,))
            overdue.daemon = True
            overdue.start()
            self._exit_after = None
        self._stop(number)

    async def before(self, opening: Coroutine[object, object, Opened]) -> Opened | None:
        """The result of `opening`, or None if shutdown is requested first. Raises what `opening` raises."""
        requested = asyncio.create_task(self._requested.wait())
        opened = asyncio.create_task(opening)
        try:
            await asyncio.wait({opened, requested}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            requested.cancel()
        if self._requested.is_set():
            opened.cancel()
            await asyncio.wait({opened})
            if not opened.cancelled():
                # It completed or failed anyway; retrieve the exception so that asyncio does not report it.
                opened.exception()
            return None
        return opened.result()

    def stops(self, stop: Callable[[int], object]) -> bool:
        """Make signals call `stop` with their number. Returns False if shutdown was already requested."""
        self._stop = stop
        return not self._requested.is_set()
