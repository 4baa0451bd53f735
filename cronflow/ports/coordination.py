"""Coordination in Redis: fast, volatile, and never the source of truth."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from cronflow.domain.chain import ChainLink
from cronflow.domain.cluster import Member, NodeReport, Renewal
from cronflow.domain.job import Job, Overlap, PendingRun
from cronflow.domain.split import Shard


class Election(Protocol):
    """The leader key. It elects a leader; terms and fences in MongoDB make two leaders harmless."""

    async def acquire(self, holder: str, ttl_s: float) -> bool:
        """Take the key if it is free. After an error, assume not."""

    async def install(self, holder: str, term: int, redis_epoch: str) -> bool:
        """Publish the term and the epoch of Redis's data. False if another holder has the key or Redis has a higher
        term.
        """

    async def renew(self, holder: str, ttl_s: float, term: int, redis_epoch: str) -> Renewal:
        """Renew the key if it is held by `holder`, and restore it if Redis lost it."""

    async def resign(self, holder: str) -> bool:
        """Release the key if `holder` has it, and signal LEADER."""

    async def ask_to_resign(self, term: int) -> None:
        """Ask the leader of this term to step down. Its next renewal returns ASKED; the signal LEADER triggers it at
        once.
        """

    async def holder(self) -> tuple[str, float] | None:
        """The holder of the key and the seconds until it expires, or None."""


class Membership(Protocol):
    """The nodes of the cluster, by heartbeat."""

    async def report(self, report: NodeReport, ttl_s: float, *, asked: bool = False) -> bool:
        """Send a heartbeat. Returns whether the node's name is to be drained. `asked` is the previous answer; it
        restores a request that Redis lost. Raises Conflict if another live incarnation has the same name.
        """

    async def members(self, *, forget: bool = True) -> list[Member]:
        """The nodes whose heartbeat has not expired. The others are forgotten; without `forget` nothing is written."""

    async def leave(self, report: NodeReport) -> None:
        """End the heartbeat at once, and signal LEADER."""

    async def holdings(self, nodes: Collection[str]) -> dict[str, tuple[bool, dict[str, int]]]:
        """By node id: whether it is alive, and run -> fence of the runs it has taken, which are kept for an hour."""

    async def drain(self, name: str, *, wanted: bool, until: datetime | None = None) -> bool:
        """Request that nodes of this name drain, also after a restart, or cancel the request. At `until` they give up
        their running jobs; a further request replaces it. Returns whether it was requested before. Signals STOP.
        """

    async def drain_deadline(self, name: str, known: datetime | None) -> datetime | None:
        """The `until` of the request; `known`, the previous answer, if Redis lost it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Everything a worker needs to run an attempt, so that it reads nothing else before the start.

    With a `pending_run` the run may have no document yet, and the worker inserts it with its first record. `not_before`
    is the run's instant if it was dispatched earlier: the worker holds it until then. `requested_at` is when a run
    outside the schedule was requested. `chain` is the run's place in a chain, if it is not the first one there. `shard`
    is which part of a split run it is.
    """

    run: str
    fence: int
    term: int
    attempt: int
    fire_at: datetime
    job: Job
    args: Mapping[str, object] = field(default_factory=dict)
    pending_run: PendingRun | None = None
    not_before: datetime | None = None
    requested_at: datetime | None = None
    chain: ChainLink | None = None
    shard: Shard | None = None

    @property
    def chain_id(self) -> str:
        """The id of the run's chain."""
        return self.run if self.chain is None else self.chain.id

    @property
    def job_lock(self) -> JobLock:
        """The lock that the run needs. The parts of a run overlap each other."""
        slot = self.run if self.job.overlap is Overlap.ALLOW or self.shard is not None else ""
        return JobLock(self.job.name, slot, self.run, self.fence)


@dataclass(frozen=True, slots=True)
class JobLock:
    """The lock of a taken run. `slot` is the run id if the job's runs may overlap, or for a part; otherwise empty."""

    job: str
    slot: str
    run: str
    fence: int


@dataclass(frozen=True, slots=True)
class Taken:
    """The result of `take`: the assignments that this node now holds, how many were put back because another run has
    the job's lock, how many were dropped, and those of an earlier term, for which no lock was taken. `start_within` has
    for each assignment the seconds in which it must start.
    """

    assignments: Sequence[Assignment]
    put_back: int
    dropped: int
    outdated: Sequence[Assignment] = ()
    start_within: Sequence[float] = ()


AHEAD_VALID_S = 2.0
START_BY_S = 5.0
"""How long after the leader read a job or run an attempt may start under what it read."""
WITHDRAWN_FOR_S = 60.0
"""Far longer than an item may wait to start."""


