"""The maintenance mode of the cluster: nothing new starts until it is turned off or ends by itself.

It is stored in MongoDB, so it survives every process and the loss of Redis. Running attempts end, and election and
heartbeats go on. Fires that fall due meanwhile are late when it ends, and each job's misfire policy applies.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

HELD = "the cluster is in maintenance"


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceMode:
    """Since when, by whom, why, and until when; `until` None: until somebody turns it off."""

    since: datetime
    by: str = ""
    note: str = ""
    until: datetime | None = None

    def holds(self, now: datetime) -> bool:
        """Whether it has not ended by itself."""
        return self.until is None or now < self.until

    def __str__(self) -> str:
        return f"{HELD}: {self.note}" if self.note else HELD
