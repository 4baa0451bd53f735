"""What a change does to the fires to come: which appear, which vanish, and why a job never fires again.

The fires of both sides are compared one by one if each has at most `most`; beyond that they are only counted, and
`compared` is false. So the cost is bounded whatever the schedules are. A job without a schedule has no fires, and a new
schedule is compared with none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from cronflow.domain.schedule.fires import count_between, next_after
from cronflow.domain.schedule.kinds import Once, Schedule

DAYS = 7
"""How many coming days are compared unless others are asked for."""
MOST_DAYS = 92
MOST_COMPARED = 2000
"""Fires of one side that are compared one by one."""
MOST_COUNTED = 10_000
"""Beyond this a count is None: more than can be counted cheaply."""
SHOWN = 5


@dataclass(frozen=True, slots=True)
class UpcomingFires:
    """The fires of a schedule from `first` on, which is one of them."""

    schedule: Schedule
    first: datetime

    def until(self, last: datetime) -> Iterator[datetime]:
        fire: datetime | None = self.first
        while fire is not None and fire <= last:
            yield fire
            fire = next_after(self.schedule, fire)

    def count(self, last: datetime) -> int | None:
        """None: more than MOST_COUNTED."""
        return count_between(self.schedule, self.first, last, MOST_COUNTED)


@dataclass(frozen=True, slots=True)
class FireChanges:
    """The numbers of fires before and after a change, and of those that appear and vanish, with the first ones.

    None: more than MOST_COUNTED. Unless they are `compared`, it is unknown which appear and vanish.
    """

    before: int | None
    after: int | None
    compared: bool = True
    added: int | None = 0
    removed: int | None = 0
    first_added: tuple[datetime, ...] = ()
    first_removed: tuple[datetime, ...] = ()

    @property
    def cost(self) -> int:
        """How many fires were looked at one by one."""
        return self.before + self.after if self.compared and self.before and self.after else 0


def compare(
    old: UpcomingFires | None, new: UpcomingFires | None, last: datetime, *, most: int = MOST_COMPARED
) -> FireChanges:
    """Compare the fires until `last`, inclusive. At most `most` fires of each side are compared one by one."""
    before = 0 if old is None else old.count(last)
    if old == new:
        return FireChanges(before, before)
    after = 0 if new is None else new.count(last)
    if before == 0 or after == 0 or old is None or new is None:
        return FireChanges(before, after, added=after, removed=before)
    if before is None or after is None or max(before, after) > most:
        return FireChanges(before, after, compared=False, added=None, removed=None)
    gone, come = set(old.until(last)), set(new.until(last))
    added, removed = sorted(come - gone), sorted(gone - come)
    shown = tuple(added[:SHOWN]), tuple(removed[:SHOWN])
    return FireChanges(before, after, True, len(added), len(removed), *shown)


def why_over(schedule: Schedule, now: datetime) -> str:
    """Why a schedule that has no next fire has none, after `this job never runs again:`."""
    if isinstance(schedule, Once):
        return "its `at` has passed" if schedule.at <= now else "a run already covers its `at`"
    end = getattr(schedule, "end", None)
    if end is not None and end <= now:
        return "its `end` has passed"
    return "its schedule has no times left" if end is None else "its schedule has no times left before its `end`"
