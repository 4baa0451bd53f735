"""How many runs a node accepts beyond its free slots, so that its queue does not run dry between rounds of the planner.

By Little's law a node ends `slots / mean duration` runs per second. It accepts as many ahead as it ends in about a
second. Slots whose run has lasted longer than that do not count, so nothing is queued behind long runs. A node that has
ended no run accepts none ahead.
"""

from __future__ import annotations

AHEAD_S = 1.0
MOST_AHEAD = 1000
"""Few enough for a slow machine to start within the time that an item may wait in a list."""
WEIGHT = 0.1


class Throughput:
    """The mean time for which runs occupied one of the `slots`, as a moving average."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._mean_s: float | None = None

    def ended(self, seconds: float) -> None:
        """Add a run that occupied a slot for so many seconds."""
        self._mean_s = seconds if self._mean_s is None else self._mean_s + WEIGHT * (seconds - self._mean_s)

    def ahead(self, long: int) -> int:
        """The number of runs to accept ahead. `long` is the number of runs that occupy a slot for more than AHEAD_S."""
        if self._mean_s is None:
            return 0
        return min(MOST_AHEAD, int((self._slots - long) * AHEAD_S / max(self._mean_s, 1e-6)))
