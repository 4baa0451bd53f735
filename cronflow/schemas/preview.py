"""Schedule previews."""

from __future__ import annotations

from cronflow.domain.schedule.describe import Preview, describe
from cronflow.domain.schedule.kinds import Cron, Schedule
from cronflow.schemas.base import Schema, iso


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


def preview_schema(preview: Preview) -> PreviewSchema:
    return {
        "expression": preview.schedule.expr if isinstance(preview.schedule, Cron) else None,
        "tz": getattr(preview.schedule, "tz", "UTC"),
        "words": schedule_words(preview.schedule),
        "fires": [iso(fire) for fire in preview.fires],
        "notes": list(preview.notes),
    }


def schedule_words(schedule: Schedule) -> str:
    """A schedule in words, without its time zone."""
    return describe(schedule, zone=False)
