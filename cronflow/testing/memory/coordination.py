"""The state of one Redis, and the ports on it: election, membership, the nodes' lists, job locks and signals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from cronflow.domain.access import Principal
from cronflow.domain.cluster import NO_EVICTION, Member, NodeReport, Renewal, node_name
from cronflow.domain.errors import Conflict, Deposed
from cronflow.ports import (
    AHEAD_VALID_S,
    START_BY_S,
    WITHDRAWN_FOR_S,
    Assignment,
    Clock,
    Entry,
    JobLock,
    LineBatch,
    RedisConfig,
    Signal,
    Taken,
)
from cronflow.testing.faults import Faults, FaultyPort

CANCEL_S = 3600.0
KEYS = (
    *("leader", "term", "redis_epoch", "resign", "reports", "lists", "held", "locks", "ahead", "cancels"),
    *("withdrawals", "drains", "drain_deadlines", "builder", "feed", "tail_until", "lines"),
)
"""What `Memory.flush` loses."""


class Memory:
    """All keys of one Redis, for tests to read and to forge. Times are those of `clock.monotonic()`."""

    def __init__(
        self, clock: Clock, *, lock_s: float = 35.0, start_by_s: float = START_BY_S, has_ahead: bool = True
    ) -> None:
        self.clock, self.lock_s, self.start_by_s, self.has_ahead = clock, lock_s, start_by_s, has_ahead
        self.signals: dict[str, list[Callable[[], None]]] = {}
        self.entries = 0
        self.full_at: dict[str, float] = {}
        self.attempts: dict[str, tuple[int, float, float]] = {}
        self.tickets: dict[str, tuple[Principal, float]] = {}
        self.logins: dict[str, tuple[str, float]] = {}
        self.config = RedisConfig(eviction=NO_EVICTION, durable=False)
        self.flush()

    def flush(self) -> None:
        """Lose what coordination depends on, as FLUSHALL would. Subscriptions stay."""
        self.leader: tuple[str, float] | None = None
        self.term = 0
        self.redis_epoch: str | None = None
        self.resign: int | None = None
        self.reports: dict[str, tuple[NodeReport, float, float]] = {}
        self.lists: dict[str, list[tuple[float, Assignment]]] = {}
        self.held: dict[str, dict[str, int]] = {}
        self.locks: dict[tuple[str, str], tuple[JobLock, str, float]] = {}
        self.ahead: dict[str, tuple[int, float]] = {}
        self.cancels: dict[str, float] = {}
        self.withdrawals: dict[str, tuple[int, float]] = {}
        self.drains: dict[str, bool] = {}
        self.drain_deadlines: dict[str, datetime | None] = {}
        self.builder: tuple[str, float] | None = None
        self.feed: list[Entry] = []
        self.tail_until = 0.0
        self.lines: list[LineBatch] = []

    def copy(self) -> Mapping[str, Any]:
        """The keys as they are now, for `restore`."""
        return {name: _copied(getattr(self, name)) for name in KEYS}

    def restore(self, keys: Mapping[str, Any]) -> None:
        """Go back to these keys, as a Redis that lost its latest writes would. Subscriptions stay."""
        for name, value in keys.items():
            setattr(self, name, _copied(value))

    def notify(self, channel: str) -> None:
        """Call every listener of the channel."""
        for look in self.signals.get(channel, ()):
            look()

    def leader_now(self) -> str | None:
        """The holder of the leader key, unless the key has expired."""
        if self.leader is not None and self.leader[1] <= self.clock.monotonic():
            self.leader = None
        return None if self.leader is None else self.leader[0]

    def builder_now(self) -> str | None:
        """The holder of the right to build ticks, unless it has expired."""
        if self.builder is not None and self.builder[1] <= self.clock.monotonic():
            self.builder = None
        return None if self.builder is None else self.builder[0]

    def stream_id(self) -> str:
        """The id of the next stream entry."""
        self.entries += 1
        return f"{self.clock.now().timestamp() * 1000:.0f}-{self.entries}"

    def alive(self, node: str) -> bool:
        """Whether the node has a heartbeat that has not expired."""
        entry = self.reports.get(node)
        return entry is not None and entry[1] > self.clock.monotonic()

    def ahead_now(self, node: str) -> int:
        """How many runs the node accepts beyond its slots."""
        ahead, until = self.ahead.get(node, (0, 0.0))
        return ahead if self.has_ahead and until > self.clock.monotonic() else 0

    def is_cancelled(self, run: str) -> bool:
        """Whether the run was cancelled within the last hour."""
        return self.cancels.get(run, 0.0) > self.clock.monotonic()

    def withdrawn_up_to(self, run: str) -> int:
        """The fence up to which the run was withdrawn lately; 0 if it was not."""
        fence, until = self.withdrawals.get(run, (0, 0.0))
        return fence if until > self.clock.monotonic() else 0

    def lock(self, key: tuple[str, str]) -> tuple[JobLock, str] | None:
        """The lock and the node that holds it, unless it has expired."""
        entry = self.locks.get(key)
        if entry is None or entry[2] <= self.clock.monotonic():
            return None
        return entry[0], entry[1]


def _copied(value: Any) -> Any:
    """A copy of what changes in place."""
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    return list(value) if isinstance(value, list) else value


class RedisPort(FaultyPort):
    """A port on the memory."""

    service = "Redis"

    def __init__(self, faults: Faults, memory: Memory) -> None:
        self.faults, self.memory, self.clock = faults, memory, memory.clock


class MemoryServerClock:
    """A server's clock; `skew` sets it wrong."""

    def __init__(self, faults: Faults, clock: Clock, service: str) -> None:
        self.faults, self._clock, self._service = faults, clock, service
        self.skew = timedelta(0)

    async def now(self) -> datetime:
        await self.faults.before(self._service, f"{self._service}.time")
        return self._clock.now() + self.skew


