"""The machine's clock, and the clocks of the servers."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Time. `now` decides what is due, `monotonic` measures leases. No other code reads a clock."""

    def now(self) -> datetime:
        """UTC. May step forward or back."""

    def monotonic(self) -> float:
        """Seconds. Never steps."""

    async def sleep(self, seconds: float) -> None:
        """Sleep for at least this long."""

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        """Wait until the event is set, or this long. Returns whether it is set."""


class ServerClock(Protocol):
    """A server's clock."""

    async def now(self) -> datetime:
        """UTC."""
