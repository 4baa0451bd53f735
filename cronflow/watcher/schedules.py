"""The schedules that a watcher knows, and for each job the earliest instant that has no known run.

Rule: what is due follows from the schedule, and not from the cursor that the leader writes. The cursor only says where
to begin, if it is earlier. Instants that calendars and windows exclude are not due. Nothing is due for a job that is
paused, disabled, deleted, has no schedule left, or whose instants depend on when its runs end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from cronflow.domain.errors import InvalidInput
from cronflow.domain.job import SYSTEM_PREFIX, JobRecord
from cronflow.domain.schedule.exclusions import exclusion, next_allowed
from cronflow.domain.schedule.fires import is_dynamic, last_before
from cronflow.domain.schedule.kinds import Schedule
from cronflow.domain.schedule.zones import SECOND

LOOK_BACK = timedelta(hours=1)
"""Older instants are left to the cluster when a watcher begins, and an instant that the cursor has passed without a run
is not reported for longer."""
MOST_PER_JOB = 200
"""Instants of a job that are looked at in one round."""


@dataclass(slots=True)
class WatchedJob:
    """What a watcher knows about a job. `next` is the earliest instant without a known run; None: nothing is due. The
    number of the round in which it was last examined is in `examined`.
    """

    name: str
    ver: int
    schedule: Schedule | None
    since: datetime | None
    next: datetime | None
    examined: int = 0

    def expects(self, instant: datetime) -> bool:
        """Whether the present version of the job has this instant."""
        if self.schedule is None or (self.since is not None and instant < self.since):
            return False
        is_fire = last_before(self.schedule, instant, not_before=instant) == instant
        return is_fire and exclusion(self.schedule, instant) is None

    def pass_over(self, instant: datetime) -> None:
        """Everything up to this instant is accounted for."""
        self.next = None if self.schedule is None else next_allowed(self.schedule, instant)

    def due(self, until: datetime) -> list[datetime]:
        """The first instants from `next` to `until`, both included."""
        found: list[datetime] = []
        instant = self.next
        while instant is not None and instant <= until and len(found) < MOST_PER_JOB and self.schedule is not None:
            found.append(instant)
            instant = next_allowed(self.schedule, instant)
        return found


def watched(record: JobRecord, now: datetime, known: WatchedJob | None = None) -> WatchedJob:
    """The job as it is stored now. A known one of the same version keeps its place."""
    schedule = record.job.schedule
    rests = not record.active or is_dynamic(schedule)
    if rests or schedule is None:
        return WatchedJob(record.name, record.ver, None, record.since, None)
    made = WatchedJob(record.name, record.ver, schedule, record.since, None)
    begin = now - LOOK_BACK if record.since is None else max(record.since, now - LOOK_BACK)
    if known is not None and known.ver == record.ver and known.next is not None:
        begin = max(begin, known.next)
    if record.next_fire is not None:
        begin = min(begin, record.next_fire)
    try:
        made.pass_over(begin - SECOND)
    except InvalidInput:
        # A calendar of it is missing: the cluster does not know either when it is due.
        made.next = None
    return made


class ScheduleBook:
    """All jobs by name."""

    def __init__(self, jobs: Iterable[WatchedJob] = ()) -> None:
        self.jobs = {job.name: job for job in jobs}

    @property
    def names(self) -> list[str]:
        """Those of all jobs but system jobs."""
        return [name for name in self.jobs if not name.startswith(SYSTEM_PREFIX)]

    def due(self, until: datetime, but: Collection[str] = ()) -> Iterator[WatchedJob]:
        """The jobs that have an instant up to `until` without a known run."""
        return (job for job in self.jobs.values() if job.next is not None and job.next <= until and job.name not in but)

    def due_since(self, since: datetime, until: datetime) -> list[tuple[str, datetime]]:
        """The jobs that fell due in this time, each with its first instant, the earliest first."""
        found = []
        for job in self.due(until):
            first = job.next
            if first is not None and first < since and job.schedule is not None:
                first = next_allowed(job.schedule, since - SECOND)
            if first is not None and first <= until:
                found.append((job.name, first))
        return sorted(found, key=lambda one: (one[1], one[0]))
