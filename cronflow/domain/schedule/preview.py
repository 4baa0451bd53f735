"""A schedule before a job has it: in words, its fires in a span of time, and warnings.

A row is an instant of the schedule. One with a note does not fire; the note says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cronflow.domain.schedule.cron_warnings import notes_on
from cronflow.domain.schedule.describe import describe
from cronflow.domain.schedule.exclusions import MOST_STEPS, exclusion
from cronflow.domain.schedule.fires import next_after
from cronflow.domain.schedule.kinds import AnyOf, Cron, Every, Once, Schedule
from cronflow.domain.schedule.zones import SECOND, check_reach


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """An instant of a schedule."""

    fire: datetime
    note: str = ""


@dataclass(frozen=True, slots=True)
class Preview:
    """A schedule in words, with its next instants and warnings."""

    schedule: Schedule
    words: str
    rows: Sequence[PreviewRow]
    notes: Sequence[str]

    @property
    def fires(self) -> list[datetime]:
        return [row.fire for row in self.rows if not row.note]


def preview(
    schedule: Schedule, now: datetime, count: int, start: datetime | None = None, until: datetime | None = None
) -> Preview:
    """At most `count` fires: from `start` on, or those to come, and before `until`. Raises InvalidInput when `start` is
    out of reach.
    """
    after = now if start is None else just_before(start)
    return Preview(schedule, describe(schedule), rows_after(schedule, after, count, until), _notes(schedule, after))


def just_before(start: datetime) -> datetime:
    """The instant after which the fires from `start` on come. Raises InvalidInput when it is out of reach."""
    check_reach(start, "start")
    return start - timedelta(microseconds=1)


def rows_after(schedule: Schedule, after: datetime, count: int, until: datetime | None = None) -> list[PreviewRow]:
    """The instants after this one, with at most `count` fires. Of a stretch that is excluded, the first one is a row.
    A search ends after MOST_STEPS of them.
    """
    rows: list[PreviewRow] = []
    fires = skipped = 0
    checked = not missing_calendars(schedule)
    while fires < count and skipped < MOST_STEPS:
        fire = next_after(schedule, after)
        if fire is None or (until is not None and fire >= until):
            break
        excluded = exclusion(schedule, fire) if checked else None
        rows.append(PreviewRow(fire, "" if excluded is None else f"skipped: {excluded.reason}"))
        fires, skipped = (fires + 1, skipped) if excluded is None else (fires, skipped + 1)
        after = fire if excluded is None else max(fire, excluded.until - SECOND)
    return rows


def missing_calendars(schedule: Schedule) -> list[str]:
    """The calendars that the schedule names and is not bound to."""
    if isinstance(schedule, Once):
        return []
    known = {calendar.name for calendar in schedule.book}
    return [name for name in schedule.calendar_names if name not in known]


def zone_name(schedule: Schedule) -> str:
    """The zone that the times of a schedule are in."""
    if isinstance(schedule, AnyOf):
        names = {one.tz for one in schedule.schedules if isinstance(one, Cron) or (isinstance(one, Every) and one.time)}
        return names.pop() if len(names) == 1 else schedule.tz
    return "UTC" if isinstance(schedule, Once) else schedule.tz


def _notes(schedule: Schedule, after: datetime) -> list[str]:
    notes = notes_on(schedule, after)
    if names := missing_calendars(schedule):
        plural = "s" if len(names) > 1 else ""
        notes.append(f"Fires that the calendar{plural} {' and '.join(names)} would skip are shown too.")
    return notes
