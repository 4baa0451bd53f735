"""Group commit: many small writes become few.

Whoever adds an item waits for its own result. Items are collected for a few milliseconds, or until the batch is
full; one flush is under way at a time, so that batches grow exactly when the store is slow. While the store is away
the batch is kept and tried again: nothing is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.transitions import Change
from cronflow.node.role_loop import RETRY_S, Outages
from cronflow.ports import Clock, RunStore

T = TypeVar("T")
R = TypeVar("R")

MOST_AT_ONCE = 200


class GroupCommit(Generic[T, R]):
    """Collects items and hands them to `flush`, which returns one result for each, in order. `linger_s` is the wait in
    seconds and may be changed.
    """

    def __init__(
        self,
        name: str,
        flush: Callable[[Sequence[T]], Awaitable[Sequence[R]]],
        clock: Clock,
        outages: Outages,
        linger_s: float = 0.005,
    ) -> None:
        self._name = name
        self._flush = flush
        self._clock = clock
        self._outages = outages
        self.linger_s = linger_s
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._filled = asyncio.Event()
        self._full = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, item: T) -> asyncio.Future[R]:
        """Add an item; the future has its result once it was flushed."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        self._filled.set()
        if len(self._waiting) >= MOST_AT_ONCE:
            self._full.set()
        return future

    async def add(self, item: T) -> R:
        """Add an item and wait for its result."""
        return await self.put(item)

    def hurry(self) -> None:
        """Do not linger: somebody waits for what is here."""
        self._full.set()

    async def run(self) -> None:
        """Flush for ever; cancel it once nobody adds any more."""
        while True:
            await self._filled.wait()
            if self.linger_s and len(self._waiting) < MOST_AT_ONCE:
                await self._clock.wait(self._full, self.linger_s)
            self._full.clear()
            batch, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
            if not self._waiting:
                self._filled.clear()
            # An item whose owner has given up is flushed all the same: it happened.
            results = await self._flush_until_done([item for item, _ in batch])
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)

    async def _flush_until_done(self, items: Sequence[T]) -> Sequence[R]:
        while True:
            try:
                results = await self._flush(items)
            except BackendUnavailable as error:
                self._outages.failed(self._name, error)
                await self._clock.sleep(RETRY_S)
            else:
                self._outages.worked(self._name)
                return results


async def apply_each(runs: RunStore, changes: Sequence[Change]) -> list[bool]:
    """Apply changes, several of which may concern one run. Returns for each whether it applied, now or before.

    A store answers with the runs that were changed, so it takes one change of a run at a time. A node may hold a run
    twice: an item is doubled, or the leader places a run again on the node that has not taken it yet. In one call, both
    attempts would be reported as started, and two handlers would run.
    """
    results = [False] * len(changes)
    rounds: list[dict[str, int]] = [{}]
    for k, change in enumerate(changes):
        free = next((chosen for chosen in rounds if change.run not in chosen), None)
        if free is None:
            free = {}
            rounds.append(free)
        free[change.run] = k
    for chosen in rounds:
        won = await runs.apply([changes[k] for k in chosen.values()])
        for run, k in chosen.items():
            results[k] = run in won
    return results