class MemoryElection(RedisPort, port="election"):
    async def acquire(self, holder: str, ttl_s: float) -> bool:
        if self.memory.leader_now() is not None:
            return False
        self.memory.leader = (holder, self.clock.monotonic() + ttl_s)
        return True

    async def install(self, holder: str, term: int, redis_epoch: str) -> bool:
        if self.memory.leader_now() != holder or self.memory.term > term:
            return False
        self.memory.term, self.memory.redis_epoch = term, redis_epoch
        return True

    async def renew(self, holder: str, ttl_s: float, term: int, redis_epoch: str) -> Renewal:
        memory = self.memory
        present = memory.leader_now()
        if memory.term > term or present not in (None, holder):
            return Renewal.LOST
        known = present == holder and (memory.term, memory.redis_epoch) == (term, redis_epoch)
        memory.leader = (holder, memory.clock.monotonic() + ttl_s)
        memory.term, memory.redis_epoch = term, redis_epoch
        if known and memory.resign == term:
            return Renewal.ASKED
        return Renewal.OK if known else Renewal.AGAIN

    async def resign(self, holder: str) -> bool:
        if self.memory.leader_now() != holder:
            return False
        self.memory.leader = None
        self.memory.notify(Signal.LEADER)
        return True

    async def ask_to_resign(self, term: int) -> None:
        self.memory.resign = term
        self.memory.notify(Signal.LEADER)

    async def holder(self) -> tuple[str, float] | None:
        if self.memory.leader_now() is None or self.memory.leader is None:
            return None
        name, until = self.memory.leader
        return name, until - self.clock.monotonic()


class MemoryMembership(RedisPort, port="membership"):
    async def report(self, report: NodeReport, ttl_s: float, *, asked: bool = False) -> bool:
        for node in self.memory.reports:
            if node != report.id and node_name(node) == report.name and self.memory.alive(node):
                raise Conflict(
                    f"a live node is already called {report.name!r} (it is {node}); choose another NODE_NAME"
                )
        now = self.clock.monotonic()
        self.memory.reports[report.id] = (report, now + ttl_s, now)
        if asked:
            self.memory.drains.setdefault(report.name, True)
        return self.memory.drains.get(report.name, False)

    async def members(self, *, forget: bool = True) -> list[Member]:
        memory = self.memory
        return [
            Member(
                report,
                timedelta(seconds=memory.clock.monotonic() - seen),
                len(memory.lists.get(node, ())),
                len(memory.held.get(node, ())),
                memory.drains.get(report.name, False),
                memory.ahead_now(node),
            )
            for node, (report, _, seen) in memory.reports.items()
            if memory.alive(node)
        ]

    async def leave(self, report: NodeReport) -> None:
        self.memory.reports.pop(report.id, None)
        self.memory.notify(Signal.LEADER)

    async def holdings(self, nodes: Collection[str]) -> dict[str, tuple[bool, dict[str, int]]]:
        return {node: (self.memory.alive(node), dict(self.memory.held.get(node, {}))) for node in nodes}

    async def drain(self, name: str, *, wanted: bool, until: datetime | None = None) -> bool:
        before = self.memory.drains.get(name, False)
        self.memory.drains[name] = wanted
        self.memory.drain_deadlines[name] = until
        self.memory.notify(Signal.STOP)
        return before

    async def drain_deadline(self, name: str, known: datetime | None) -> datetime | None:
        return self.memory.drain_deadlines.get(name, known)


