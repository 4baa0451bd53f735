"""The schedule load of all jobs: one scan over the jobs, and its result for a little while.

The rule: a scan reads at most `MOST_JOBS` jobs, page by page, and lets other tasks run in between. A result about many
jobs is used again for a time that grows with their number, so that people who look at it cost a bounded share of a
core; one about few jobs is always new.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from cronflow.domain.durations import to_the_minute
from cronflow.domain.errors import InvalidInput, NotFound, Problem
from cronflow.domain.job import Job, JobRecord
from cronflow.domain.schedule.kinds import Schedule
from cronflow.domain.schedule.load import HOUR, WEEK_HOURS, ScheduleLoad, Slot
from cronflow.domain.spread import SpreadBy, Spreader, SpreadPlan
from cronflow.ports import Clock, JobStore
from cronflow.usecases.search import JobFilter

PAGE = 500
MOST_JOBS = 100_000
MOST_MOVES = 1000
"""Jobs that one plan moves."""
NEW_JOBS = 5000
KEPT_PER_JOB = timedelta(milliseconds=1)
"""A result is used again for this long for each job above `NEW_JOBS`."""
MOST_KNOWN = 8
PLACED_AT_ONCE = 20
"""Jobs that are placed before other tasks run."""
ALL = JobFilter()


@dataclass(frozen=True, slots=True)
class ScheduleLoadReport:
    """The load of the jobs that were read, whether there are `more` jobs, the rank of one schedule, and the hour of the
    week that was asked for.
    """

    schedule_load: ScheduleLoad
    more: bool
    slot: Slot | None = None
    hour: int | None = None


@dataclass(slots=True)
class _Scan:
    """A load, when it was read, and of how many jobs."""

    load: ScheduleLoad
    at: datetime
    more: bool = False
    read: int = 0


class ScheduleLoadUseCases:
    def __init__(self, jobs: JobStore, clock: Clock) -> None:
        self._jobs = jobs
        self._clock = clock
        self._known: dict[tuple[object, ...], _Scan] = {}

    async def report(
        self,
        wanted: JobFilter = ALL,
        *,
        frequent: bool = False,
        name: str = "",
        schedule: Schedule | None = None,
        hour: datetime | None = None,
    ) -> ScheduleLoadReport:
        """The load of the jobs that match, in the week that begins with this hour; the rank of the named job or given
        schedule among them. Raises NotFound, and InvalidInput for an hour outside the week.
        """
        first = self._first()
        shown = None if hour is None else _hour_of(hour, first)
        record = None if not name else await self._job(name)
        scan = await self._scan(wanted, frequent=frequent)
        if record is not None:
            schedule = record.job.schedule
        counted = record is not None and record.active and wanted.matches(record)
        return ScheduleLoadReport(scan.load, scan.more, scan.load.slot(name, schedule, counted=counted), shown)

    async def spread(
        self, wanted: JobFilter, by: SpreadBy, may_change: Callable[[Job], bool]
    ) -> tuple[SpreadPlan, int, bool]:
        """Other minutes for the jobs that match, on the load of all jobs; the number of jobs that match, and whether
        there are more, because a plan has at most `MOST_MOVES` moves. Nothing is written. Raises InvalidInput.
        """
        # As they are now: a plan on old jobs would be refused.
        scan = await self._read(ALL, frequent=False)
        spreader = Spreader(tuple(scan.load.minutes()), scan.load.first, by)
        selected = 0
        async for page in self._pages():
            for record in page:
                if record.job.schedule is None or not wanted.matches(record):
                    continue
                if len(spreader.moves) == MOST_MOVES:
                    return spreader.plan(), selected, True
                selected += 1
                if may_change(record.job):
                    spreader.place(record)
                else:
                    spreader.leave_out(record.name, "your permissions do not allow the change")
                if not selected % PLACED_AT_ONCE:
                    await asyncio.sleep(0)
        return spreader.plan(), selected, False

    def forget(self) -> None:
        """The jobs were changed."""
        self._known.clear()

    def _first(self) -> datetime:
        return self._clock.now().replace(minute=0, second=0, microsecond=0)

    async def _job(self, name: str) -> JobRecord:
        found = await self._jobs.get([name])
        if not found or found[0].deleted_at is not None:
            raise NotFound("job", name)
        return found[0]

    async def _scan(self, wanted: JobFilter, *, frequent: bool) -> _Scan:
        """A recent scan, or a new one."""
        now, first = self._clock.now(), self._first()
        key = (wanted.text, wanted.name, tuple(sorted(wanted.labels.items(), key=str)), wanted.enabled, frequent)
        known = self._known.get(key) if wanted.readable is None else None
        if known is not None and known.load.first == first and now < known.at + (known.read - NEW_JOBS) * KEPT_PER_JOB:
            return known
        scan = await self._read(wanted, frequent=frequent)
        if wanted.readable is None and scan.read > NEW_JOBS:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[key] = scan
        return scan

    async def _read(self, wanted: JobFilter, *, frequent: bool) -> _Scan:
        scan = _Scan(ScheduleLoad(self._first(), frequent), self._clock.now())
        async for page in self._pages():
            if scan.read >= MOST_JOBS:
                scan.more = True
                break
            scan.read += len(page)
            for record in page:
                schedule = record.job.schedule
                if schedule is None or not record.active or not wanted.matches(record):
                    continue
                if scan.load.add(record.name, schedule):
                    await asyncio.sleep(0)
        return scan

    async def _pages(self) -> AsyncIterator[list[JobRecord]]:
        """All jobs, by name. Other tasks run between two pages."""
        after = ""
        while page := await self._jobs.find(after=after, limit=PAGE):
            yield page
            if len(page) < PAGE:
                return
            after = page[-1].name
            await asyncio.sleep(0)


def _hour_of(hour: datetime, first: datetime) -> int:
    """The number of the hour in the week from `first`. Raises InvalidInput."""
    number = (hour - first) // HOUR
    if not 0 <= number < WEEK_HOURS:
        remedy = f"choose one from {to_the_minute(first)} on"
        raise InvalidInput(Problem("hour", "is not one of the next seven days", remedy))
    return number
