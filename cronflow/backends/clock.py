"""The system's clock."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime


class SystemClock:
    """The Clock port on the system's clocks."""

    def now(self) -> datetime:
        """The wall clock."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """The clock that event loops go by, so that all agree on how long a second is; from any thread."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """asyncio.sleep."""
        await asyncio.sleep(seconds)

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        """Until the event is set, at most that long."""
        if seconds <= 0 or event.is_set():
            await asyncio.sleep(0)
            return event.is_set()
        try:
            async with asyncio.timeout(seconds):
                return await event.wait()
        except TimeoutError:
            return False
