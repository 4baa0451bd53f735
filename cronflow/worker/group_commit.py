"""Group commit: combines many small writes into a few large ones.

The caller of `put` can await the result of its own item. Items are collected for a few milliseconds, or until the batch
is full. One flush runs at a time, so batches grow when the store is slow. While the store is unavailable the batch is
retried: nothing is dropped, until the node stops and gives up.
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

MOST_AT_ONCE = 500


class GroupCommit(Generic[T, R]):
    """Collects items and passes them to `flush`, which returns one result for each, in order. `linger_s` (seconds) may
    be changed at any time.
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
        self._answer_of_failures: tuple[R] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, item: T) -> asyncio.Future[R]:
        """Add an item; the future gets its result after the flush."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        self._filled.set()
        if len(self._waiting) >= MOST_AT_ONCE:
            self._full.set()
        return future

    def give_up(self, answer: R) -> None:
        """From now on no batch is retried: if the store is unavailable, the callers get `answer`."""
        self._answer_of_failures = (answer,)

    def hurry(self) -> None:
        """Flush the waiting items without lingering."""
        self._full.set()

    async def run(self) -> None:
        """Flush until cancelled."""
        while True:
            await self._filled.wait()
            if self.linger_s and len(self._waiting) < MOST_AT_ONCE:
                await self._clock.wait(self._full, self.linger_s)
            self._full.clear()
            batch, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
            if not self._waiting:
                self._filled.clear()
            # An item is flushed even if its caller no longer waits: it happened.
            items = [item for item, _ in batch]
            results = await self._flushed(items)
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)

    async def _flushed(self, items: Sequence[T]) -> Sequence[R]:
        while True:
            try:
                results = await self._flush(items)
            except BackendUnavailable as error:
                self._outages.failed(self._name, error)
                if self._answer_of_failures is not None:
                    return [*self._answer_of_failures] * len(items)
                await self._clock.sleep(RETRY_S)
            else:
                self._outages.worked(self._name)
                return results


async def apply_each(runs: RunStore, changes: Sequence[Change]) -> list[bool]:
    """Apply changes, several of which may concern one run. Returns for each whether it was applied, now or earlier.

    A store returns the runs that it changed, so one call may contain one change per run. A node may hold a run twice:
    its item was duplicated, or the leader placed it again on the same node before it was taken. One call would then
    report both attempts as started, and two handlers would run.
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
