"""Limits how often a role reads what changes rarely, although every change of a job or a run wakes it."""

from __future__ import annotations

import math

from cronflow.ports import Clock

SHORTEST_S = 0.001


class ReadLimit:
    """At most one read in `every_s`."""

    def __init__(self, clock: Clock, every_s: float) -> None:
        self._clock = clock
        self._every_s = every_s
        self._next = -math.inf

    def wait_s(self) -> float:
        """How long to wait for the next read; 0: it may be done now, and counts."""
        now = self._clock.monotonic()
        if self._next - now > SHORTEST_S:
            return self._next - now
        self._next = now + self._every_s
        return 0.0

    def reset(self) -> None:
        """The next read need not wait."""
        self._next = -math.inf
