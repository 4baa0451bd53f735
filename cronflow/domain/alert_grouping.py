"""Notifications that are held: grouped, so that many become one, or for the end of a quiet time.

Rules: what is held is stored before, as any notification is, so a change of leader loses none. It is sent in digests.
The digests of an alert are numbered, and a digest's id follows from its number, so the store accepts each number once.
A leader first settles the members of the latest digest and then composes the next one from what is still held, so no
notification is in two digests.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from cronflow.domain.alert_kinds import NEVER_HELD, AlertKind
from cronflow.domain.durations import format_duration
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.schedule.zones import find_zone
from cronflow.domain.weekdays import TIME_OF_DAY, Weekday

SHORTEST_WAIT, LONGEST_WAIT = timedelta(seconds=1), timedelta(hours=1)
LONGEST_INTERVAL = timedelta(days=1)
MOST_BY = 5
QUIET = "quiet"
"""The group of what was held in a quiet time."""
_LABEL = re.compile(r"label:[A-Za-z0-9][A-Za-z0-9._/-]{0,62}")


@dataclass(frozen=True, slots=True)
class Grouping:
    """Notifications with the same values of `by` form a group; without `by`, all of the alert do. The first one waits
    `wait` for others. Two digests of a group are at least `interval` apart.
    """

    by: tuple[str, ...] = ()
    wait: timedelta = timedelta(seconds=30)
    interval: timedelta = timedelta(minutes=5)

    def __post_init__(self) -> None:
        if len(self.by) > MOST_BY:
            raise InvalidInput(f"by has {len(self.by)} entries; at most {MOST_BY} are allowed")
        for one in self.by:
            if one not in ("job", "kind") and not _LABEL.fullmatch(one):
                raise InvalidInput(Problem("", f"cannot group by {one[:60]!r}", "use job, kind, or label:NAME"))
        if len(set(self.by)) < len(self.by):
            raise InvalidInput(Problem("", "by has an entry twice", "remove one of the two"))
        if not SHORTEST_WAIT <= self.wait <= LONGEST_WAIT:
            bounds = f"{format_duration(SHORTEST_WAIT)} to {format_duration(LONGEST_WAIT)}"
            raise InvalidInput(f"wait is {format_duration(self.wait)}; it must be {bounds}")
        if not timedelta(0) <= self.interval <= LONGEST_INTERVAL:
            bounds = f"0s to {format_duration(LONGEST_INTERVAL)}"
            raise InvalidInput(f"interval is {format_duration(self.interval)}; it must be {bounds}")

    @property
    def labels(self) -> list[str]:
        """The labels of jobs that it needs."""
        return [one.removeprefix("label:") for one in self.by if one.startswith("label:")]

    def group_of(self, kind: AlertKind, job: str | None, labels: Mapping[str, str]) -> str:
        """The group of a notification, as people read it."""
        values = {"job": job or "", "kind": kind.value}
        values |= {f"label:{name}": labels.get(name, "") for name in self.labels}
        return " ".join(f"{one.removeprefix('label:')}={values[one]}" for one in self.by)


@dataclass(frozen=True, slots=True)
class QuietTime:
    """A time of day, on some days, in which notifications wait. It may pass midnight, and belongs to the day on which
    it begins. The kinds in `urgent` are sent all the same.
    """

    begin: str
    end: str
    tz: str = "UTC"
    days: tuple[Weekday, ...] = ()
    urgent: tuple[AlertKind, ...] = ()

    def __post_init__(self) -> None:
        for value in (self.begin, self.end):
            if not TIME_OF_DAY.fullmatch(value):
                raise InvalidInput(Problem("", f"{value[:60]!r} is not a time of day", 'write it like "22:00"'))
        find_zone(self.tz)
        if len(set(self.days)) < len(self.days):
            raise InvalidInput(Problem("", "days has a day twice", "remove one of the two"))
        if self.begin == self.end and len(self.days or Weekday) == len(Weekday):
            remedy = "set to to another time, or disable the alert with enabled: false"
            raise InvalidInput(Problem("", "the quiet time never ends", remedy))

    def active(self, at: datetime) -> bool:
        """Whether this instant is in the quiet time."""
        local = at.astimezone(ZoneInfo(self.tz))
        today, yesterday = (list(Weekday)[(local.weekday() - back) % 7] for back in (0, 1))
        time, days = f"{local:%H:%M}", self.days or tuple(Weekday)
        if self.begin < self.end:
            return today in days and self.begin <= time < self.end
        return (time >= self.begin and today in days) or (time < self.end and yesterday in days)


def is_held(grouping: Grouping | None, quiet: QuietTime | None, kind: AlertKind, at: datetime) -> bool:
    """Whether a notification that is created now waits for a digest."""
    if kind in NEVER_HELD:
        return False
    return grouping is not None or in_quiet(quiet, kind, at)


def in_quiet(quiet: QuietTime | None, kind: AlertKind, at: datetime) -> bool:
    """Whether the quiet time holds a notification of this kind at this instant."""
    return quiet is not None and kind not in quiet.urgent and quiet.active(at)


def digest_id(alert: str, number: int, epoch: datetime) -> str:
    """Derived from its number, so that every leader finds the same id. `epoch` is when the alert was created: one with
    the same name may have been deleted.
    """
    return "msg_" + hashlib.sha256(f"{alert}\ndigest\n{epoch.isoformat()}\n{number}".encode()).hexdigest()[:32]


def most_frequent(kinds: Collection[AlertKind]) -> AlertKind:
    """The kind that a digest has as its own: the most frequent one, of several the first."""
    return max(dict.fromkeys(kinds), key=list(kinds).count)
