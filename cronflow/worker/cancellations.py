"""Finds the runs of this node that were cancelled, or that an edit has withdrawn before they began.

The marks in Redis are hints and may be lost. So the documents of runs that have begun are read as often as leases are
renewed, and a run that waits for its instant may only start within seconds of its dispatch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta

from cronflow.domain.run import AttemptResult, Outcome, cancelled_text
from cronflow.node.role_loop import SHORTEST_PAUSE_S, Wake
from cronflow.node.timings import Timings
from cronflow.ports import Clock, Queue, RunStore
from cronflow.worker.active import Active
from cronflow.worker.local_queue import LocalQueue, QueuedRun

POLL_S = 2.0
CHECKED_BEFORE_S = 0.1
"""How long before its instant a waiting run is checked once more, in case a signal was lost."""


class Cancellations:
    """`stop` is called for each attempt whose cancellation was requested, `superseded` for each whose run has ended,
    and `drop` with the waiting runs that must not start.
    """

    def __init__(
        self,
        queue: Queue,
        runs: RunStore,
        clock: Clock,
        timings: Timings,
        *,
        active: Mapping[tuple[str, int], Active],
        waiting: LocalQueue,
        stop: Callable[[Active, AttemptResult], None],
        superseded: Callable[[Active], None],
        drop: Callable[[Sequence[QueuedRun]], None],
    ) -> None:
        self._queue, self._runs = queue, runs
        self._clock = clock
        self._timings = timings
        self._active, self._waiting = active, waiting
        self._stop, self._superseded, self._drop = stop, superseded, drop
        self._documents_read_at = clock.monotonic()
        self.wake = Wake()

    async def step(self) -> float:
        runs = {active.claimed.run for active in self._active.values() if active.stop is None}
        now = self._clock.monotonic()
        if now - self._documents_read_at >= self._timings.run_lease / 3:
            self._documents_read_at = now
            await self._stop_cancelled(runs)
        elif runs:
            await self._stop_cancelled(await self._queue.cancelled(runs))
        return await self._drop_withdrawn()

    async def _stop_cancelled(self, runs: Collection[str]) -> None:
        """Stop the runs whose documents are cancelled or have a cancellation request."""
        for run in await self._runs.get(runs) if runs else ():
            for active in [active for active in self._active.values() if active.claimed.run == run.id]:
                if not run.is_open:
                    self._superseded(active)
                elif run.cancel_requested and run.fence == active.claimed.fence:
                    text = cancelled_text(run.cancel_reason, run.cancel_by)
                    self._stop(active, AttemptResult(Outcome.CANCELLED, error=text))

    async def _drop_withdrawn(self) -> float:
        """Drop the waiting runs that were cancelled or withdrawn. Returns the seconds until the next look."""
        fences = self._waiting.fences()
        if not fences:
            return POLL_S
        cancelled, withdrawn = await asyncio.gather(self._queue.cancelled(fences), self._queue.withdrawn(fences))
        gone = {run: fence for run, fence in fences.items() if run in cancelled or fence <= withdrawn.get(run, 0)}
        self._drop(self._waiting.remove(gone))
        soon = self._clock.now() + timedelta(seconds=CHECKED_BEFORE_S)
        following = self._waiting.next_instant_after(soon)
        if following is None:
            return POLL_S
        return min(POLL_S, max(SHORTEST_PAUSE_S, (following - soon).total_seconds()))
