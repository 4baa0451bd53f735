"""The cluster: node reports, the leader's tenure and its fencing tokens.

Rule: tokens increase strictly, whatever clocks and Redis do. Ranges are reserved in MongoDB, in the document that also
counts the terms; within a range the counter is local (Kleppmann, "How to do distributed locking", 2016).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from cronflow.domain.errors import Deposed, Problem
from cronflow.domain.resources import ResourceAmount

if TYPE_CHECKING:
    from cronflow.domain.capabilities import Capabilities
    from cronflow.domain.maintenance_mode import MaintenanceMode
    from cronflow.domain.sweep import SweepReport

PROTOCOL = 2
FENCE_RANGE_US = 120_000_000
NODE_SEPARATOR = "#"
NO_EVICTION = "noeviction"


def eviction_problem(policy: str) -> Problem:
    """The problem of a Redis with another `maxmemory-policy` than noeviction."""
    what = f"maxmemory-policy is {policy}: when memory is full, it would drop the leader's key, locks and queued runs"
    return Problem("Redis", what, f"set it to {NO_EVICTION}, in its configuration or by CONFIG SET")


def node_id(name: str, incarnation: str) -> str:
    """`<name>#<incarnation>`: one start of one node."""
    return f"{name}{NODE_SEPARATOR}{incarnation}"


def node_name(node: str) -> str:
    return node.partition(NODE_SEPARATOR)[0]


@dataclass(frozen=True, slots=True)
class Backlog:
    """Outcomes on a node's disk that wait for MongoDB: number, size, and since when there have been any."""

    outcomes: int = 0
    bytes: int = 0
    since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """What a node reports with each heartbeat.

    `cpu` and `memory` are fractions of its limits, 0 to 1; `lag_s` is how late its event loop runs, `mongo_away_s` for
    how long it has not reached MongoDB; `breakers` has the states of its circuit breakers by service: MongoDB's, and
    those of hosts that are not closed; `zones` is the version of its time zone data; `capabilities` is what it can run,
    None for a node of 0.6. `accepts_early` is how many runs beyond its slots it accepts before their instant, None for
    a node of 0.8, which would start them at once. `knows_newer_keys` is false for a node of 0.9, which would start runs
    beyond their limits, and `knows_keys_of_0_12` for one of 0.11. `capacity` is what jobs may reserve on it, None for a
    node of 0.9. `differing` has the jobs whose code on it is not what is stored, with the keys that differ and a digest
    of the difference. `apps` has the fingerprint of each of its Apps, which is the same wherever the App defines the
    same jobs; empty for a node of 0.12.
    """

    name: str
    incarnation: str
    cpu: float
    memory: float
    slots: int
    in_flight: int
    rate: float = 0.0
    labels: Mapping[str, str] = field(default_factory=dict)
    draining: bool = False
    lag_s: float = 0.0
    mongo_away_s: float = 0.0
    version: str = ""
    pid: int = 0
    host: str = ""
    started_at: datetime | None = None
    breakers: Mapping[str, str] = field(default_factory=dict)
    spool: Backlog = Backlog()
    zones: str = ""
    capabilities: Capabilities | None = None
    inserts_runs: bool = False
    accepts_early: int | None = None
    knows_newer_keys: bool = False
    knows_keys_of_0_12: bool = False
    capacity: ResourceAmount | None = None
    differing: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    apps: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The node id of this incarnation."""
        return node_id(self.name, self.incarnation)


@dataclass(frozen=True, slots=True)
class Member:
    """A node as the cluster sees it: its last report and its age, the runs in its queue and the runs that it holds.

    `ahead` is how many runs it accepts beyond its slots. `drain_asked`: a drain was requested; the node may not have
    received the request yet. `reserved` is what its runs reserve, if the reader asked MongoDB for it and got an answer.
    `drain_until` is when it gives up what runs, if the reader asked for it and a drain has a deadline.
    """

    report: NodeReport
    age: timedelta
    queued: int
    held: int
    drain_asked: bool = False
    ahead: int = 0
    reserved: ResourceAmount | None = None
    drain_until: datetime | None = None

    @property
    def draining(self) -> bool:
        """Whether it gets no more work."""
        return self.drain_asked or self.report.draining

    @property
    def drained(self) -> bool:
        """Whether it has received the drain request and has no runs left."""
        return self.report.draining and not self.queued and not self.held

    @property
    def id(self) -> str:
        """The node id of this incarnation."""
        return self.report.id

    @property
    def capacity(self) -> int:
        """How many more runs it can be given: its free slots, plus those that it accepts ahead."""
        return self.report.slots + self.ahead - self.held - self.queued

    @property
    def early_capacity(self) -> int:
        """How many more runs it can be given that wait for their instant."""
        early = self.report.accepts_early
        return 0 if early is None else self.report.slots + early - self.held - self.queued


class Renewal(StrEnum):
    """The reply to a leader's renewal. AGAIN: Redis had lost the key, and it was set again. ASKED: renewed, but an
    operator has requested a step-down.
    """

    OK = "ok"
    ASKED = "asked"
    AGAIN = "again"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Term:
    """The term that MongoDB gives the winner of an election: its number, and the range (low, high] of its tokens, in
    epoch microseconds. `previous` is the leader before it.
    """

    number: int
    fence_low: int
    fence_high: int
    previous: LastLease | None = None


@dataclass(frozen=True, slots=True)
class LastLease:
    """Who held the lease, and when it was last renewed."""

    holder: str
    renewed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderRecord:
    """The control document in MongoDB."""

    term: int
    holder: str
    elected_at: datetime
    renewed_at: datetime


class Lead(NamedTuple):
    """The name of the leader, and the remaining TTL of its key in seconds."""

    leader: str
    lease_left_s: float


def lead_of(held: tuple[str, float] | None, record: LeaderRecord | None) -> Lead | None:
    """The lead of the cluster, or None. The holder of the lease leads once its term is recorded, a moment later."""
    if held is None or record is None or record.holder != held[0]:
        return None
    return Lead(node_name(held[0]), held[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """The state of the cluster. `leader` is a node's name, `lease_left_s` the remaining TTL of its key in seconds;
    without a leader, `term` is the last one. `maintenance` is None unless it is on.
    """

    leader: str | None
    term: int
    lease_left_s: float | None
    elected_at: datetime | None
    members: Sequence[Member]
    sweep: SweepReport | None = None
    maintenance: MaintenanceMode | None = None


class Fences:
    """Issues the tokens of one term: `max(last + 1, min(now, high))`, so a token is also a timestamp in epoch
    microseconds.
    """

    def __init__(self, term: Term) -> None:
        self._last = term.fence_low
        self._high = term.fence_high

    def extend(self, high: int) -> None:
        """Extend the range, after MongoDB has confirmed it."""
        self._high = max(self._high, high)

    def next(self, now: datetime) -> int:
        """The next token. Raises Deposed when the range is used up: without proof of leadership there is no token."""
        candidate = max(self._last + 1, min(int(now.timestamp() * 1_000_000), self._high))
        if candidate > self._high:
            raise Deposed("the reserved range of fencing tokens is used up")
        self._last = candidate
        return candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenure:
    """The leadership of this process: its term, its holder id in Redis, and its fencing tokens."""

    term: int
    holder: str
    redis_epoch: str
    fences: Fences