class MemoryQueue(RedisPort, port="queue"):
    async def dispatch(
        self, term: int, redis_epoch: str, lists: Mapping[str, Sequence[Assignment]], waited_s: float = 0.0
    ) -> bool:
        if self.memory.term > term:
            raise Deposed("Redis has a newer term")
        if self.memory.redis_epoch != redis_epoch:
            return False
        start_by = self.clock.monotonic() + self.memory.start_by_s - waited_s
        for node, assignments in lists.items():
            self.memory.lists.setdefault(node, []).extend((start_by, assignment) for assignment in assignments)
            self.memory.notify(f"node:{node}")
        return True

    async def take(self, node: str, most: int) -> Taken:
        memory = self.memory
        now = memory.clock.monotonic()
        waiting = memory.lists.get(node, [])
        batch, memory.lists[node] = waiting[:most], waiting[most:]
        taken: list[Assignment] = []
        outdated: list[Assignment] = []
        start_within: list[float] = []
        put_back = dropped = 0
        for start_by, assignment in batch:
            withdrawn = assignment.fence <= memory.withdrawn_up_to(assignment.run)
            if now > start_by or memory.is_cancelled(assignment.run) or withdrawn:
                dropped += 1
                continue
            if assignment.term < memory.term:
                outdated.append(assignment)
                continue
            job_lock = assignment.job_lock
            present = memory.lock((job_lock.job, job_lock.slot))
            if present is not None and present[0].run != job_lock.run:
                put_back += 1
                memory.lists[node].append((start_by, assignment))
            elif present is not None and present[0].fence >= job_lock.fence:
                dropped += 1
            else:
                memory.locks[(job_lock.job, job_lock.slot)] = (job_lock, node, now + memory.lock_s)
                memory.held.setdefault(node, {})[job_lock.run] = job_lock.fence
                taken.append(assignment)
                start_within.append(start_by - now)
        return Taken(taken, put_back, dropped, outdated, start_within)

    async def renew_locks(self, node: str, job_locks: Sequence[JobLock]) -> set[str]:
        memory = self.memory
        lost = set()
        for job_lock in job_locks:
            present = memory.lock((job_lock.job, job_lock.slot))
            if present is None or present == (job_lock, node):
                memory.locks[(job_lock.job, job_lock.slot)] = (job_lock, node, self.clock.monotonic() + memory.lock_s)
                memory.held.setdefault(node, {})[job_lock.run] = job_lock.fence
            else:
                lost.add(job_lock.run)
        return lost

    async def release(self, node: str, job_locks: Sequence[JobLock], ahead: int = 0) -> None:
        memory = self.memory
        memory.ahead[node] = (ahead, memory.clock.monotonic() + AHEAD_VALID_S)
        for job_lock in job_locks:
            present = memory.lock((job_lock.job, job_lock.slot))
            if present is not None and present[0].fence == job_lock.fence:
                del memory.locks[(job_lock.job, job_lock.slot)]
            mine = memory.held.get(node, {})
            if mine.get(job_lock.run) == job_lock.fence:
                del mine[job_lock.run]
        memory.notify(Signal.CAPACITY)

    async def forget_ended(self, node: str, held: Sequence[JobLock]) -> int:
        kept = {(job_lock.run, job_lock.fence) for job_lock in held}
        taken = self.memory.held.get(node, {})
        gone = [run for run, fence in taken.items() if (run, fence) not in kept]
        for run in gone:
            del taken[run]
        return len(gone)

    async def give_back(self, node: str) -> list[Assignment]:
        return [assignment for _, assignment in self.memory.lists.pop(node, [])]

    async def cancel(self, runs: Collection[str]) -> None:
        until = self.clock.monotonic() + CANCEL_S
        self.memory.cancels.update(dict.fromkeys(runs, until))
        self.memory.notify(Signal.STOP)

    async def cancelled(self, runs: Collection[str]) -> set[str]:
        return {run for run in runs if self.memory.is_cancelled(run)}

    async def withdraw(self, fences: Mapping[str, int]) -> None:
        until = self.clock.monotonic() + WITHDRAWN_FOR_S
        self.memory.withdrawals.update({run: (fence, until) for run, fence in fences.items()})
        self.memory.notify(Signal.STOP)

    async def withdrawn(self, runs: Collection[str]) -> dict[str, int]:
        marks = {run: self.memory.withdrawn_up_to(run) for run in runs}
        return {run: fence for run, fence in marks.items() if fence}

    async def ping(self) -> float:
        return 0.0


class MemoryBus(RedisPort, port="bus", unhooked=("listen",)):
    async def notify(self, signal: Signal) -> None:
        self.memory.notify(signal)

    async def listen(self, node: str, signals: Mapping[Signal, Callable[[], None]]) -> None:
        channels = {f"node:{node}" if signal is Signal.NODE else signal.value: look for signal, look in signals.items()}
        for channel, look in channels.items():
            self.memory.signals.setdefault(channel, []).append(look)
            look()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            for channel, look in channels.items():
                listening = self.memory.signals.get(channel, [])
                # A test may have cleared all subscriptions.
                if look in listening:
                    listening.remove(look)
