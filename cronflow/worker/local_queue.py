"""The runs that a node has taken and not begun: each waits for its instant, then for a free slot.

Rule: a run leaves in the order of instants, then of priorities, and never before its instant. The worker holds their
job locks. Of two dispatches of a run only the one with the higher fence is kept.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from cronflow.ports import Assignment
from cronflow.worker.active import claimed_of
from cronflow.worker.leases import STOP_TAKES_S, Lease


@dataclass(frozen=True, slots=True)
class QueuedRun:
    """A run that waits. It must start by the monotonic time `start_by`; the node took it at `taken`."""

    assignment: Assignment
    start_by: float
    taken: float = 0.0

    @property
    def instant(self) -> datetime:
        return self.assignment.not_before or self.assignment.fire_at

    def lease(self, node: str) -> Lease:
        """Its start is not recorded, so only its job lock is renewed."""
        until = self.start_by + self.assignment.job.timeout.total_seconds() + STOP_TAKES_S
        return Lease(claimed_of(self.assignment, node, ""), self.assignment.job_lock, marked=False, until=until)


class LocalQueue:
    def __init__(self) -> None:
        self._runs: dict[str, QueuedRun] = {}
        # With entries of runs that have left since.
        self._heap: list[tuple[datetime, int, int, QueuedRun]] = []
        self._count = itertools.count()

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, queued: QueuedRun) -> None:
        """Add the run, unless a newer dispatch of it is here. It replaces an older one."""
        run = queued.assignment.run
        present = self._runs.get(run)
        if present is not None and present.assignment.fence >= queued.assignment.fence:
            return
        self._runs[run] = queued
        heapq.heappush(self._heap, (queued.instant, -queued.assignment.job.priority, next(self._count), queued))

    def pop_due(self, now: datetime) -> QueuedRun | None:
        """Remove the first run, if its instant has come."""
        first = self.next_instant()
        if first is None or first > now:
            return None
        queued = heapq.heappop(self._heap)[-1]
        del self._runs[queued.assignment.run]
        return queued

    def next_instant(self) -> datetime | None:
        """The earliest instant; None if nothing waits."""
        while self._heap and not self._is_here(self._heap[0][-1]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def next_instant_after(self, at: datetime) -> datetime | None:
        """The earliest instant after this one."""
        return min((queued.instant for queued in self._runs.values() if queued.instant > at), default=None)

    def remove(self, fences: Mapping[str, int]) -> list[QueuedRun]:
        """Remove these runs, as far as they wait under these fences. Returns them."""
        gone = [
            queued
            for run, fence in fences.items()
            if (queued := self._runs.get(run)) is not None and queued.assignment.fence == fence
        ]
        for queued in gone:
            del self._runs[queued.assignment.run]
        return gone

    def remove_due(self, now: datetime) -> list[QueuedRun]:
        """Remove the runs that wait for a slot. Returns them."""
        gone = []
        while (queued := self.pop_due(now)) is not None:
            gone.append(queued)
        return gone

    def remove_late(self, monotonic: float) -> list[QueuedRun]:
        """Remove the runs that may not start any more. Returns them."""
        return self.remove({run: one.assignment.fence for run, one in self._runs.items() if one.start_by < monotonic})

    def clear(self) -> list[QueuedRun]:
        """Remove all runs. Returns them."""
        gone = self.all()
        self._runs.clear()
        self._heap.clear()
        return gone

    def all(self) -> list[QueuedRun]:
        """May be called from any thread."""
        return list(self._runs.values())

    def fences(self) -> dict[str, int]:
        """The runs that wait, with their fences."""
        return {run: queued.assignment.fence for run, queued in self._runs.items()}

    def _is_here(self, queued: QueuedRun) -> bool:
        return self._runs.get(queued.assignment.run) is queued
