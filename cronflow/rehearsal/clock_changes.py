"""What a change of the clocks does to the fires of a schedule: those that move, fire twice, or do not fire.

The local times that a schedule names are the fires of the same schedule in UTC. Whatever they become in a gap or in a
repeated hour is read from the schedule itself, so that this holds for every kind of schedule and every policy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from cronflow.domain.schedule.fires import next_after
from cronflow.domain.schedule.kinds import Once, Schedule
from cronflow.domain.schedule.zones import OffsetChange, find_zone, first_change, reading

SECOND = timedelta(seconds=1)
MOST_FIRES = 1000
_NO_CLOCK_TIMES = ("jitter", "max_runs")
"""What moves or ends fires for other reasons."""


@dataclass(frozen=True, slots=True)
class ClockChange:
    """What a change of the clocks does to a job. `what`: moved, twice, once or none. `local` are the first and last
    local times that the schedule names and that the change affects, `fires` are the instants that stand for them.
    """

    job: str
    zone: str
    at: datetime
    what: str
    local: tuple[datetime, datetime]
    count: int
    fires: tuple[datetime, ...]


def zones_of(schedule: Schedule | None) -> list[str]:
    """The time zones that a schedule uses, without UTC."""
    return list(dict.fromkeys(leaf.tz for leaf in _leaves(schedule) if leaf.tz != "UTC"))


def fires_between(schedule: Schedule, first: datetime, until: datetime, most: int = MOST_FIRES) -> list[datetime]:
    """The fires in [first, until), at most so many."""
    found: list[datetime] = []
    fire = next_after(schedule, first - SECOND)
    while fire is not None and fire < until and len(found) < most:
        found.append(fire)
        fire = next_after(schedule, fire)
    return found


def clock_changes(job: str, schedule: Schedule | None, first: datetime, until: datetime) -> Iterator[ClockChange]:
    """What the changes of the clocks from `first` to `until` do to the fires of a job."""
    for leaf in _leaves(schedule):
        zone = find_zone(leaf.tz)
        change = first_change(zone, first, until)
        while change is not None:
            found = _effect(job, leaf, change)
            if found is not None:
                yield found
            change = first_change(zone, change.at, until)


def _leaves(schedule: Any) -> Iterator[Any]:
    """The parts of a schedule that name local times of a zone."""
    parts = getattr(schedule, "schedules", None)
    if parts is not None:
        for part in parts:
            yield from _leaves(part)
    elif schedule is not None and not isinstance(schedule, Once):
        is_interval = hasattr(schedule, "interval") and getattr(schedule, "time", None) is None
        if not is_interval:
            yield _plain(schedule, *_NO_CLOCK_TIMES)


def _plain(schedule: Any, *names: str, **changes: object) -> Any:
    """The schedule with the defaults of these fields, as far as it has them."""
    for field in fields(schedule):
        if field.name in names and field.default is not MISSING:
            changes.setdefault(field.name, field.default)
    return replace(schedule, **changes) if changes else schedule


def _effect(job: str, leaf: Any, change: OffsetChange) -> ClockChange | None:
    begin, end = sorted((change.at + change.before, change.at + change.after))
    named = fires_between(_plain(leaf, tz="UTC", start=None, end=None), begin, end)
    if not named:
        return None
    length = end - begin
    zone = find_zone(leaf.tz)
    if change.after > change.before:
        around = fires_between(leaf, change.at, change.at + length + SECOND)
        usual = _usual(leaf, around, zone)
        fires = tuple(fire for fire in around if fire not in usual)
        what = "moved" if fires else "none"
    else:
        early = fires_between(leaf, change.at - length, change.at)
        late = fires_between(leaf, change.at, change.at + length)
        fires = (*early, *late)
        what = "twice" if early and late else "once" if fires else "none"
    local = (named[0].replace(tzinfo=None), named[-1].replace(tzinfo=None))
    return ClockChange(job, leaf.tz, change.at, what, local, len(named), fires)


def _usual(leaf: Any, fires: list[datetime], zone: Any) -> set[datetime]:
    """Those of the fires that the schedule names by their local time."""
    utc = _plain(leaf, tz="UTC", start=None, end=None)
    locals_of = {fire: reading(zone, fire).replace(tzinfo=UTC) for fire in fires}
    return {fire for fire, local in locals_of.items() if next_after(utc, local - SECOND) == local}
