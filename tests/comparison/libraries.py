"""The compared libraries, each as one function: the instants at which a cron line fires in a zone.

Every library is used as its own documentation shows, with zones of `zoneinfo`, and is asked from fire to fire. It
raises `Refused` for a line that the library does not accept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger
from croniter import CroniterError, croniter
from cronsim import CronSim, CronSimError

from cronflow.domain.errors import InvalidInput
from cronflow.domain.schedule.fires import next_after
from cronflow.domain.schedule.kinds import Cron

SECOND = timedelta(seconds=1)
# APScheduler asks for the next fire a little after the last one.
SOON = timedelta(milliseconds=5)


class Refused(Exception):
    """The library does not accept the line."""


Walk = Callable[[str, ZoneInfo, datetime], Iterator[datetime]]


@dataclass(frozen=True, slots=True)
class Library:
    """A library by its name, and its fires in ascending order from an instant on."""

    name: str
    package: str
    walk: Walk

    def fires(self, line: str, zone: ZoneInfo, first: datetime, last: datetime) -> list[datetime]:
        """The fires in [first, last), in UTC. Raises Refused."""
        found = []
        for fire in self.walk(line, zone, first):
            instant = fire.astimezone(UTC)
            if instant >= last:
                break
            found.append(instant)
        return found

    @property
    def version(self) -> str:
        return version(self.package)


def _cronflow(line: str, zone: ZoneInfo, first: datetime) -> Iterator[datetime]:
    try:
        schedule = Cron(line, zone.key)
    except InvalidInput as error:
        raise Refused(str(error)) from error
    fire = next_after(schedule, first - SECOND)
    while fire is not None:
        yield fire
        fire = next_after(schedule, fire)


def _cronsim(line: str, zone: ZoneInfo, first: datetime) -> Iterator[datetime]:
    try:
        yield from CronSim(line, (first - SECOND).astimezone(zone))
    except CronSimError as error:
        raise Refused(str(error)) from error


def _croniter(line: str, zone: ZoneInfo, first: datetime) -> Iterator[datetime]:
    try:
        walk = croniter(line, (first - SECOND).astimezone(zone), datetime, second_at_beginning=True)
    except CroniterError as error:
        raise Refused(str(error)) from error
    while True:
        yield walk.get_next(datetime)


def _apscheduler(line: str, zone: ZoneInfo, first: datetime) -> Iterator[datetime]:
    try:
        trigger = CronTrigger.from_crontab(line, zone)
    except ValueError as error:
        raise Refused(str(error)) from error
    fire = trigger.get_next_fire_time(None, first.astimezone(zone))
    while fire is not None:
        yield fire
        now = (fire.astimezone(UTC) + SOON).astimezone(zone)
        fire = trigger.get_next_fire_time(fire, now)


CRONFLOW = Library("CronFlow", "cronflow", _cronflow)
CRONSIM = Library("cronsim", "cronsim", _cronsim)
CRONITER = Library("croniter", "croniter", _croniter)
APSCHEDULER = Library("APScheduler", "apscheduler", _apscheduler)
OTHERS = (CRONSIM, CRONITER, APSCHEDULER)
