"""How often each waiting job was deferred in a row, for its back-off.

A waiting job is looked at every few seconds, so an entry that nobody has touched for a minute belongs to a job that no
longer waits: it was deleted, paused or edited. It is dropped, so a long term keeps no more than what waits.
"""

from __future__ import annotations

from collections import OrderedDict

from cronflow.ports import Clock

FORGOTTEN_AFTER_S = 60.0


class Deferrals:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, job: str) -> int:
        """Count a deferral of the job. Returns how many there were before."""
        now = self._clock.monotonic()
        self._forget(now - FORGOTTEN_AFTER_S)
        rounds, _ = self._entries.pop(job, (0, now))
        self._entries[job] = (rounds + 1, now)
        return rounds

    def remove(self, job: str) -> None:
        """The job was planned."""
        self._entries.pop(job, None)

    def clear(self) -> None:
        self._entries.clear()

    def _forget(self, before: float) -> None:
        # The entries are in the order of their last deferral.
        while self._entries and next(iter(self._entries.values()))[1] < before:
            self._entries.popitem(last=False)
