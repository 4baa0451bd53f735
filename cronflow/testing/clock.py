"""A clock that moves only when a test advances it."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

SETTLE_ROUNDS = 50


class FakeClock:
    """The Clock port on virtual time. `advance` wakes sleepers in the order of their deadlines, one at a time."""

    def __init__(self, start: datetime = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)) -> None:
        self._start = start
        self._elapsed = 0.0
        self._step = timedelta(0)
        self._sleepers: list[tuple[float, int, Callable[[], bool]]] = []
        self._count = 0

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed) + self._step

    def monotonic(self) -> float:
        return self._elapsed

    def step(self, delta: timedelta) -> None:
        """Set the wall clock forward or back, as a bad NTP server would. `monotonic` is unaffected."""
        self._step += delta

    async def sleep(self, seconds: float) -> None:
        future = asyncio.get_running_loop().create_future()

        def wake() -> bool:
            if future.done():
                return False
            future.set_result(None)
            return True

        self._wake_after(seconds, wake)
        await future

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        if event.is_set():
            # Yield all the same, so that a loop that waits for a set event cannot block the event loop.
            await asyncio.sleep(0)
            return True
        future = asyncio.get_running_loop().create_future()

        def expire() -> bool:
            if future.done():
                return False
            future.set_result(False)
            return True

        # As `event.wait()` does, which would need a task or a timeout of its own. Nodes wait all the time.
        waiters: deque[asyncio.Future[bool]] = event._waiters  # noqa: SLF001
        waiters.append(future)
        self._wake_after(seconds, expire)
        try:
            return await future or event.is_set()
        finally:
            waiters.remove(future)

    def _wake_after(self, seconds: float, wake: Callable[[], bool]) -> None:
        self._count += 1
        heapq.heappush(self._sleepers, (self._elapsed + max(0.0, seconds), self._count, wake))

    async def advance(self, seconds: float) -> None:
        """Let time pass. Everything that becomes due on the way runs."""
        target = self._elapsed + seconds
        if getattr(asyncio.get_running_loop(), "_ready", True):
            await self.settle()
        while self._sleepers and self._sleepers[0][0] <= target:
            at, _, wake = heapq.heappop(self._sleepers)
            self._elapsed = max(self._elapsed, at)
            if wake():
                await self.settle()
        self._elapsed = target
        await self.settle()

    async def settle(self) -> None:
        """Run everything that can run without time passing.

        Stops when the loop has nothing ready, so advancing an idle clock costs one loop iteration. A loop without
        `_ready` gets all the rounds.
        """
        ready = getattr(asyncio.get_running_loop(), "_ready", True)
        for _ in range(SETTLE_ROUNDS):
            await asyncio.sleep(0)
            if not ready:
                break
