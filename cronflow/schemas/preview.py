"""What a schedule means."""

from __future__ import annotations

from cronflow.domain.schedule.kinds import Cron, Schedule, describe
from cronflow.domain.schedule.preview import Preview
from cronflow.schemas.base import Schema, iso


class PreviewSchema(Schema):
    """A schedule in words, its next fires, and what may surprise."""

    expression: str | None
    """The expression; null: it is not a cron schedule."""
    tz: str
    """The zone that it counts in."""
    words: str
    """What it means."""
    fires: list[str]
    """The next instants."""
    notes: list[str]
    """What may surprise."""


def preview_schema(preview: Preview) -> PreviewSchema:
    """What a schedule means."""
    return {
        "expression": preview.schedule.expr if isinstance(preview.schedule, Cron) else None,
        "tz": _zone(preview.schedule),
        "words": schedule_words(preview.schedule),
        "fires": [iso(fire) for fire in preview.fires],
        "notes": list(preview.notes),
    }


def schedule_words(schedule: Schedule) -> str:
    """A schedule in words, without its zone where that stands at the end."""
    return describe(schedule).removesuffix(f", {_zone(schedule)}")


def _zone(schedule: Schedule) -> str:
    return getattr(schedule, "tz", "UTC")
