"""What is rehearsed: the period, the nodes, the durations, and what goes wrong on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import Job
from cronflow.domain.permits import NamedLimit
from cronflow.domain.resources import ResourceAmount
from cronflow.domain.schedule.calendar import Calendar
from cronflow.leader.catch_up import CatchUpOptions

LONGEST = timedelta(days=35)
MOST_FIRES = 20_000
DEFAULT_CATCH_UP = CatchUpOptions(limit=1000)
DEFAULT_SLOTS = 16
PLENTY = ResourceAmount(cpu=1024.0, memory=1 << 50)
"""What jobs may reserve on a node that is only assumed."""


@dataclass(frozen=True, slots=True)
class RehearsedNode:
    """A node of the rehearsed cluster. `capacity` is what jobs may reserve on it."""

    name: str
    slots: int = DEFAULT_SLOTS
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: ResourceAmount | None = PLENTY


@dataclass(frozen=True, slots=True)
class RehearsedJob:
    """A job, and its state if it comes from a cluster. `next_fire` is its cursor, None for the first fire of the
    period; a job that is `done` never fires again. A job whose `paused` is true stays paused until `paused_until`, or
    for the whole period.
    """

    job: Job
    next_fire: datetime | None = None
    paused: bool = False
    paused_until: datetime | None = None
    done: bool = False


@dataclass(frozen=True, slots=True)
class RehearsedOutage:
    """From `at`, all nodes are down for `length`."""

    at: datetime
    length: timedelta

    @property
    def end(self) -> datetime:
        return self.at + self.length


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """From `first` to `until`. `durations` is by job; a job that is not in it runs for `duration`. Raises InvalidInput
    for a scenario that makes no sense.
    """

    first: datetime
    until: datetime
    nodes: Sequence[RehearsedNode] = (RehearsedNode("node-1"), RehearsedNode("node-2"), RehearsedNode("node-3"))
    durations: Mapping[str, timedelta] = field(default_factory=dict)
    duration: timedelta = timedelta(seconds=1)
    outage: RehearsedOutage | None = None
    kill_leader_at: datetime | None = None
    limits: Sequence[NamedLimit] = ()
    calendars: Sequence[Calendar] = ()
    catch_up: CatchUpOptions = DEFAULT_CATCH_UP

    def __post_init__(self) -> None:
        if self.until <= self.first:
            raise InvalidInput(Problem("--until", "the end is not after the beginning", "choose a later end"))
        if self.until - self.first > LONGEST:
            what = f"the period is {(self.until - self.first).days} days long; at most {LONGEST.days} are possible"
            raise InvalidInput(Problem("--until", what, "rehearse a shorter period"))
        if self.kill_leader_at is not None:
            self._check_within("--kill-leader", self.kill_leader_at)
            if len(self.nodes) < 2:
                what = "nobody could take over: the rehearsed cluster has one node"
                raise InvalidInput(Problem("--kill-leader", what, "add --nodes 3"))
        if self.outage is not None:
            self._check_within("--outage", self.outage.at)
            self._check_within("--outage", self.outage.end)
            killed = self.kill_leader_at
            if killed is not None and self.outage.at <= killed <= self.outage.end:
                raise InvalidInput(Problem("--kill-leader", "no node is up during the outage", "choose another time"))

    def _check_within(self, flag: str, instant: datetime) -> None:
        if not self.first <= instant <= self.until:
            what = f"{instant:%Y-%m-%d %H:%M:%S}Z is outside of the period"
            raise InvalidInput(Problem(flag, what, f"choose a time until {self.until:%Y-%m-%d %H:%M:%S}Z"))

    def duration_of(self, job: str) -> timedelta:
        return self.durations.get(job, self.duration)

    @property
    def slots(self) -> int:
        """Of all nodes."""
        return sum(node.slots for node in self.nodes)
