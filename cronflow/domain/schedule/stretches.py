"""Stretches: fires in a row that are all excluded by calendars and windows, or all allowed.

The planner decides past fires in ranges, and a range must not mix the two: an excluded fire is skipped for its own
reason, and a missed one by the policy of its job. A search passes from one day or window to the next, so its cost does
not depend on how many fires there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from functools import lru_cache

from cronflow.domain.schedule import zones
from cronflow.domain.schedule.calendar import Calendar, Window
from cronflow.domain.schedule.exclusions import Exclusion, exclusion
from cronflow.domain.schedule.fires import count_between, last_before, latest, next_after
from cronflow.domain.schedule.kinds import Once, Repeating, Schedule, find_calendar
from cronflow.domain.schedule.zones import SECOND

MOST_STEPS = 1000
"""Days and windows that one search passes. What it did not reach is decided in the next round."""
MOST_REASONS = 3
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Stretch:
    """`last` is its last fire. `following` is the fire after it, within the bound of the search, or None. `reason` is
    why its fires are excluded, and empty when they are allowed.
    """

    last: datetime
    following: datetime | None
    reason: str = ""


def excluded_stretch(schedule: Schedule, fire: datetime, until: datetime, first: Exclusion) -> Stretch:
    """The excluded fires up to `until`, from this one on; `first` is its exclusion."""
    reasons, last, end = [first.reason], fire, first.until
    for _ in range(MOST_STEPS):
        last = last_before(schedule, min(until, end - SECOND), not_before=last) or last
        following = next_after(schedule, last)
        excluded = None if following is None or following > until else exclusion(schedule, following)
        if following is None or excluded is None:
            return Stretch(last, _within(following, until), _joined(reasons))
        last, end = following, excluded.until
        reasons.append(excluded.reason)
    return Stretch(last, _within(next_after(schedule, last), until), _joined(reasons))


def allowed_stretch(schedule: Schedule, fire: datetime, until: datetime) -> Stretch:
    """The allowed fires up to `until`, from this one on, which is allowed."""
    if isinstance(schedule, Once) or not schedule.has_exclusions:
        return Stretch(last_before(schedule, until, not_before=fire) or fire, None)
    last = fire
    for _ in range(MOST_STEPS):
        last = last_before(schedule, min(until, _allowed_until(schedule, last) - SECOND), not_before=last) or last
        following = next_after(schedule, last)
        if following is None or following > until or exclusion(schedule, following) is not None:
            return Stretch(last, _within(following, until))
        last = following
    return Stretch(last, _within(next_after(schedule, last), until))


def next_allowed_until(schedule: Schedule, fire: datetime | None, until: datetime) -> datetime | None:
    """The first allowed fire from this one on, if it is not after `until`."""
    if fire is None or fire > until or (excluded := exclusion(schedule, fire)) is None:
        return _within(fire, until)
    found = excluded_stretch(schedule, fire, until, excluded).following
    return None if found is None or exclusion(schedule, found) is not None else found


def latest_allowed(schedule: Schedule, first: Stretch, fire: datetime, until: datetime, n: int) -> list[datetime]:
    """Of the newest `n` allowed fires up to `until`, those in the stretch `first`, which begins with this fire."""
    following, later = first.following, 0
    for _ in range(MOST_STEPS):
        begin = next_allowed_until(schedule, following, until)
        if begin is None:
            return latest(schedule, first.last, n - later, not_before=fire)
        stretch = allowed_stretch(schedule, begin, until)
        count = count_between(schedule, begin, stretch.last, n - later - 1)
        if count is None:
            return []
        later, following = later + count, stretch.following
    return []


def count_allowed(schedule: Schedule, fire: datetime, until: datetime, most: int) -> int:
    """The number of allowed fires from this one on up to `until`, at most `most`."""
    total, begin = 0, next_allowed_until(schedule, fire, until)
    for _ in range(MOST_STEPS):
        if begin is None:
            return total
        stretch = allowed_stretch(schedule, begin, until)
        count = count_between(schedule, begin, stretch.last, most - total - 1)
        if count is None:
            return most
        total, begin = total + count, next_allowed_until(schedule, stretch.following, until)
    return total


def _allowed_until(schedule: Repeating, fire: datetime) -> datetime:
    """An instant after this fire, which is allowed, such that no fire before it is excluded. It is within a day."""
    zone = zones.find_zone(schedule.tz)
    midnight = zones.instant_of(zone, datetime.combine(zones.reading(zone, fire).date() + _DAY, time()))
    found = [max(midnight, fire + SECOND)]
    for one in (*(find_calendar(schedule, name) for name in schedule.calendars), *_calendars(schedule, "blackout")):
        begin = one.next_begin(fire, schedule.tz)
        if begin is not None:
            found.append(begin)
    if schedule.only_in:
        spans = [one.span_at(fire, schedule.tz) for one in _calendars(schedule, "only_in")]
        found.append(max(span.end for span in spans if span is not None))
    return max(min(found), fire + SECOND)


def _calendars(schedule: Repeating, key: str) -> list[Calendar]:
    """The calendars that a key names, and one of its own windows."""
    entries: tuple[str | Window, ...] = getattr(schedule, key)
    windows = tuple(entry for entry in entries if not isinstance(entry, str))
    found = [find_calendar(schedule, entry) for entry in entries if isinstance(entry, str)]
    return [*found, _of_windows(windows)] if windows else found


@lru_cache(maxsize=1024)
def _of_windows(windows: tuple[Window, ...]) -> Calendar:
    return Calendar(name="windows", windows=windows)


def _within(fire: datetime | None, until: datetime) -> datetime | None:
    return fire if fire is not None and fire <= until else None


def _joined(reasons: list[str]) -> str:
    """The first of them: a stretch may have as many as an outage has days."""
    different = list(dict.fromkeys(reasons))
    more = len(different) - MOST_REASONS
    return "; ".join(different[:MOST_REASONS]) + (f"; and {more} more" if more > 0 else "")