class Queue(Protocol):
    """The nodes' lists and the job locks. Items may be lost, duplicated or delayed; `check_at` finds lost runs."""

    async def dispatch(
        self, term: int, redis_epoch: str, lists: Mapping[str, Sequence[Assignment]], waited_s: float = 0.0
    ) -> bool:
        """Push to each node's list and signal the node. `waited_s` is how long ago the leader read the jobs, which
        counts towards the time that an item may wait. Raises Deposed if Redis has a newer term. False if Redis lost
        this leader's epoch: nothing was pushed; renew, then push again.
        """

    async def take(self, node: str, most: int) -> Taken:
        """Pop up to `most` items and take their job locks. A newer fence of the same run takes the lock over. An item
        whose lock another run has is put back.
        """

    async def renew_locks(self, node: str, job_locks: Sequence[JobLock]) -> set[str]:
        """Renew the locks, and restore those that Redis lost. Returns the runs whose lock another run or node has."""

    async def release(self, node: str, job_locks: Sequence[JobLock], ahead: int = 0) -> None:
        """Delete the locks that are still held with this fence, and signal CAPACITY. `ahead` is how many runs the node
        accepts beyond its free slots, for AHEAD_VALID_S.
        """

    async def forget_ended(self, node: str, held: Sequence[JobLock]) -> int:
        """Remove all runs but these from the runs that the node has taken. Returns how many. A `take` or `renew_locks`
        that its caller gave up may take effect later, and nobody would release what it adds. Do not call this while a
        `take` of the node is under way.
        """

    async def give_back(self, node: str) -> list[Assignment]:
        """Empty the node's list and return its items."""

    async def cancel(self, runs: Collection[str]) -> None:
        """Make `take` drop these runs for an hour, and signal STOP. Only a hint: the run document decides."""

    async def cancelled(self, runs: Collection[str]) -> set[str]:
        """The runs for which `cancel` was called within the last hour."""

    async def withdraw(self, fences: Mapping[str, int]) -> None:
        """Make `take` drop the items of each run up to this fence for WITHDRAWN_FOR_S seconds, and signal STOP. Only a
        hint: the run document decides.
        """

    async def withdrawn(self, runs: Collection[str]) -> dict[str, int]:
        """The fences up to which these runs were withdrawn lately."""

    async def ping(self) -> float:
        """Round trip in seconds."""


class Signal(StrEnum):
    """A wake-up without content: the listener looks for itself. LEADER: the leader key changed. CAPACITY: a node has
    free slots. JOBS: jobs or runs changed. STOP: runs were cancelled or withdrawn, or a drain was requested.
    NODE: the node's list has items.
    """

    LEADER = "leader"
    CAPACITY = "room"
    JOBS = "jobs"
    STOP = "stop"
    NODE = "node"


class Bus(Protocol):
    """Signals over pub/sub. A signal may be lost, so listeners also poll."""

    async def notify(self, signal: Signal) -> None:
        """Send to all listeners."""

    async def listen(self, node: str, signals: Mapping[Signal, Callable[[], None]]) -> None:
        """Call back on each signal, and once for every signal after each (re)connection. Runs until cancelled. NODE is
        the signal of this node only.
        """


@dataclass(frozen=True, slots=True)
class KeyWithoutTtl:
    """A key that should have a TTL but has none. `node` is set for the list of a node without a heartbeat."""

    key: str
    node: str | None = None


@dataclass(frozen=True, slots=True)
class RedisConfig:
    """How Redis is configured; None where it does not reveal it. `eviction` is `maxmemory-policy`, `durable` is whether
    it writes to disk at all.
    """

    eviction: str | None
    durable: bool | None
    versions: frozenset[str] = frozenset()


class CoordinationAdmin(Protocol):
    """Redis's configuration, and keys that should have expired."""

    async def redis_config(self) -> RedisConfig:
        """The configuration. With several servers, the worst value of any."""

    async def check_rights(self) -> None:
        """Raises AccessDenied with every right that the Redis user lacks, as far as the server reports them."""

    async def keys_without_ttl(self, cursor: int = 0) -> tuple[int, list[KeyWithoutTtl]]:
        """A page of keys without a TTL: locks, heartbeats and the like, and lists of dead nodes. Start with cursor 0
        and pass on the returned cursor until it is 0. Pages may be empty.
        """

    async def set_ttl(self, keys: Collection[str], seconds: float) -> int:
        """Set a TTL on those that still have none. Returns how many. A key in use is renewed before it expires."""

    async def forget_nodes(self, silent_for: timedelta) -> int:
        """Delete what is left of nodes without a heartbeat for this long. Returns how many."""
