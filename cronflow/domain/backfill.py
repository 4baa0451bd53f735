"""A backfill: runs of a job for instants that have passed, requested together.

The instants are chosen once, when the backfill is requested, and stored with it; the leader inserts their runs in
order, a page at a time. A run's id is the instant and the number of the backfill, so inserting it twice is harmless,
and each instant of a backfill has exactly one run. `next_page` decides how many runs follow now.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import Job, JobRecord, Overlap
from cronflow.domain.run import DEAD, OPEN, Covers, RunState, scheduled_instant
from cronflow.domain.schedule.exclusions import exclusion
from cronflow.domain.schedule.fires import count_between, is_dynamic, next_after
from cronflow.domain.schedule.kinds import Schedule

MOST_INSTANTS = 10_000
"""Of one request."""
MOST_OPEN = 100
"""Open runs of a backfill whose job allows overlap. The other backfills have one."""
_RATE = re.compile(r"([1-9][0-9]{0,3})/(s|m|h|d)")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SECOND = timedelta(seconds=1)


class BackfillScope(StrEnum):
    """Which instants get a run. `missing`: those without a run that succeeded or is open; `failed`: those of them whose
    run failed or was lost.
    """

    MISSING = "missing"
    FAILED = "failed"
    ALL = "all"


class BackfillState(StrEnum):
    """`running` until each of its runs has ended, or until it is cancelled."""

    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class BackfillRate:
    """At most `count` runs per unit of time, one after the other at equal distances."""

    count: int
    unit: str

    @property
    def interval(self) -> timedelta:
        """Between two runs."""
        return timedelta(seconds=_UNITS[self.unit]) / self.count

    def __str__(self) -> str:
        return f"{self.count}/{self.unit}"


def parse_rate(text: str) -> BackfillRate:
    """`10/m`: ten runs per minute. Raises InvalidInput."""
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise InvalidInput(Problem("", f"{text!r} is not a rate", "write 10/m, or another number per s, m, h or d"))
    return BackfillRate(int(match[1]), match[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """A backfill's document, without its instants. `first` and `last` are the range that was asked for, both included;
    `first_instant` and `last_instant` the first and last of its `total` instants. `inserted` is the cursor: so many
    runs exist. `due_at` is when the next one may follow. While it is `watched`, the leader looks at it.
    """

    id: str
    job: str
    state: BackfillState
    scope: BackfillScope
    first: datetime
    last: datetime
    rate: BackfillRate | None
    total: int
    first_instant: datetime | None
    last_instant: datetime | None
    inserted: int = 0
    due_at: datetime
    watched: bool = True
    by: str = ""
    created_at: datetime
    ended_at: datetime | None = None
    cancelled_by: str | None = None
    reason: str | None = None

    @property
    def least_duration(self) -> timedelta | None:
        """How long the rate makes it take at least; None without a rate."""
        return None if self.rate is None else self.rate.interval * max(0, self.total - 1)


def backfill_id(job: str, number: int) -> str:
    """The id of a job's n-th backfill, from 1."""
    return f"{job}~b{number}"


def number_of(backfill: str) -> int:
    """The number in the id of a backfill."""
    return int(backfill.rpartition("~b")[2])


class FireOutline(NamedTuple):
    """What the choice of instants needs of a run."""

    id: str
    fire_at: datetime
    state: RunState
    covers: Covers | None


