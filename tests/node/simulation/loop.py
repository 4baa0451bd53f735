"""An event loop that can stop one node, as SIGSTOP would, while the others and the clock go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Any

from cronflow.testing.virtual_time import VirtualTimeLoop

ACTING: ContextVar[str] = ContextVar("acting", default="")
"""The node whose task this is; the tasks that it creates inherit it."""


class StoppableLoop(VirtualTimeLoop):
    """No task of a stopped node gets a turn. What would have woken it is kept in order: timers, answers, signals."""

    def __init__(self) -> None:
        super().__init__()
        self._stopped: dict[str, list[asyncio.Handle]] = {}

    @property
    def stopped(self) -> list[str]:
        """The names of the stopped nodes."""
        return list(self._stopped)

    def stop_node(self, name: str) -> None:
        """SIGSTOP."""
        self._stopped.setdefault(name, [])

    def continue_node(self, name: str) -> None:
        """SIGCONT."""
        self._ready.extend(self._stopped.pop(name, []))  # type: ignore[attr-defined]

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """The turn comes when the node continues."""
        handle = asyncio.Handle(callback, args, self, context)
        turns = self._ready  # type: ignore[attr-defined]
        if self._stopped:
            node = ACTING.get() if context is None else context.get(ACTING, "")
            turns = self._stopped.get(node, turns)
        turns.append(handle)
        return handle
