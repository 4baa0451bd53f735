"""What a change of calendars means for a job: which of its fires are skipped from now on, and which no longer are.

Schedules that fire at the same instants are compared stretch by stretch, so that the cost does not depend on how often
they fire. Where the calendars define the instants, as business days do, the fires are compared one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from cronflow.domain.schedule.exclusions import allowed_until, exclusion, next_allowed
from cronflow.domain.schedule.fires import next_after
from cronflow.domain.schedule.kinds import Schedule
from cronflow.domain.schedule.pins import same_fires
from cronflow.domain.schedule.zones import SECOND

MOST_SHOWN = 50
"""Fires of either kind."""
MOST_STRETCHES = 5000
MOST_COMPARED = 1000
"""Fires that are compared one by one."""


class SkippedFire(NamedTuple):
    """A fire that is skipped from now on, and why."""

    fire: datetime
    reason: str


@dataclass(slots=True)
class ExclusionChanges:
    """The fires that are skipped from now on, or are no longer in the schedule, and those that are allowed from now on.
    `more`: there may be others.
    """

    skipped: list[SkippedFire] = field(default_factory=list)
    allowed: list[datetime] = field(default_factory=list)
    more: bool = False


def exclusion_changes(old: Schedule, new: Schedule, first: datetime, until: datetime) -> ExclusionChanges:
    """Compare the fires in [first, until)."""
    first = first.replace(microsecond=0)
    if same_fires(old, new):
        return _by_stretch(old, new, first, until)
    return _by_fire(old, new, first, until)


def _by_stretch(old: Schedule, new: Schedule, first: datetime, until: datetime) -> ExclusionChanges:
    changes = ExclusionChanges()
    for _ in range(MOST_STRETCHES):
        if first >= until:
            return changes
        before, after = exclusion(old, first), exclusion(new, first)
        end = min(
            until,
            allowed_until(old, first) if before is None else before.until,
            allowed_until(new, first) if after is None else after.until,
        )
        if before is None and after is not None:
            fires = _fires(new, first, end, changes, changes.skipped)
            changes.skipped += [SkippedFire(fire, after.reason) for fire in fires]
        elif before is not None and after is None:
            changes.allowed += _fires(new, first, end, changes, changes.allowed)
        first = end
    changes.more = True
    return changes


def _fires(
    schedule: Schedule, first: datetime, end: datetime, changes: ExclusionChanges, shown: Sequence[object]
) -> list[datetime]:
    """The fires in [first, end) that are shown in addition to these."""
    found: list[datetime] = []
    fire = next_after(schedule, first - SECOND)
    while fire is not None and fire < end:
        if len(shown) + len(found) >= MOST_SHOWN:
            changes.more = True
            break
        found.append(fire)
        fire = next_after(schedule, fire)
    return found


def _by_fire(old: Schedule, new: Schedule, first: datetime, until: datetime) -> ExclusionChanges:
    changes = ExclusionChanges()
    before, after = _allowed(old, first, until), _allowed(new, first, until)
    changes.more = len(before) == MOST_COMPARED or len(after) == MOST_COMPARED
    # Beyond the last fire of a list that is cut off, nothing is known.
    last = min([fires[-1] for fires in (before, after) if len(fires) == MOST_COMPARED], default=until)
    known, present = set(before), set(after)
    gone = [fire for fire in before if fire <= last and fire not in present]
    come = [fire for fire in after if fire <= last and fire not in known]
    changes.more = changes.more or len(gone) > MOST_SHOWN or len(come) > MOST_SHOWN
    for fire in gone[:MOST_SHOWN]:
        excluded = exclusion(new, fire)
        changes.skipped.append(SkippedFire(fire, "no longer in the schedule" if excluded is None else excluded.reason))
    changes.allowed += come[:MOST_SHOWN]
    return changes


def _allowed(schedule: Schedule, first: datetime, until: datetime) -> list[datetime]:
    found: list[datetime] = []
    fire = next_allowed(schedule, first - SECOND)
    while fire is not None and fire < until and len(found) < MOST_COMPARED:
        found.append(fire)
        fire = next_allowed(schedule, fire)
    return found
