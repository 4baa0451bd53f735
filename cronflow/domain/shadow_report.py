"""Compares what jobs in shadow mode would have started with what cron did start.

The rule: a planned start and an execution match if they are at most the tolerance apart; each matches at most once, and
matches keep the order of time. Jobs that replace the same line are compared together, because a log does not tell such
lines apart. Only the time that the log and the jobs cover counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cronflow.domain.shadow import ReplacedLine

NOTHING = timedelta(0)


@dataclass(frozen=True, slots=True)
class CronExecution:
    """A command that cron started."""

    at: datetime
    host: str
    user: str
    command: str


@dataclass(frozen=True, slots=True)
class SkippedRange:
    """Fires that CronFlow skipped for a reason other than shadow mode."""

    first: datetime
    last: datetime
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowJob:
    """A job in shadow mode: its line, since when it exists, the starts that it would have had, and the fires that it
    would have skipped. `jitter` is how much earlier than its fires cron may start, because the line sleeps first.
    """

    name: str
    line: ReplacedLine
    since: datetime
    starts: Sequence[datetime]
    skipped: Sequence[SkippedRange] = ()
    jitter: timedelta = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedLine:
    """The comparison of one crontab line with the jobs that replace it: usually one job."""

    jobs: tuple[str, ...]
    matched: int
    furthest: timedelta
    """The largest distance of a match."""
    only_cronflow: tuple[datetime, ...]
    only_cron: tuple[datetime, ...]
    skipped: dict[datetime, str] = field(default_factory=dict)
    """Why CronFlow skipped an instant of `only_cron`, where it did."""

    @property
    def is_equal(self) -> bool:
        return not self.only_cronflow and not self.only_cron


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowComparison:
    """All lines, those that differ first, and the executions of lines that no job replaces, with their number."""

    first: datetime
    last: datetime
    lines: tuple[ComparedLine, ...]
    unknown: tuple[tuple[CronExecution, int], ...]

    @property
    def is_equal(self) -> bool:
        return all(line.is_equal for line in self.lines)


def compare_with_log(
    jobs: Sequence[ShadowJob],
    executions: Sequence[CronExecution],
    first: datetime,
    last: datetime,
    tolerance: timedelta,
) -> ShadowComparison:
    """Compare jobs with the executions of a log that covers the time from `first` to `last`."""
    lines: dict[ReplacedLine, list[ShadowJob]] = defaultdict(list)
    for job in jobs:
        lines[job.line].append(job)
    executed: dict[ReplacedLine, list[datetime]] = defaultdict(list)
    unknown: Counter[tuple[str, str, str]] = Counter()
    latest: dict[tuple[str, str, str], CronExecution] = {}
    for one in executions:
        # A line that names its host and user is more specific than one that does not.
        found = [line for line in lines if line.matches(one.command, one.user, one.host)]
        if found:
            line = max(found, key=lambda line: (line.host is not None, line.user is not None))
            executed[line].append(one.at)
        else:
            key = (one.host, one.user, " ".join(one.command.split()))
            unknown[key] += 1
            latest[key] = one
    compared = [_compared(found, executed[line], first, last, tolerance) for line, found in lines.items()]
    return ShadowComparison(
        first=first,
        last=last,
        lines=tuple(sorted(compared, key=lambda line: (line.is_equal, line.jobs))),
        unknown=tuple((latest[key], count) for key, count in unknown.most_common()),
    )


def _compared(
    jobs: Sequence[ShadowJob], executed: Iterable[datetime], first: datetime, last: datetime, tolerance: timedelta
) -> ComparedLine:
    first = max(first, *(job.since for job in jobs))
    early = tolerance + max(job.jitter for job in jobs)
    # At the edges the counterpart may lie outside: such starts may match, but are no difference.
    planned = sorted(at for job in jobs for at in job.starts if first - tolerance <= at <= last + early)
    cron = sorted(at for at in executed if first - early <= at <= last + tolerance)
    matched, furthest = 0, NOTHING
    only_cronflow: list[datetime] = []
    only_cron: list[datetime] = []
    p = c = 0
    while p < len(planned) or c < len(cron):
        if c == len(cron) or (p < len(planned) and cron[c] > planned[p] + tolerance):
            only_cronflow.append(planned[p])
            p += 1
        elif p == len(planned) or cron[c] < planned[p] - early:
            only_cron.append(cron[c])
            c += 1
        else:
            matched += 1
            furthest = max(furthest, abs(cron[c] - planned[p]))
            p, c = p + 1, c + 1
    return ComparedLine(
        jobs=tuple(sorted(job.name for job in jobs)),
        matched=matched,
        furthest=furthest,
        only_cronflow=tuple(at for at in only_cronflow if first + early <= at <= last - tolerance),
        only_cron=tuple(at for at in only_cron if first + tolerance <= at <= last - early),
        skipped={at: reason for at in only_cron if (reason := _reason(jobs, at, early)) is not None},
    )


def _reason(jobs: Sequence[ShadowJob], at: datetime, early: timedelta) -> str | None:
    """Why the fires at this time were skipped, if they were."""
    found = (one.reason for job in jobs for one in job.skipped if one.first - early <= at <= one.last + early)
    return next(found, None)
