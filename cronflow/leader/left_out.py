"""What the reconciler leaves out of the queue of waiting runs: jobs whose runs wait for another run of their job, and
the reasons of runs that wait for a limit.

However many runs wait for the same, the reconciler looks at the first ones and leaves the others out, until a run has
ended or a second has passed, or until the time at which a rate allows the next start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from math import inf

from cronflow.ports import Clock

LEFT_OUT_S = 1.0
LEFT_OUT_AT_LEAST_S = 0.1
"""Runs end often on a busy cluster."""


@dataclass(slots=True)
class _Span:
    """From when until when, monotonic. `fixed`: the end of a run changes nothing."""

    since: float
    until: float
    fixed: bool


class LeftOut:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[str, _Span] = {}

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add(self, names: Mapping[str, timedelta | None]) -> bool:
        """Leave these out for so long; None: until a run has ended, at most a second. Returns whether one is new."""
        before, now = len(self._entries), self._clock.monotonic()
        for name, pause in names.items():
            seconds = LEFT_OUT_S if pause is None else pause.total_seconds()
            self._entries.setdefault(name, _Span(now, now + seconds, pause is not None))
        return len(self._entries) > before

    def run_ended(self) -> None:
        """A run has ended, perhaps one that others wait for."""
        for entry in self._entries.values():
            if not entry.fixed:
                entry.until = min(entry.until, entry.since + LEFT_OUT_AT_LEAST_S)

    def current(self) -> frozenset[str]:
        """What to leave out now."""
        now = self._clock.monotonic()
        self._entries = {name: entry for name, entry in self._entries.items() if entry.until > now}
        return frozenset(self._entries)

    def left_s(self) -> float:
        """The seconds until the first one is no longer left out; infinite without any."""
        return min((entry.until for entry in self._entries.values()), default=inf) - self._clock.monotonic()
