"""The time zone of schedules that name none.

The rule: a default zone is filled in while a user's document is read, so a stored schedule always has its own zone, and
its meaning does not change with the settings. A schedule whose fires do not depend on a zone gets none.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from cronflow.domain.durations import parse_duration
from cronflow.domain.errors import InvalidInput

FORMAT_ZONE = "UTC"
"""The zone that a document without `tz` means, where no default is filled in."""
_DAY = timedelta(days=1)
_CALENDARS = frozenset(("calendars", "blackout", "only_in"))


def with_zone(schedule: object, tz: str) -> object:
    """The document of a schedule with this zone, if it names none and has times of day or calendars. The schedules of
    `any` take that of the whole.
    """
    if not isinstance(schedule, Mapping) or "tz" in schedule or not _needs_zone(schedule):
        return schedule
    return {**schedule, "tz": tz}


def _needs_zone(schedule: Mapping[Any, object]) -> bool:
    if "any" in schedule or "cron" in schedule:
        return True
    if "every" not in schedule or "time" in schedule:
        return "every" in schedule
    # Days of exactly 24 hours do not follow the clocks of a zone, and are refused with one.
    return not _CALENDARS.isdisjoint(schedule) and not _is_whole_days(schedule["every"])


def _is_whole_days(every: object) -> bool:
    try:
        return isinstance(every, str | int | float) and not parse_duration(every) % _DAY
    except InvalidInput:
        return False
