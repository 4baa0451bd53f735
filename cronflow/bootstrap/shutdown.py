"""SIGTERM and SIGINT, from the first moment of a process to its last.

The rule: no signal is lost. asyncio turns a SIGINT into a cancellation, which drivers may take for themselves while
they connect; then a process that was told to end would go on. So the signals are taken here before anything is opened.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import TypeVar

Opened = TypeVar("Opened")


class ShutdownSignals:
    """The end that somebody may ask this process for. To be made in its event loop, before all else."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._stop: Callable[[int], object] = lambda _number: self._asked.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._signal, number)

    def _signal(self, number: int) -> None:
        self._stop(number)

    async def before(self, opening: Coroutine[object, object, Opened]) -> Opened | None:
        """What it opens, or None when the end was asked for meanwhile; its errors are the caller's."""
        asked = asyncio.create_task(self._asked.wait())
        opened = asyncio.create_task(opening)
        try:
            await asyncio.wait({opened, asked}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()
        if self._asked.is_set():
            opened.cancel()
            await asyncio.wait({opened})
            if not opened.cancelled():
                # It was too late to stop it, or it failed: neither matters any more.
                opened.exception()
            return None
        return opened.result()

    def stops(self, stop: Callable[[int], object]) -> bool:
        """From now on a signal calls this, with its number. False when the end was asked for already."""
        self._stop = stop
        return not self._asked.is_set()
