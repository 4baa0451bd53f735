"""A processor on virtual time: work occupies its cores, and waiting costs nothing."""

from __future__ import annotations

import asyncio
import heapq


class Processor:
    """Cores that work on requests in the order in which they arrive."""

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self.busy_s = 0.0
        self._free_at = [0.0] * cores

    @property
    def utilisation(self) -> float:
        """The share of the cores' time that was used since the loop began, 0 to 1."""
        now = asyncio.get_running_loop().time()
        return min(1.0, self.busy_s / self.cores / now) if now else 0.0

    async def work(self, seconds: float) -> None:
        """Occupy a core for so long, after those that came before."""
        if seconds <= 0:
            return
        now = asyncio.get_running_loop().time()
        end = max(now, self._free_at[0]) + seconds
        heapq.heapreplace(self._free_at, end)
        self.busy_s += seconds
        await asyncio.sleep(end - now)
