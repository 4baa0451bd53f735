"""A clock that moves only when a test advances it."""

from __future__ import annotations

import asyncio
import heapq
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
        loop = asyncio.get_running_loop()
        waiting = True

        def expire() -> bool:
            if waiting:
                timeout.reschedule(loop.time())
            return waiting

        try:
            # Without a task of its own, because nodes wait all the time.
            async with asyncio.timeout(None) as timeout:
                self._wake_after(seconds, expire)
                try:
                    await event.wait()
                finally:
                    waiting = False
        except TimeoutError:
            return event.is_set()
        return True

    def _wake_after(self, seconds: float, wake: Callable[[], bool]) -> None:
        self._count += 1
        heapq.heappush(self._sleepers, (self._elapsed + max(0.0, seconds), self._count, wake))

    async def advance(self, seconds: float) -> None:
        """Let time pass. Everything that becomes due on the way runs."""
        target = self._elapsed + seconds
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
