"""Catching up after an outage: the missed runs of all jobs form one plan, which has a rate and may wait for a person.

A run is missed when its fire fell due while nothing could be planned, and is later now than `misfire.late_after` of its
job. The leader holds such fires and starts them by priority and age, in slots that are left over. The cursor of a held
job does not move, so nothing is lost by holding it; a job whose next instant is on time is not held, because
its `fire_once` covers the missed ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from cronflow.domain.backfill import BackfillRate
from cronflow.domain.job import JobRecord, MisfirePolicy
from cronflow.domain.schedule.exclusions import exclusion, next_allowed
from cronflow.domain.schedule.fires import is_dynamic
from cronflow.domain.schedule.stretches import allowed_stretch, count_allowed, next_allowed_until

HELD = "missed in an outage and held back; see cronflow cluster recovery show"
"""The reason of a job's wait. The store finds the held jobs by it."""
HOLD_FOR = timedelta(minutes=10)
"""After this time the planner looks at a held job again, so that a leader of 0.9 does not forget it."""
KEPT_FREE = 4
"""Missed runs leave one slot in so many free."""
ONE_AFTER = 8
"""While there is no more room than that, one missed run follows after so many on time."""
MOST_AT_ONCE = 500
TOP = 20
"""Jobs that a plan lists."""
MOST_PATTERNS = 50
_SECOND = timedelta(seconds=1)
_TICK = timedelta(microseconds=1)


class CatchUpState(StrEnum):
    """`counting`: the leader finds out what was missed. `waiting`: it is more than RECOVERY_LIMIT, and a person must
    decide. `draining`: missed runs start. `skipping`: they are recorded as skipped. `ended`: none is left.
    """

    COUNTING = "counting"
    WAITING = "waiting"
    DRAINING = "draining"
    SKIPPING = "skipping"
    ENDED = "ended"


class HeldJob(NamedTuple):
    """A job that is held, its missed runs, and the oldest instant of them."""

    job: str
    runs: int
    since: datetime


class HeldSummary(NamedTuple):
    """What is held now: jobs, their missed runs, the oldest instant, the runs by priority, and the jobs with the most
    runs.
    """

    jobs: int = 0
    runs: int = 0
    oldest: datetime | None = None
    by_priority: Mapping[int, int] = {}
    top: tuple[HeldJob, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUpPlan:
    """The document of a recovery. `rev` counts its writes, each of which compares it.

    `cutoff` is when planning went on: what is missed was due before. `known` counts the runs that were held, and
    decided about, when a further outage began. `next_at` is when the rate allows the next run. `approved` and `skipped`
    are patterns of jobs that a person has decided about while the others wait. `skip`: a person skipped the whole.
    """

    number: int
    state: CatchUpState
    cutoff: datetime
    cause: str
    since: datetime
    rev: int = 0
    known: int = 0
    jobs: int = 0
    runs: int = 0
    oldest: datetime | None = None
    by_priority: tuple[tuple[int, int], ...] = ()
    top: tuple[HeldJob, ...] = ()
    rate: BackfillRate | None = None
    next_at: datetime | None = None
    approved: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    skip: bool = False
    by: str = ""
    note: str = ""
    decided_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def active(self) -> bool:
        """Whether the leader holds missed fires for it."""
        return self.state is not CatchUpState.ENDED

    @property
    def skip_reason(self) -> str:
        """The reason of the runs that it skips."""
        who = f" by {self.by}" if self.by else ""
        return f"recovery skipped{who}: {self.note}" if self.note else f"recovery skipped{who}"


class CatchUpProgress(NamedTuple):
    """A plan, and what is held now."""

    plan: CatchUpPlan
    held: HeldSummary

    @property
    def least_duration(self) -> timedelta | None:
        """How long the rate makes the rest take at least; None without a rate, or when nothing drains."""
        if self.plan.rate is None or self.plan.state is not CatchUpState.DRAINING:
            return None
        return self.plan.rate.interval * self.held.runs


def page_of(rate: BackfillRate) -> int:
    """How many runs may start at once: those of one second, at least one."""
    return max(1, int(_SECOND / rate.interval))


def missed_runs(record: JobRecord, now: datetime, cutoff: datetime) -> int:
    """How many runs the misfire policy starts for the instants that were missed before the cutoff; 0: the job is on
    time, its next decision only skips some, or its next run is on time and covers them.
    """
    job, fire = record.job, record.next_fire
    if fire is None or job.schedule is None:
        return 0
    late_after = job.misfire.late_after
    if job.is_shadow:
        return 0
    if now - fire <= late_after or fire >= cutoff - late_after or job.misfire.policy is MisfirePolicy.SKIP:
        return 0
    waits_for_own_run = is_dynamic(job.schedule) and record.waiting is not None and record.waiting.blocked_by
    if waits_for_own_run or skips_first(record, now):
        return 0
    if job.misfire.policy is MisfirePolicy.CATCH_UP:
        most = job.misfire.max_catch_up if record.runs_left is None else min(job.misfire.max_catch_up, record.runs_left)
        return count_allowed(job.schedule, fire, now - late_after - _TICK, most)
    last = allowed_stretch(job.schedule, fire, now).last
    on_time = now - last <= late_after or last >= cutoff - late_after
    skips = job.misfire.grace is not None and now - last > job.misfire.grace
    return 0 if on_time or skips else 1


def skips_first(record: JobRecord, now: datetime) -> bool:
    """Whether the next decision about a past fire is a skipped run that is not the last word: calendars exclude it, or
    a newer fire, after excluded ones, gets the run. There is nothing to hold, and more may be missed behind it.
    """
    job, fire = record.job, record.next_fire
    if fire is None or job.schedule is None or fire > now:
        return False
    if exclusion(job.schedule, fire) is not None:
        return True
    if job.misfire.policy is not MisfirePolicy.FIRE_ONCE or now - fire <= job.misfire.late_after:
        return False
    following = allowed_stretch(job.schedule, fire, now).following
    return next_allowed_until(job.schedule, following, now) is not None


def held_until(record: JobRecord, now: datetime) -> datetime:
    """When the planner looks at a held job again: at its next instant if that run covers the missed ones."""
    job = record.job
    following = None
    if job.misfire.policy is MisfirePolicy.FIRE_ONCE and job.schedule is not None:
        following = next_allowed(job.schedule, now)
    return now + HOLD_FOR if following is None else min(following, now + HOLD_FOR)


def room_for_missed(capacity: int, slots: int, on_time: int) -> int:
    """How many missed runs may start now. Everything that is on time has its slot first, and a quarter stays free."""
    return max(0, capacity - on_time - slots // KEPT_FREE)
