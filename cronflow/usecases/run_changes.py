"""Which runs of the coming days a change of jobs adds and removes.

The cost is bounded for any number of jobs: after `MOST_COMPARED` instants of all jobs together, the runs of the others
are only counted. Jobs with the same schedules share a comparison, and other work of the process goes on in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from cronflow.domain import planning
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import JobRecord
from cronflow.domain.schedule import comparison
from cronflow.domain.schedule.comparison import MOST_DAYS, FireChanges, UpcomingFires, why_over
from cronflow.domain.schedule.fires import next_after
from cronflow.domain.schedule.kinds import Once
from cronflow.domain.schedule.zones import SECOND

MOST_COMPARED = 50_000
"""Instants of all jobs together."""

Change = tuple[JobRecord | None, JobRecord]
"""A job before its change, None if there was none, and after it."""


def check_days(days: int) -> None:
    """Raises InvalidInput."""
    if not 0 <= days <= MOST_DAYS:
        raise InvalidInput(Problem("days", f"is {days}", f"choose 0 to {MOST_DAYS}"))


async def run_changes(changes: Sequence[Change], now: datetime, days: int) -> list[FireChanges | None]:
    """The changes of the runs of each job; None for a job whose schedule does not change."""
    last = now + timedelta(days=days)
    left = MOST_COMPARED
    found: list[FireChanges | None] = []
    known: dict[tuple[UpcomingFires | None, UpcomingFires | None], FireChanges] = {}
    for before, after in changes:
        if not _moves(before, after):
            found.append(None)
            continue
        await asyncio.sleep(0)
        pair = None if before is None else _upcoming(before, now), _upcoming(after, now)
        changed = known.get(pair)
        if changed is None:
            most = min(comparison.MOST_COMPARED, left // 2)
            changed = known[pair] = comparison.compare(*pair, last, most=most)
            left -= changed.cost
        found.append(changed)
    return found


def never_again(record: JobRecord, now: datetime) -> list[str]:
    """What to say about a job whose only instant has passed, or which has no further one."""
    job = record.job
    if job.schedule is None or not job.enabled:
        return []
    if record.next_fire is None:
        return [f"this job never runs again: {why_over(job.schedule, now)}"]
    if isinstance(job.schedule, Once) and record.next_fire < now.replace(microsecond=0):
        decision = planning.decide(replace(record, paused=False), now, ())
        skips = isinstance(decision, planning.SkipFire)
        what = "the run is recorded as skipped and the job never runs" if skips else "the job runs once, immediately"
        return [f"its `at` has passed, so {what}"]
    return []


def _moves(before: JobRecord | None, after: JobRecord) -> bool:
    if before is None or before.deleted_at is not None:
        return after.job.schedule is not None
    if after.deleted_at is not None:
        return before.job.schedule is not None
    return (before.job.schedule, before.job.enabled) != (after.job.schedule, after.job.enabled)


def _upcoming(record: JobRecord, now: datetime) -> UpcomingFires | None:
    """The runs that the schedule is going to have; none while the job is paused until somebody resumes it."""
    schedule, first = record.job.schedule, record.next_fire
    if schedule is None or first is None or not record.job.enabled:
        return None
    begin = now.replace(microsecond=0)
    if record.paused:
        if record.pause is None or record.pause.until is None:
            return None
        begin = max(begin, record.pause.until)
    if first < begin and not isinstance(schedule, Once):
        first = next_after(schedule, begin - SECOND)
    return None if first is None else UpcomingFires(schedule, first)
