"""The audit checks that every due instant has exactly one run.

It compares the runs that exist with the fires that the schedule oracle computes. It checks records, not effects: the
attempts show how often a handler started.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from operator import itemgetter
from typing import Generic, TypeVar

from cronflow.domain.run import DEAD, SCHEDULED, Run
from cronflow.domain.schedule.fires import is_dynamic
from cronflow.domain.schedule.kinds import Schedule
from cronflow.domain.version import Version, end_of
from cronflow.testing.schedule_oracle import fires_between

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Expectation:
    """A schedule of a job and the span in which it applies: from the cursor at an edit until the next edit."""

    schedule: Schedule
    since: datetime
    until: datetime | None = None


def expectations(versions: Sequence[Version]) -> list[Expectation]:
    """The schedule of each version with the span in which it applies, oldest first. What depends on when runs end
    cannot be expected.
    """
    return [
        Expectation(version.job.schedule, version.since, end_of(versions, place))
        for place, version in enumerate(versions)
        if version.job.schedule is not None and version.since is not None and not is_dynamic(version.job.schedule)
    ]


@dataclass(frozen=True, slots=True)
class Match(Generic[Item]):
    """An instant and what covers it: one item, unless it is lost or doubled. `instant` None: one that covers none."""

    instant: datetime | None
    items: Sequence[Item]


class Matcher(Generic[Item]):
    """Matches instants with the items whose ranges cover them. It holds only the items that may cover a later instant,
    so both may be streams. The instants ascend, and items are added in the order of their beginnings.
    """

    def __init__(self, instants: Iterable[datetime]) -> None:
        self._instants = iter(instants)
        self._next = next(self._instants, None)
        self._open: list[_Range[Item]] = []

    def add(self, first: datetime, last: datetime, item: Item) -> Iterator[Match[Item]]:
        """Add an item that covers the instants from `first` to `last`. Yields what no later item can change."""
        yield from self._until(first)
        self._open.append(_Range(last, item))

    def finish(self) -> Iterator[Match[Item]]:
        """Yields the rest."""
        yield from self._until(None)

    def _until(self, end: datetime | None) -> Iterator[Match[Item]]:
        while (instant := self._next) is not None and (end is None or instant < end):
            yield from self._passed(instant)
            for one in self._open:
                one.covers = True
            yield Match(instant, [one.item for one in self._open])
            self._next = next(self._instants, None)
        yield from self._passed(end)

    def _passed(self, end: datetime | None) -> Iterator[Match[Item]]:
        """Forget the items that end before this instant; yields those that covered none."""
        for one in self._open:
            if (end is None or one.last < end) and not one.covers:
                yield Match(None, [one.item])
        self._open = [one for one in self._open if end is not None and one.last >= end]


@dataclass(slots=True)
class _Range(Generic[Item]):
    """An item, the last instant that it may cover, and whether it has covered one."""

    last: datetime
    item: Item
    covers: bool = False


@dataclass(frozen=True, slots=True)
class FireAudit:
    """The result. `lost` and `doubled` are (job, instant). `lateness` is that of first starts, sorted. `dead_runs` are
    failed or lost; they do not violate the guarantee, because a job may fail for its own reasons.
    """

    fires_due: int
    lost: Sequence[tuple[str, datetime]]
    doubled: Sequence[tuple[str, datetime]]
    open_runs: Sequence[Run]
    dead_runs: Sequence[Run]
    states: Mapping[str, int]
    lateness: Sequence[timedelta]

    @property
    def holds(self) -> bool:
        """Whether every instant has exactly one run."""
        return not self.lost and not self.doubled


def audit(
    expected: Mapping[str, Expectation | Sequence[Expectation]], runs: Iterable[Run], until: datetime
) -> FireAudit:
    """Check the instants before `until`. `runs` must contain all runs of the expected jobs from their `since` on; it
    may contain others. A job that was edited has an expectation for each version (see `expectations`).
    """
    found = list(runs)
    ranges: dict[str, list[tuple[datetime, datetime]]] = {}
    for run in found:
        if run.kind in SCHEDULED:
            span = (run.fire_at, run.fire_at) if run.covers is None else (run.covers.first, run.covers.last)
            ranges.setdefault(run.job, []).append(span)
    lost, doubled, due = [], [], 0
    for job, versions in expected.items():
        for match in _matched(_fires(versions, until), ranges.get(job, ())):
            if match.instant is None:
                continue
            due += 1
            if not match.items:
                lost.append((job, match.instant))
            elif len(match.items) > 1:
                doubled.append((job, match.instant))
    return FireAudit(
        fires_due=due,
        lost=lost,
        doubled=doubled,
        open_runs=[run for run in found if run.is_open],
        dead_runs=[run for run in found if run.state in DEAD],
        states=Counter(run.state.value for run in found),
        lateness=sorted(late for late in map(_lateness, found) if late is not None),
    )


def percentile(values: Sequence[timedelta], fraction: float) -> timedelta | None:
    """The nearest-rank percentile of sorted values; None if there are no values."""
    if not values:
        return None
    return values[max(0, ceil(fraction * len(values)) - 1)]


def _matched(
    instants: Iterable[datetime], ranges: Sequence[tuple[datetime, datetime]]
) -> Iterator[Match[tuple[datetime, datetime]]]:
    matcher = Matcher[tuple[datetime, datetime]](instants)
    for first, last in sorted(ranges, key=itemgetter(0)):
        yield from matcher.add(first, last, (first, last))
    yield from matcher.finish()


def _fires(versions: Expectation | Sequence[Expectation], until: datetime) -> Iterable[datetime]:
    return sorted(
        fire
        for version in ((versions,) if isinstance(versions, Expectation) else versions)
        for fire in fires_between(version.schedule, version.since, min(until, version.until or until))
    )


def _lateness(run: Run) -> timedelta | None:
    # A run that covers missed fires is late by definition, and a manual run has no instant to be late for.
    return None if run.kind not in SCHEDULED or run.covers is not None else run.lateness
