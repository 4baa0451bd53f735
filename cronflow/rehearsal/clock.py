"""The clock of a rehearsal. Its wall clock can skip time; its monotonic clock, the time of the loop, does not notice.

Leases, heartbeats and polls are measured by the monotonic clock, so they cost nothing while the wall clock skips a time
in which nothing happens.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from cronflow.testing.virtual_time import VirtualClock


class RehearsalClock(VirtualClock):
    """The Clock port. The wall clock shows `begin` when the loop is created."""

    def __init__(self, begin: datetime) -> None:
        self._begin = begin

    def now(self) -> datetime:
        return self._begin + timedelta(seconds=self.monotonic())

    def skip(self, time: timedelta) -> None:
        """Set the wall clock forward."""
        self._begin += time
