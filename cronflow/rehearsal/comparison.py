"""Compares two rehearsals of the same period: before and after a change of the jobs, or with other zone data."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cronflow.domain.run import RunState
from cronflow.rehearsal.report import Rehearsal

NOTHING = timedelta(0)


@dataclass(frozen=True, slots=True)
class JobSums:
    """What a job does in the period: the instants of its runs, and how many fires are late, covered and skipped."""

    fires: tuple[datetime, ...] = ()
    late: int = 0
    max_late: timedelta = NOTHING
    covered: int = 0
    skipped: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class Difference:
    """A job that does something else. `gone` are fires that only the first rehearsal has, `added` those of the second.
    `known_before` and `known_after`: whether the job exists.
    """

    job: str
    before: JobSums
    after: JobSums
    known_before: bool
    known_after: bool

    @property
    def gone(self) -> list[datetime]:
        return _minus(self.before.fires, self.after.fires)

    @property
    def added(self) -> list[datetime]:
        return _minus(self.after.fires, self.before.fires)


def compare(before: Rehearsal, after: Rehearsal) -> list[Difference]:
    """The jobs that differ, by name."""
    first, second = _sums(before), _sums(after)
    known = set(before.performance.records), set(after.performance.records)
    return [
        Difference(name, first.get(name, JobSums()), second.get(name, JobSums()), name in known[0], name in known[1])
        for name in sorted(known[0] | known[1])
        if first.get(name, JobSums()) != second.get(name, JobSums()) or (name in known[0]) != (name in known[1])
    ]


def _sums(rehearsal: Rehearsal) -> Mapping[str, JobSums]:
    fires: dict[str, list[datetime]] = defaultdict(list)
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    latest: dict[str, timedelta] = {}
    for run in rehearsal.runs:
        fires[run.job].append(run.fire_at)
        if run.is_late and run.late is not None:
            sums[run.job]["late"] += 1
            latest[run.job] = max(run.late, latest.get(run.job, NOTHING))
        if run.state is RunState.SKIPPED:
            sums[run.job]["skipped"] += run.fires
        elif run.started_at is not None:
            sums[run.job]["covered"] += run.fires - 1
    for name, (_, count, _) in rehearsal.waiting.items():
        sums[name]["waiting"] += count
    return {
        name: JobSums(tuple(fires[name]), max_late=_whole(latest.get(name, NOTHING)), **sums[name])
        for name in sorted({*fires, *sums})
    }


def _whole(length: timedelta) -> timedelta:
    """Whole seconds: less is noise."""
    return timedelta(seconds=round(length.total_seconds()))


def _minus(some: Sequence[datetime], others: Sequence[datetime]) -> list[datetime]:
    return sorted(set(some) - set(others))
