"""Schedule previews, and the data of the heat maps: planned load, and runs by day."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, tzinfo
from typing import TYPE_CHECKING, NotRequired

from cronflow.domain.run import RunState
from cronflow.domain.schedule.comparison import FireChanges
from cronflow.domain.schedule.describe import describe
from cronflow.domain.schedule.kinds import Cron, Schedule
from cronflow.domain.schedule.load import MINUTES, WEEK_MINUTES, Slot
from cronflow.domain.schedule.preview import Preview, PreviewRow, zone_name
from cronflow.domain.schedule.zones import find_zone
from cronflow.schemas import Schema, iso

if TYPE_CHECKING:
    from cronflow.usecases.schedule_load import ScheduleLoadReport


class PreviewRowSchema(Schema):
    """An instant of a schedule."""

    fire: str
    """The instant."""
    note: str | None
    """Why it does not fire; null: it does."""
    times: dict[str, str]
    """The same instant on the clocks of each time zone."""


class RunChangesSchema(Schema):
    """How the runs of the coming days change. A number that is null is more than 10,000."""

    before: int | None
    """Runs before the change."""
    after: int | None
    """Runs after the change."""
    compared: bool
    """Whether the runs were compared one by one; false: there are too many, and they were only counted."""
    added: int | None
    """Runs that appear; null if they were not compared."""
    removed: int | None
    """Runs that vanish; null if they were not compared."""
    first_added: list[str]
    """The first ones that appear, if the schedule was another one before."""
    first_removed: list[str]
    """The first ones that vanish, if the schedule is another one afterwards."""


class PreviewSchema(Schema):
    """A schedule in words, with its next fires and warnings."""

    expression: str | None
    """The cron expression; null for other schedules."""
    tz: str
    """The time zone of the schedule."""
    words: str
    """The schedule in words, without its time zone."""
    fires: list[str]
    """The next times at which it fires."""
    notes: list[str]
    """Warnings: behaviour that is easy to miss."""
    rows: list[PreviewRowSchema]
    """The same times in several time zones, and the instants between them that do not fire."""
    zones: list[str]
    """The time zones of the rows, beginning with that of the schedule."""
    changes: NotRequired[RunChangesSchema | None]
    """How the runs of the given job would change; null: its schedule would not change."""


def preview_schema(preview: Preview, zones: Mapping[str, tzinfo | None] | None = None) -> PreviewSchema:
    """`zones` are those of the rows; by default that of the schedule, and UTC."""
    zones = zones or zones_of([zone_name(preview.schedule), "UTC"])
    return {
        "expression": preview.schedule.expr if isinstance(preview.schedule, Cron) else None,
        "tz": zone_name(preview.schedule),
        "words": schedule_words(preview.schedule),
        "fires": [iso(fire) for fire in preview.fires],
        "notes": list(preview.notes),
        "rows": row_schemas(preview.rows, zones),
        "zones": [*zones],
    }


def zones_of(names: Iterable[str]) -> dict[str, tzinfo | None]:
    """Time zones by name. Raises InvalidInput."""
    return {name: find_zone(name) for name in names}


def row_schemas(rows: Sequence[PreviewRow], zones: Mapping[str, tzinfo | None]) -> list[PreviewRowSchema]:
    """The zone None is that of this machine."""
    return [
        {
            "fire": iso(row.fire),
            "note": row.note or None,
            "times": {name: row.fire.astimezone(zone).isoformat() for name, zone in zones.items()},
        }
        for row in rows
    ]


def run_changes_schema(changes: FireChanges) -> RunChangesSchema:
    return {
        "before": changes.before,
        "after": changes.after,
        "compared": changes.compared,
        "added": changes.added,
        "removed": changes.removed,
        "first_added": [*map(iso, changes.first_added)],
        "first_removed": [*map(iso, changes.first_removed)],
    }


def schedule_words(schedule: Schedule) -> str:
    return describe(schedule, zone=False)


class SlotSchema(Schema):
    """The rank of a cron's minute among all jobs."""

    minute: int
    """Minute of the schedule."""
    beside: int
    """Fires of other jobs per week at this minute, in the same hours."""
    quieter: int | None
    """A less busy minute; null: there is none."""
    there: int
    """Fires of other jobs at the quieter minute."""
    cron: str
    """The cron expression at the quieter minute."""


class ScheduleLoadSchema(Schema):
    """Planned fires for one week."""

    first: str
    """Start of the week: the current hour."""
    hours: list[int]
    """Fires in each of the 168 hours."""
    jobs: int
    """Number of scheduled jobs that were counted."""
    more: bool
    """Whether some jobs were not counted."""
    slot: SlotSchema | None
    """Rank of the requested schedule; null: none was requested, or it does not fire at a single minute."""


class DaySchema(Schema):
    """Runs that were due on a day in UTC."""

    day: str
    """The day, such as 2026-11-21."""
    states: dict[str, int]
    """Number of runs by state."""


class DaysSchema(Schema):
    """Runs of a job by day."""

    job: str
    """The job."""
    items: list[DaySchema]
    """Days with due runs, newest first."""
    more: bool
    """Whether older runs were not counted; the oldest day may be incomplete."""


def schedule_load_schema(report: ScheduleLoadReport) -> ScheduleLoadSchema:
    """Planned fires for one week."""
    load = report.schedule_load
    starts = load.minutes()
    return {
        "first": iso(load.first),
        "hours": [sum(starts[at : at + MINUTES]) for at in range(0, WEEK_MINUTES, MINUTES)],
        "jobs": load.jobs,
        "more": report.more,
        "slot": None if report.slot is None else slot_schema(report.slot),
    }


def slot_schema(slot: Slot) -> SlotSchema:
    return {
        "minute": slot.minute,
        "beside": slot.beside,
        "quieter": slot.quieter,
        "there": slot.there,
        "cron": slot.cron,
    }


def days_schema(job: str, days: Mapping[date, Mapping[RunState, int]], *, more: bool) -> DaysSchema:
    items: list[DaySchema] = [
        {"day": day.isoformat(), "states": {state.value: count for state, count in states.items()}}
        for day, states in sorted(days.items(), reverse=True)
    ]
    return {"job": job, "items": items, "more": more}
