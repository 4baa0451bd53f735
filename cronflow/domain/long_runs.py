"""How long a job usually runs, and which of its runs take longer than that.

Rule: a run is long when it takes more than twice as long as 95 % of the job's latest successful runs, and at least ten
seconds longer. Jobs with fewer than ten successful runs have no usual duration.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

MOST_COMPARED = 50
LEAST_COMPARED = 10
TIMES = 2
AT_LEAST_LONGER = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class UsualDuration:
    """The 95th percentile of the durations of the latest `runs` successful runs."""

    p95: timedelta
    runs: int

    @property
    def limit(self) -> timedelta:
        """A run that takes longer than this is long."""
        return max(self.p95 * TIMES, self.p95 + AT_LEAST_LONGER)

    def __str__(self) -> str:
        return f"95 % of the last {self.runs} successful runs took at most {seconds(self.p95)}"


@dataclass(frozen=True, slots=True)
class LongRun:
    """A running run that takes longer than usual."""

    run: str
    job: str
    node: str
    started_at: datetime
    usual: UsualDuration


def usual_duration(durations: Sequence[timedelta]) -> UsualDuration | None:
    """Of the durations of a job's latest successful runs; None if they are too few."""
    if len(durations) < LEAST_COMPARED:
        return None
    rank = math.ceil(0.95 * len(durations))
    return UsualDuration(sorted(durations)[rank - 1], len(durations))


def seconds(length: timedelta) -> str:
    """A duration for a sentence, such as 0.2 s, 45 s or 7,200 s."""
    found = length.total_seconds()
    return f"{found:.2g} s" if found < 10 else f"{found:,.0f} s"
