"""Time, as the code asks for it: the machine's clock, and the clocks of the servers."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Time. `now` decides when; `monotonic` measures leases; nothing else in the code reads a clock."""

    def now(self) -> datetime:
        """UTC; may step."""

    def monotonic(self) -> float:
        """Seconds; never steps back."""

    async def sleep(self, seconds: float) -> None:
        """At least that long."""

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        """Until the event is set, at most that long. Returns whether it was set."""


class ServerClock(Protocol):
    """A server's clock."""

    async def now(self) -> datetime:
        """What it shows, in UTC."""
