"""The cluster: its nodes as they report themselves, the leader's tenure, and the fencing tokens that it may give out.

The rule it protects: a token is never given out twice and never below one given out before, whatever clocks and
Redis do. Ranges are reserved in MongoDB, in the document that also counts the terms; within a range the counter is
local (Kleppmann, "How to do distributed locking", 2016, for the use of tokens).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from cronflow.domain.errors import Deposed, Problem

if TYPE_CHECKING:
    from cronflow.domain.sweep import SweepReport

PROTOCOL = 2
FENCE_RANGE_US = 120_000_000
NODE_SEPARATOR = "#"
NO_EVICTION = "noeviction"


def eviction_problem(policy: str) -> Problem:
    """What is wrong with a Redis of such a `maxmemory-policy`."""
    what = f"maxmemory-policy is {policy}: with its memory full it would drop the leader's key, locks and queued runs"
    return Problem("Redis", what, f"set it to {NO_EVICTION}, in its configuration or by CONFIG SET")


def node_id(name: str, incarnation: str) -> str:
    """`<name>#<incarnation>`: one start of one node."""
    return f"{name}{NODE_SEPARATOR}{incarnation}"


def node_name(node: str) -> str:
    """The name in a node id."""
    return node.partition(NODE_SEPARATOR)[0]


@dataclass(frozen=True, slots=True)
class Backlog:
    """Outcomes on a node's disk that wait for MongoDB: how many, their bytes, and since when there have been any."""

    outcomes: int = 0
    bytes: int = 0
    since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """What a node says of itself with each heartbeat.

    `cpu` and `memory` are fractions of what it may use, 0 to 1; `lag_s` is how late its event loop turns,
    `mongo_away_s` for how long it has not reached MongoDB; `breakers` are the states of its circuits by service,
    MongoDB's and those of hosts that are not closed; `zones` is the version of its time zone data.
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

    @property
    def id(self) -> str:
        """The node id of this incarnation."""
        return node_id(self.name, self.incarnation)


@dataclass(frozen=True, slots=True)
class Member:
    """A node as the cluster sees it: its last report, how old that is, what lies in its list and what it holds.

    `drain_asked` is what was asked of its name; the node itself may not have heard of it yet.
    """

    report: NodeReport
    age: timedelta
    queued: int
    held: int
    drain_asked: bool = False

    @property
    def draining(self) -> bool:
        """Whether it is to get no more work: it says so itself, or was asked to."""
        return self.drain_asked or self.report.draining

    @property
    def drained(self) -> bool:
        """Whether it knows that it is to be drained, and has nothing left."""
        return self.report.draining and not self.queued and not self.held

    @property
    def id(self) -> str:
        """The node id of this incarnation."""
        return self.report.id

    @property
    def capacity(self) -> int:
        """How many more runs it can be given: its free slots, and what it ends in about a second."""
        return self.report.slots + int(self.report.rate) - self.held - self.queued


class Renewal(StrEnum):
    """The answer to a leader's renewal. AGAIN: Redis had forgotten and was told anew. ASKED: renewed, and told to
    resign.
    """

    OK = "ok"
    ASKED = "asked"
    AGAIN = "again"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Term:
    """What MongoDB gives the winner of an election: its number and the range (low, high] of its tokens, in epoch
    microseconds.
    """

    number: int
    fence_low: int
    fence_high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderRecord:
    """The control document, as people read it."""

    term: int
    holder: str
    elected_at: datetime
    renewed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """The cluster at a glance. `leader` is a node's name, `elected_at` since when it leads, `lease_left_s` how long its
    key still lasts, in seconds; without a leader `term` is the last one.
    """

    leader: str | None
    term: int
    lease_left_s: float | None
    elected_at: datetime | None
    members: Sequence[Member]
    sweep: SweepReport | None = None


class Fences:
    """Gives out the tokens of one term: `max(last + 1, min(now, high))`, so a token is also a timestamp in epoch
    microseconds.
    """

    def __init__(self, term: Term) -> None:
        self._last = term.fence_low
        self._high = term.fence_high

    def extend(self, high: int) -> None:
        """MongoDB has confirmed a longer range."""
        self._high = max(self._high, high)

    def next(self, now: datetime) -> int:
        """The next token. Raises Deposed when the range is used up and nobody extended it: no proof of leadership, no
        token.
        """
        candidate = max(self._last + 1, min(int(now.timestamp() * 1_000_000), self._high))
        if candidate > self._high:
            raise Deposed("the reserved range of fencing tokens is used up")
        self._last = candidate
        return candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenure:
    """The right of this process to lead: its term, its nonce in Redis, and the tokens it may give out."""

    term: int
    holder: str
    redis_epoch: str
    fences: Fences
