"""The herd of all jobs, from their schedules.

The rule it protects: a bounded number of jobs is looked at, page by page, and others get their turn between two pages.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime

from cronflow.domain.schedule.kinds import Schedule
from cronflow.domain.schedule.load import ScheduleLoad, Slot
from cronflow.ports import Backends

PAGE = 100
MOST_JOBS = 2000


@dataclass(frozen=True, slots=True)
class ScheduleLoadReport:
    """The herd; whether there are more jobs than were looked at; and where the schedule that was asked for stands."""

    schedule_load: ScheduleLoad
    more: bool
    slot: Slot | None


async def schedule_load_report(
    backends: Backends, now: datetime, name: str = "", schedule: Schedule | None = None
) -> ScheduleLoadReport:
    """The week from this hour on. `name` is the job whose schedule is asked for, if it is one's."""
    schedule_load = ScheduleLoad(now.replace(minute=0, second=0, microsecond=0), schedule)
    after, looked = "", 0
    while looked < MOST_JOBS:
        page = await backends.jobs.find(after=after, limit=PAGE)
        for record in page:
            if record.active and record.job.schedule is not None:
                schedule_load.add(record.job.schedule, is_target=record.name == name)
        looked += len(page)
        if len(page) < PAGE:
            return ScheduleLoadReport(schedule_load, False, schedule_load.slot(name))
        after = page[-1].name
        await asyncio.sleep(0)
    return ScheduleLoadReport(
        schedule_load, bool(await backends.jobs.find(after=after, limit=1)), schedule_load.slot(name)
    )
