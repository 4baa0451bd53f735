"""The jobs whose runs wait for another run of their job.

However many runs of such a job wait, the reconciler looks at the first ones and then leaves the job out, until a run
has ended or a second has passed.
"""

from __future__ import annotations

from collections.abc import Collection

from cronflow.ports import Clock

LEFT_OUT_S = 1.0
LEFT_OUT_AT_LEAST_S = 0.1
"""Runs end often on a busy cluster."""


class BlockedJobs:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._jobs: set[str] = set()
        self._since = 0.0
        self._run_ended = False

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def add(self, jobs: Collection[str]) -> bool:
        """Returns whether one of them is new."""
        before = len(self._jobs)
        if jobs and not before:
            self._since, self._run_ended = self._clock.monotonic(), False
        self._jobs.update(jobs)
        return len(self._jobs) > before

    def run_ended(self) -> None:
        """A run has ended, perhaps of one of these jobs."""
        self._run_ended = True

    def current(self) -> frozenset[str]:
        """The jobs to leave out now."""
        if self._jobs and self.left_s() <= 0:
            self._jobs.clear()
        return frozenset(self._jobs)

    def left_s(self) -> float:
        """The seconds until none is left out."""
        if not self._jobs:
            return 0.0
        after = LEFT_OUT_AT_LEAST_S if self._run_ended else LEFT_OUT_S
        return self._since + after - self._clock.monotonic()
