"""Cluster time: the median of the clocks of this node, Redis and MongoDB, so that no wrong clock fires a job early.

It only decides *when* to act; safety depends on no clock. The servers' clocks are sampled, and the monotonic clock
carries the time forward in between. From the first sample on it never steps back, and it accepts a step forward of more
than five seconds only when three samples from two servers agree: one wrong reply must not run tomorrow's schedule
today. A node whose own clock is wrong does not lead, and when no two clocks agree no node leads.
"""

from __future__ import annotations

import threading
from collections import deque
from datetime import UTC, datetime

AGREE_WITHIN_S = 2.0
STEP_S = 5.0
SAMPLES_FOR_A_STEP = 3
SAMPLE_LASTS_S = 600.0


class ClusterTime:
    """The cluster time on one node. All methods may be called from any thread; monotonic times are in seconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._offsets: dict[str, tuple[float, float]] = {}
        self._last: tuple[float, float] | None = None
        self._since_step: deque[tuple[str, float]] = deque(maxlen=16)

    def observe(self, source: str, theirs: datetime, asked: float, answered: float) -> None:
        """Add a sample of a server's clock, taken between two monotonic times: halfway (Cristian, 1989)."""
        with self._lock:
            offset = theirs.timestamp() - (asked + answered) / 2
            self._offsets[source] = (offset, answered)
            self._since_step.append((source, offset))

    @property
    def is_sampled(self) -> bool:
        """Whether a server has answered yet. Until then only this machine's clock is known."""
        return bool(self._offsets)

    def shift(self, seconds: float) -> None:
        """All clocks are set forward at once. Only a simulation does this, to skip a time in which nothing happens."""
        with self._lock:
            self._offsets = {source: (offset + seconds, at) for source, (offset, at) in self._offsets.items()}
            if self._last is not None:
                self._last = (self._last[0] + seconds, self._last[1])
            self._since_step.clear()

    def now(self, wall: datetime, monotonic: float) -> datetime:
        """The cluster time, from this node's own two clocks."""
        with self._lock:
            times = [wall.timestamp()]
            for offset, at in self._offsets.values():
                if monotonic - at <= SAMPLE_LASTS_S:
                    times.append(offset + monotonic)
            candidate = _middle(times)
            accepted = candidate
            if self._last is not None:
                expected = self._last[0] + (monotonic - self._last[1])
                if candidate > expected + STEP_S and not self._is_confirmed(candidate, monotonic):
                    accepted = expected
                else:
                    accepted = max(candidate, self._last[0])
            if accepted == candidate:
                self._since_step.clear()
            if self.is_sampled:
                # Before, it is only this node's clock, which may be ahead: the time would then stand still.
                self._last = (accepted, monotonic)
            return datetime.fromtimestamp(accepted, UTC)

    def offset_s(self, wall: datetime, monotonic: float) -> dict[str, float]:
        """By how many seconds each server's clock is ahead of this node's."""
        with self._lock:
            return {source: at - wall.timestamp() for source, at in self._theirs(monotonic).items()}

    def complaint(self, wall: datetime, monotonic: float) -> str | None:
        """Why this node must not lead, or None. With samples of fewer than two servers there is nothing to compare."""
        offsets = self.offset_s(wall, monotonic)
        if len(offsets) < 2 or any(abs(offset) <= AGREE_WITHIN_S for offset in offsets.values()):
            return None
        listed = ", ".join(f"{source} {offset:+.1f} s" for source, offset in sorted(offsets.items()))
        if max(offsets.values()) - min(offsets.values()) <= AGREE_WITHIN_S:
            return f"this machine's clock is off ({listed})"
        return f"no two clocks agree ({listed})"

    def _is_confirmed(self, candidate: float, monotonic: float) -> bool:
        agreeing = [
            source for source, offset in self._since_step if abs(offset + monotonic - candidate) <= AGREE_WITHIN_S
        ]
        return len(agreeing) >= SAMPLES_FOR_A_STEP and len(set(agreeing)) > 1

    def _theirs(self, monotonic: float) -> dict[str, float]:
        return {
            source: offset + monotonic
            for source, (offset, at) in self._offsets.items()
            if monotonic - at <= SAMPLE_LASTS_S
        }


def _middle(times: list[float]) -> float:
    # The earlier of two clocks: late is better than early.
    return sorted(times)[(len(times) - 1) // 2]
