"""Roll-ups: counts of ended runs by state, outcome, lateness and duration, per minute, hour and day.

They contain only counts, which can be added up over nodes and over time. Lateness and duration are histograms with
fixed bounds, two per doubling, so a quantile is exact to within a fifth of its value. They are for charts: a count may
be missing after a failure, and no decision depends on one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

STEPS_A_DOUBLING = 2
LAST_STEP = 60
"""The last bucket holds everything above 2**30 ms, which is twelve days."""
FIRST_ATTEMPT, RETRY = "first", "retry"


class BucketSize(StrEnum):
    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"

    @property
    def length(self) -> timedelta:
        return _LENGTHS[self]

    @property
    def kept(self) -> timedelta:
        """How long buckets of this size are kept."""
        return _KEPT[self]

    def begin(self, at: datetime) -> datetime:
        """The beginning of the bucket that contains the instant, in UTC."""
        start = at.astimezone(UTC).replace(second=0, microsecond=0)
        if self is BucketSize.MINUTE:
            return start
        return start.replace(minute=0) if self is BucketSize.HOUR else start.replace(hour=0, minute=0)


_LENGTHS = {
    BucketSize.MINUTE: timedelta(minutes=1),
    BucketSize.HOUR: timedelta(hours=1),
    BucketSize.DAY: timedelta(days=1),
}
_KEPT = {
    BucketSize.MINUTE: timedelta(days=2),
    BucketSize.HOUR: timedelta(days=14),
    BucketSize.DAY: timedelta(days=400),
}


class Span(StrEnum):
    """How far back a chart looks."""

    QUARTER = "15m"
    HOUR = "1h"
    DAY = "24h"
    WEEK = "7d"

    @property
    def length(self) -> timedelta:
        return _SPANS[self][0]

    @property
    def step(self) -> timedelta:
        """The time between two points of the chart."""
        return _SPANS[self][1]

    @property
    def resolution(self) -> BucketSize:
        """The size of the buckets that its points sum up."""
        return _SPANS[self][2]

    def points(self, now: datetime) -> list[datetime]:
        """The beginnings of its points, the oldest first; the last point is not complete yet."""
        step = self.step.total_seconds()
        last = datetime.fromtimestamp(now.timestamp() // step * step, UTC)
        count = self.length // self.step
        return [last - self.step * back for back in reversed(range(count))]


_SPANS = {
    Span.QUARTER: (timedelta(minutes=15), timedelta(minutes=1), BucketSize.MINUTE),
    Span.HOUR: (timedelta(hours=1), timedelta(minutes=1), BucketSize.MINUTE),
    Span.DAY: (timedelta(days=1), timedelta(minutes=10), BucketSize.MINUTE),
    Span.WEEK: (timedelta(days=7), timedelta(hours=1), BucketSize.HOUR),
}


def step_of(length: timedelta) -> int:
    """The histogram bucket of a duration: the smallest whose upper bound is not below it."""
    return bisect_left(_UPPER_BOUNDS_MS, length.total_seconds() * 1000)


def upper_bound_ms(step: int) -> float:
    """The upper bound of a bucket in milliseconds."""
    return float(2 ** (step / STEPS_A_DOUBLING))


_UPPER_BOUNDS_MS = [upper_bound_ms(step) for step in range(LAST_STEP)]


def quantile_ms(counts: Mapping[int, int], share: float) -> float | None:
    """The quantile in milliseconds, by interpolation within its bucket; None without counts."""
    total = sum(counts.values())
    if not total:
        return None
    rank, seen = share * total, 0
    for step in sorted(counts):
        if seen + counts[step] >= rank:
            low = upper_bound_ms(step - 1) if step else 0.0
            return low + (upper_bound_ms(step) - low) * (rank - seen) / counts[step]
        seen += counts[step]
    raise AssertionError("the ranks end with the total")


@dataclass(slots=True)
class Tally:
    """The counts of one bucket, or the sum of several. Mutable."""

    states: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    lateness: Counter[int] = field(default_factory=Counter)
    duration: Counter[int] = field(default_factory=Counter)
    attempts: Counter[str] = field(default_factory=Counter)
    """Attempts that started and ended: FIRST_ATTEMPT and RETRY. Nodes of 0.9 do not count them."""

    @property
    def ended(self) -> int:
        """The number of ended runs."""
        return sum(self.states.values())

    def add(self, other: Tally) -> None:
        self.states.update(other.states)
        self.outcomes.update(other.outcomes)
        self.lateness.update(other.lateness)
        self.duration.update(other.duration)
        self.attempts.update(other.attempts)

    def parts(self) -> dict[str, Mapping[str, int] | Mapping[int, int]]:
        return {
            "states": self.states,
            "outcomes": self.outcomes,
            "lateness": self.lateness,
            "duration": self.duration,
            "attempts": self.attempts,
        }


@dataclass(frozen=True, slots=True)
class Bucket:
    """The counts of a minute, an hour or a day of the whole cluster."""

    resolution: BucketSize
    at: datetime
    tally: Tally


def summed(buckets: Iterable[Bucket]) -> Tally:
    """The sum of several buckets."""
    total = Tally()
    for bucket in buckets:
        total.add(bucket.tally)
    return total


def over(points: Sequence[datetime], buckets: Iterable[Bucket]) -> list[Tally]:
    """The sum of the buckets between each point and the next; without buckets it is an empty tally."""
    tallies = [Tally() for _ in points]
    for bucket in buckets:
        place = bisect_right(points, bucket.at) - 1
        if place >= 0:
            tallies[place].add(bucket.tally)
    return tallies