def instants_between(
    schedule: Schedule | None, job: str, first: datetime, last: datetime, now: datetime
) -> list[datetime]:
    """The instants in [first, last]. Raises InvalidInput for a range without an answer: in the future, reversed, too
    long, or of a job without a schedule.
    """
    if schedule is None:
        remedy = f"run it manually: cronflow jobs run {job}"
        raise InvalidInput(Problem("", f"{job} has no schedule, so no instants to backfill", remedy))
    if is_dynamic(schedule):
        what = f"the instants of {job} depend on when its runs end, so none can be missing"
        raise InvalidInput(Problem("", what, f"run it manually: cronflow jobs run {job}"))
    if last > now:
        raise InvalidInput(Problem("last", "is in the future", "later instants run on schedule"))
    if first > last:
        raise InvalidInput(Problem("first", "is after last", "swap them"))
    if count_between(schedule, first, last, MOST_INSTANTS) is None:
        what = f"{job} has more than {MOST_INSTANTS:,} instants in this range"
        raise InvalidInput(Problem("", what, "choose a shorter range, and backfill the rest when that is done"))
    found: list[datetime] = []
    fire = next_after(schedule, first - timedelta(microseconds=1))
    while fire is not None and fire <= last:
        found.append(fire)
        fire = next_after(schedule, fire)
    return found


def excluded_of(schedule: Schedule | None, instants: Sequence[datetime]) -> dict[datetime, str]:
    """The instants that calendars and windows of the schedule exclude, with the reasons."""
    reasons = ((one, exclusion(schedule, one)) for one in instants)
    return {one: found.reason for one, found in reasons if found is not None}


def choose(
    instants: Sequence[datetime], runs: Iterable[FireOutline], scope: BackfillScope, pending_from: datetime | None
) -> list[datetime]:
    """The instants that get a run. A run counts for its instant and for those that it covers, and so do its replays and
    earlier backfills. From `pending_from` on, the planner has yet to decide, which counts as open.
    """
    if scope is BackfillScope.ALL:
        return list(instants)
    well: set[datetime] = set()
    badly: set[datetime] = set()
    for run in runs:
        if scheduled_instant(run.id) is None:
            continue
        group = well if run.state in OPEN or run.state is RunState.SUCCEEDED else badly if run.state in DEAD else None
        if group is None:
            continue
        if run.covers is None:
            group.add(run.fire_at)
        else:
            group.update(one for one in instants if run.covers.first <= one <= run.covers.last)
    chosen = [one for one in instants if one not in well and (pending_from is None or one < pending_from)]
    return [one for one in chosen if one in badly] if scope is BackfillScope.FAILED else chosen


@dataclass(frozen=True, slots=True)
class PageSize:
    """How many runs to insert now, and how long the following one must wait from now on."""

    count: int
    pause: timedelta


def next_page(backfill: Backfill, job: Job, now: datetime, open_runs: int, other_runs: int) -> PageSize:
    """Decide the next page. Runs that exclude each other are inserted one by one, and only while no other run of the
    job is open, so that the schedule goes first.
    """
    left = backfill.total - backfill.inserted
    if left <= 0 or now < backfill.due_at:
        return PageSize(0, timedelta(0))
    if job.overlap is not Overlap.ALLOW:
        count = 0 if open_runs or other_runs else 1
    else:
        count = min(left, max(0, MOST_OPEN - open_runs))
    if backfill.rate is None or not count:
        return PageSize(count, timedelta(0))
    # A page per second at high rates.
    count = min(count, max(1, int(_SECOND / backfill.rate.interval)))
    return PageSize(count, backfill.rate.interval * count)


JOB_PAUSED, JOB_DISABLED, FIRE_DUE = "its job is paused", "its job is disabled", "a fire of its job is due"
JOB_IN_SHADOW_MODE = "its job is in shadow mode"
YIELDS = frozenset({JOB_PAUSED, JOB_DISABLED, JOB_IN_SHADOW_MODE, FIRE_DUE})


def yields(record: JobRecord, now: datetime) -> str | None:
    """Why a run of a backfill is not started now, one of YIELDS, or None."""
    if record.paused:
        return JOB_PAUSED
    if not record.job.enabled:
        return JOB_DISABLED
    if record.job.is_shadow:
        return JOB_IN_SHADOW_MODE
    if record.job.overlap is Overlap.ALLOW or record.next_fire is None or record.next_fire > now:
        return None
    return FIRE_DUE
