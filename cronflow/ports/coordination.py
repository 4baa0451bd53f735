"""What Redis keeps: fast, volatile and never believed. Every verb may raise BackendUnavailable; see the package."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from cronflow.domain.cluster import Member, NodeReport, Renewal
from cronflow.domain.job import Job


class Election(Protocol):
    """The leader's key. It elects; it does not protect."""

    async def acquire(self, holder: str, ttl_s: float) -> bool:
        """Take the key if nobody has it. After an error: not the leader."""

    async def install(self, holder: str, term: int, redis_epoch: str) -> bool:
        """Announce the term and the id of this memory of Redis. False when another one holds the key or a higher term
        is known.
        """

    async def renew(self, holder: str, ttl_s: float, term: int, redis_epoch: str) -> Renewal:
        """Compare, then renew; what Redis has forgotten is set anew."""

    async def resign(self, holder: str) -> bool:
        """Give the key back if it is mine, and ring the followers."""

    async def ask_to_resign(self, term: int) -> None:
        """Ask the leader of this term to step down; its next renewal, which a ring brings about at once, is told so."""

    async def holder(self) -> tuple[str, float] | None:
        """Who has the key and for how many seconds still, or None."""


class Membership(Protocol):
    """Who is up."""

    async def report(self, report: NodeReport, ttl_s: float, *, asked: bool = False) -> bool:
        """Heartbeat. Returns whether the node's name is to be drained. `asked` says that it was told so before; where
        that has been forgotten, it is set again. Raises Conflict when another live incarnation has the same name.
        """

    async def members(self) -> list[Member]:
        """The nodes with a heartbeat that has not expired, and whether each is to be drained."""

    async def leave(self, report: NodeReport) -> None:
        """Be gone at once."""

    async def holdings(self, nodes: Collection[str]) -> dict[str, tuple[bool, dict[str, int]]]:
        """Per node id: whether it is alive, and run -> fence of what it has taken (known an hour beyond its death)."""

    async def drain(self, name: str, *, wanted: bool) -> None:
        """Say that the nodes of this name, now and after a restart, are to be drained; or no longer. Rings STOP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """All that a worker needs to run an attempt; it travels in the node's list, so no other read is needed."""

    run: str
    fence: int
    term: int
    attempt: int
    fire_at: datetime
    job: Job
    args: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobLock:
    """A taken run by what its lock is made of. `slot` is the run id where a job's runs may overlap, else empty."""

    job: str
    slot: str
    run: str
    fence: int


@dataclass(frozen=True, slots=True)
class Taken:
    """The answer to `take`: what is mine now, how many were put back because another run has the job's lock, how many
    dropped, and those of an earlier term, which are nobody's: no lock was taken for them.
    """

    assignments: Sequence[Assignment]
    put_back: int
    dropped: int
    outdated: Sequence[Assignment] = ()


class Queue(Protocol):
    """The nodes' lists and the job locks. It may lose, double or delay anything: `check_at` finds what was lost."""

    async def dispatch(self, term: int, redis_epoch: str, lists: Mapping[str, Sequence[Assignment]]) -> bool:
        """Push to each node's list and ring it. Raises Deposed when a newer term is known. False: Redis has forgotten
        this leader, nothing was pushed; renew, then push again.
        """

    async def take(self, node: str, most: int) -> Taken:
        """Take up to that many under their job locks. A newer fence of the same run wins the lock; another run of the
        job is put back.
        """

    async def renew_locks(self, node: str, job_locks: Sequence[JobLock]) -> set[str]:
        """Renew, or set anew what was forgotten. Returns the runs whose lock is somebody else's."""

    async def release(self, node: str, job_locks: Sequence[JobLock]) -> None:
        """Compare, then delete; and ring the leader, because there is room."""

    async def give_back(self, node: str) -> list[Assignment]:
        """Empty the node's list, and return what lay in it."""

    async def cancel(self, runs: Collection[str]) -> None:
        """Refuse these to every `take` of the next hour, and ring STOP. A hint: what counts is the run's document."""

    async def cancelled(self, runs: Collection[str]) -> set[str]:
        """Those for which `cancel` was called within the hour."""

    async def ping(self) -> float:
        """Round trip in seconds."""


class Signal(StrEnum):
    """The doorbells. Each says only: look. LEADER: at the leader's key; ROOM: slots are free; JOBS: jobs or runs
    changed; STOP: runs were cancelled, or a node is to be drained.
    """

    LEADER = "leader"
    CAPACITY = "room"
    JOBS = "jobs"
    STOP = "stop"
    NODE = "node"


class Bus(Protocol):
    """Doorbells over pub/sub. A ring may be lost; whoever listens also polls."""

    async def notify(self, signal: Signal) -> None:
        """Ring all that listen."""

    async def listen(self, node: str, signals: Mapping[Signal, Callable[[], None]]) -> None:
        """Call back on each ring, and once for all after every (re)connection; runs until it is cancelled. NODE is the
        node's own.
        """


@dataclass(frozen=True, slots=True)
class KeyWithoutTtl:
    """A key that should expire by itself and does not. `node` is set for the list of a node without a heartbeat."""

    key: str
    node: str | None = None


@dataclass(frozen=True, slots=True)
class RedisConfig:
    """How Redis keeps what it was given; None is what it does not tell. `eviction` is its `maxmemory-policy`; `durable`
    says whether it writes to a disk at all; `versions` has those of its servers.
    """

    eviction: str | None
    durable: bool | None
    versions: frozenset[str] = frozenset()


class CoordinationAdmin(Protocol):
    """What should go away by itself in Redis and does not, and what should stay."""

    async def redis_config(self) -> RedisConfig:
        """How it is configured. Of several servers the one that suits least counts."""

    async def keys_without_ttl(self, cursor: int = 0) -> tuple[int, list[KeyWithoutTtl]]:
        """A page: locks, heartbeats and the like without a time limit, and such lists of nodes that are gone. Begin
        with cursor 0, go on with the one that comes back, until it is 0 again; pages may be empty.
        """

    async def set_ttl(self, keys: Collection[str], seconds: float) -> int:
        """Give those that still have no time limit this one. Returns how many; who needs a key renews it in time."""

    async def forget_nodes(self, silent_for: timedelta) -> int:
        """Forget what is left of nodes that have been silent for so long. Returns how many."""
