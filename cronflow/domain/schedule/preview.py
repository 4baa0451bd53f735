"""Preview a schedule without a job: its words, next fires and warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cronflow.domain.schedule.cron_warnings import notes_on
from cronflow.domain.schedule.describe import describe
from cronflow.domain.schedule.kinds import Cron, Schedule, next_after
from cronflow.domain.schedule.zones import check_reach

RESOLUTION = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Preview:
    """A schedule in words, with its next fires and warnings."""

    schedule: Schedule
    words: str
    fires: Sequence[datetime]
    notes: Sequence[str]


def preview(schedule: Schedule, now: datetime, count: int, start: datetime | None = None) -> Preview:
    """At most `count` fires: from `start` on, or those to come. Raises InvalidInput when `start` is out of reach."""
    after = now
    if start is not None:
        check_reach(start, "start")
        after = start - RESOLUTION
    fires: list[datetime] = []
    fire = next_after(schedule, after)
    while fire is not None and len(fires) < count:
        fires.append(fire)
        fire = next_after(schedule, fire)
    notes = notes_on(schedule, after) if isinstance(schedule, Cron) else []
    return Preview(schedule, describe(schedule), fires, notes)
