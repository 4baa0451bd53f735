"""How many runs a node accepts beyond its free slots, so that its queue does not run dry between rounds of the planner.

By Little's law a node ends `slots / mean duration` runs per second. It accepts as many ahead as it ends in about a
second. Slots whose run has lasted longer than that do not count, so nothing is queued behind long runs. A node that has
ended no run accepts none ahead.

Runs that wait for their instant use no slot until then. A node accepts as many as it ends in about two seconds, and
many before it has ended any: what finds no slot within a second is given back.

A node whose machine is busy starts fewer than that, and what lies in its list for too long is sent again. So the bound
is halved when items lay too long, and grows again while none does, like the window of TCP.
"""

from __future__ import annotations

AHEAD_S = 1.0
MOST_AHEAD = 1000
"""Few enough for a slow machine to start within the time that an item may wait in a list."""
EARLY_S = 2.0
"""Less than the three seconds from the instant in which a run that was dispatched two seconds early must start."""
MOST_EARLY = 2000
WEIGHT = 0.1


class Throughput:
    """The mean time for which runs occupied one of the `slots`, as a moving average."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._mean_s: float | None = None
        self._most = MOST_AHEAD
        self._seen, self._settle = 0, 0

    def ended(self, seconds: float) -> None:
        """Add a run that occupied a slot for so many seconds."""
        self._mean_s = seconds if self._mean_s is None else self._mean_s + WEIGHT * (seconds - self._mean_s)
        self._seen += 1
        if self._seen >= self._settle + self._most:
            self._seen = self._settle = 0
            self._most = min(MOST_AHEAD, self._most + max(1, self._most // 4))

    def dropped(self, count: int) -> None:
        """So many items were not started, because they lay too long in the list; or because they were cancelled, which
        is rare. What was accepted before the bound was halved does not halve it again.
        """
        self._seen += count
        if self._seen >= self._settle:
            self._seen, self._settle = 0, self._most
            self._most = max(1, self._most // 2)

    def ahead(self, long: int) -> int:
        """The number of runs to accept ahead. `long` is the number of runs that occupy a slot for more than AHEAD_S."""
        return min(self._most, self._ends_within(AHEAD_S, long))

    def early(self, long: int) -> int:
        """The same for runs that wait for their instant."""
        return MOST_EARLY if self._mean_s is None else min(MOST_EARLY, self._ends_within(EARLY_S, long))

    def _ends_within(self, seconds: float, long: int) -> int:
        if self._mean_s is None:
            return 0
        return int((self._slots - long) * seconds / max(self._mean_s, 1e-6))
