"""The herd of all jobs, from their schedules.

The rule it protects: a bounded number of jobs is looked at, page by page, and others get their turn between two pages.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime

from cronflow.domain.herd import Herd, Slot
from cronflow.domain.schedule import Schedule
from cronflow.ports import Backends

PAGE = 100
MOST_JOBS = 2000


@dataclass(frozen=True, slots=True)
class Crowd:
    """The herd; whether there are more jobs than were looked at; and where the schedule that was asked for stands."""

    herd: Herd
    more: bool
    slot: Slot | None


async def crowd(backends: Backends, now: datetime, name: str = "", schedule: Schedule | None = None) -> Crowd:
    """The week from this hour on. `name` is the job whose schedule is asked for, if it is one's."""
    herd = Herd(now.replace(minute=0, second=0, microsecond=0), schedule)
    after, looked = "", 0
    while looked < MOST_JOBS:
        page = await backends.jobs.find(after=after, limit=PAGE)
        for record in page:
            if record.active and record.job.schedule is not None:
                herd.add(record.job.schedule, is_target=record.name == name)
        looked += len(page)
        if len(page) < PAGE:
            return Crowd(herd, False, herd.slot(name))
        after = page[-1].name
        await asyncio.sleep(0)
    return Crowd(herd, bool(await backends.jobs.find(after=after, limit=1)), herd.slot(name))
