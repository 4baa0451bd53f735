"""A clock that moves only when a test advances it."""

from __future__ import annotations

import asyncio
import heapq
from datetime import UTC, datetime, timedelta

SETTLE_ROUNDS = 50


class FakeClock:
    """The Clock port on virtual time. `advance` wakes sleepers in the order of their deadlines, one at a time."""

    def __init__(self, start: datetime = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)) -> None:
        self._start = start
        self._elapsed = 0.0
        self._step = timedelta(0)
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
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
        self._count += 1
        heapq.heappush(self._sleepers, (self._elapsed + max(0.0, seconds), self._count, future))
        await future

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        sleeper = asyncio.ensure_future(self.sleep(seconds))
        waiter = asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait({sleeper, waiter}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeper.cancel()
            waiter.cancel()
        return event.is_set()

    async def advance(self, seconds: float) -> None:
        """Let time pass. Everything that becomes due on the way runs."""
        target = self._elapsed + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= target:
            at, _, future = heapq.heappop(self._sleepers)
            self._elapsed = max(self._elapsed, at)
            if not future.done():
                future.set_result(None)
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
