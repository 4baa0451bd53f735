"""Spreading: other minutes for jobs that start together, and the load before and after.

A job is only moved where that is safe: a cron expression with one fixed minute, which keeps its hours, days and zone
and gets another minute. Jobs are placed one after the other on the load that the earlier ones left, so they do not all
move to the same minute, and a job moves only if its busiest minute becomes less busy. The same jobs give the same plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import SYSTEM_PREFIX, Job, JobRecord
from cronflow.domain.schedule.hashed import uses_hash
from cronflow.domain.schedule.kinds import Cron
from cronflow.domain.schedule.load import (
    MINUTES,
    NAMED,
    WEEK_MINUTES,
    Block,
    ScheduleWeek,
    at_minute,
    chosen,
    minute_field,
    minute_of,
    week_of,
)

KEEP = ("spread", "false")
"""A job with this label is never moved."""
ALONE = "no other job starts in the same minute"
FREQUENTLY = "runs start more often than every 5 minutes"
NO_QUIETER = "no minute of the same hours is quieter"


class SpreadBy(StrEnum):
    """How a job gets another minute: a `shift` to the quietest minute of its hours, or `hash`, which writes `H`, so
    that the minute follows from the job's name.
    """

    SHIFT = "shift"
    HASH = "hash"


@dataclass(frozen=True, slots=True)
class MinuteMove:
    """Another cron expression for a job at this version, which differs in the minute alone."""

    job: str
    version: int
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class LoadPicture:
    """The load of a week: its busiest minute, the starts in it, the busiest minute of each hour, and each minute of the
    hour `shown` of the week.
    """

    busiest: int
    peak: int
    peaks: tuple[int, ...]
    shown: int
    minutes: tuple[int, ...]


@dataclass(slots=True)
class StayingJobs:
    """Jobs that stay for one reason: how many, and the names of the first ones."""

    jobs: int = 0
    names: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SpreadPlan:
    """What spreading would change. `left_out` has the jobs that stay, by reason."""

    first: datetime
    moves: Sequence[MinuteMove]
    left_out: Mapping[str, StayingJobs]
    before: LoadPicture
    after: LoadPicture


def picture(load: Sequence[int], shown: int | None = None) -> LoadPicture:
    """Of the starts in each minute of a week. `shown` is by default the hour of the busiest minute."""
    busiest = max(range(WEEK_MINUTES), key=load.__getitem__)
    shown = busiest // MINUTES if shown is None else shown
    peaks = tuple(max(load[at : at + MINUTES]) for at in range(0, WEEK_MINUTES, MINUTES))
    return LoadPicture(busiest, load[busiest], peaks, shown, tuple(load[shown * MINUTES : (shown + 1) * MINUTES]))


def obstacle(record: JobRecord) -> str | None:
    """Why a job cannot be moved; None if it can."""
    job, schedule = record.job, record.job.schedule
    if job.name.startswith(SYSTEM_PREFIX):
        return "system jobs are not moved"
    if not isinstance(schedule, Cron):
        return "only cron schedules can be moved"
    if not record.active:
        return "paused, disabled and finished jobs are not moved"
    if job.labels.get(KEEP[0], "").lower() == KEEP[1]:
        return "the label spread=false prevents a move"
    if schedule.jitter:
        return "jitter already moves the starts"
    if minute_of(schedule) is None:
        field = minute_field(schedule.expr)
        hashed = uses_hash(field) and not {"/", ","} & set(field)
        return "the job name already sets the minute" if hashed else "runs start in several minutes of an hour"
    return None


def moved(job: Job, expr: str) -> Job:
    """The job with another cron expression, which differs in the minute alone. Raises InvalidInput."""
    schedule = job.schedule
    if not isinstance(schedule, Cron):
        raise InvalidInput(f"{job.name} has no cron schedule")
    made = replace(job, schedule=replace(schedule, expr=expr))
    assert isinstance(made.schedule, Cron)
    if at_minute(schedule.expr, 0) != at_minute(made.schedule.expr, 0):
        what = f"{expr!r} differs in more than the minute from {schedule.expr!r}, the schedule of {job.name}"
        raise InvalidInput(Problem("", what, "edit the job to give it any other schedule"))
    return made


@dataclass(slots=True)
class Spreader:
    """Finds moves. `load` has the starts in each minute of the week from `first`, of all jobs."""

    load: Sequence[int]
    first: datetime
    by: SpreadBy = SpreadBy.SHIFT
    moves: list[MinuteMove] = field(default_factory=list)
    _present: list[int] = field(init=False)
    _left_out: dict[str, StayingJobs] = field(default_factory=dict)
    _stuck: dict[tuple[Block, ...], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._present = list(self.load)

    def leave_out(self, name: str, why: str) -> None:
        found = self._left_out.setdefault(why, StayingJobs())
        found.jobs += 1
        if len(found.names) < NAMED:
            found.names.append(name)

    def place(self, record: JobRecord) -> None:
        """Move the job, whose starts are part of the load, or leave it out. Raises InvalidInput."""
        cron, week = record.job.schedule, self._week(record.job)
        if (why := obstacle(record) or (FREQUENTLY if week.frequent else None)) is not None:
            self.leave_out(record.name, why)
            return
        assert isinstance(cron, Cron)
        own = list(week.minutes())
        # Whether it gets an H must not depend on the jobs before it.
        load = self.load if self.by is SpreadBy.HASH else self._present
        if all(load[at] <= starts for at, starts in own):
            self.leave_out(record.name, ALONE)
            return
        minute = "H" if self.by is SpreadBy.HASH else self._quietest(record.name, cron, week)
        if minute is None:
            self.leave_out(record.name, NO_QUIETER)
            return
        expr = at_minute(cron.expr, minute)
        self._add(own, -1)
        self._add(self._week(moved(record.job, expr)).minutes(), 1)
        self.moves.append(MinuteMove(record.name, record.ver, cron.expr, expr))

    def plan(self) -> SpreadPlan:
        """The moves so far, by name, with the load before and after."""
        before = picture(self.load)
        moves = sorted(self.moves, key=lambda move: move.job)
        left_out = dict(sorted(self._left_out.items()))
        return SpreadPlan(self.first, moves, left_out, before, picture(self._present, before.shown))

    def _quietest(self, name: str, cron: Cron, week: ScheduleWeek) -> int | None:
        """The minute whose busiest instant has the fewest other starts, then the one with the fewest in all."""
        if self._stuck.get(week.blocks) == len(self.moves):
            # A job with these starts had no quieter minute, and none was moved since.
            return None
        minute = minute_of(cron)
        assert minute is not None
        own = list(week.minutes())
        self._add(own, -1)
        found = []
        for one in range(MINUTES):
            shift = one - minute
            there = [self._present[at + shift] for at, _ in own if 0 <= at + shift < WEEK_MINUTES]
            found.append((max(there, default=0), sum(there)))
        self._add(own, 1)
        best = min(found)
        if best[0] >= found[minute][0]:
            self._stuck[week.blocks] = len(self.moves)
            return None
        return chosen([one for one in range(MINUTES) if found[one] == best], name)

    def _add(self, starts: Iterable[tuple[int, int]], sign: int) -> None:
        for at, count in starts:
            self._present[at] += sign * count

    def _week(self, job: Job) -> ScheduleWeek:
        assert job.schedule is not None
        return week_of(job.schedule, self.first, False)
