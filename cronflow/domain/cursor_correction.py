"""Corrects the cursor of a job after the time zone data have changed.

The cursor was computed with other data, so it may be no instant of the schedule any more, or an earlier one may have
appeared. Rule: the corrected cursor is the first instant, by the present data, after what the runs of the job cover
and since its last edit. So it passes no instant that is due, and comes back to none that has a run.
"""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronflow.domain.job import JobRecord
from cronflow.domain.planning import Reposition
from cronflow.domain.schedule import zones
from cronflow.domain.schedule.fires import is_dynamic, next_after
from cronflow.domain.schedule.kinds import AnyOf, Every, Once, Schedule
from cronflow.domain.schedule.zones import SECOND


def corrected(record: JobRecord) -> Reposition | None:
    """Where the cursor belongs; None: it is right, or does not depend on a zone."""
    schedule, cursor = record.job.schedule, record.next_fire
    if schedule is None or cursor is None or record.deleted_at is not None or not depends_on_zone(schedule):
        return None
    after = _decided_until(record, cursor)
    if after >= cursor:
        return None
    found = next_after(schedule, after)
    return None if found == cursor else Reposition(found)


def depends_on_zone(schedule: Schedule) -> bool:
    """Whether other time zone data could mean other fires."""
    match schedule:
        case Once():
            return False
        case AnyOf():
            return any(depends_on_zone(one) for one in schedule.schedules)
        case Every():
            return schedule.time is not None and not is_dynamic(schedule) and _has_offsets(schedule.tz)
    return _has_offsets(schedule.tz)


def _has_offsets(tz: str) -> bool:
    zone: ZoneInfo = zones.find_zone(tz)
    return not zones.is_utc(zone)


def _decided_until(record: JobRecord, cursor: datetime) -> datetime:
    """The last instant that is none of the cursor's."""
    edited = record.updated_at.replace(microsecond=0)
    begin = min(edited, cursor if record.since is None else record.since) - SECOND
    if record.pending_run is None:
        return begin
    pending = record.pending_run
    return max(begin, pending.fire if pending.covers is None else pending.covers.last).astimezone(UTC)
