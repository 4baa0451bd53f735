"""What Redis keeps, in dictionaries with expiry times: the leader's key, heartbeats, lists and locks, doorbells."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta

from cronflow.backends.codec import slot
from cronflow.domain.cluster import Member, NodeReport, Renewal, node_name
from cronflow.domain.errors import Conflict, Deposed
from cronflow.ports import Assignment, Clock, Entry, JobLock, LineBatch, Signal, Taken
from cronflow.testing.faults import Faults, verb

REDIS = "Redis"
CANCEL_S = 3600.0


class Memory:
    """The memory of one Redis; `flush` empties it, as FLUSHALL would."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.signals: dict[str, list[Callable[[], None]]] = {}
        self.entries = 0
        self.flush()

    def flush(self) -> None:
        """Forget everything but who listens."""
        self.leader: tuple[str, float] | None = None
        self.term = 0
        self.redis_epoch: str | None = None
        self.resign: int | None = None
        self.reports: dict[str, tuple[NodeReport, float, float]] = {}
        self.lists: dict[str, list[tuple[float, Assignment]]] = {}
        self.held: dict[str, dict[str, int]] = {}
        self.locks: dict[tuple[str, str], tuple[JobLock, str, float]] = {}
        self.cancels: dict[str, float] = {}
        self.drains: dict[str, bool] = {}
        self.builder: tuple[str, float] | None = None
        self.feed: list[Entry] = []
        self.tail_until = 0.0
        self.lines: list[LineBatch] = []

    def notify(self, channel: str) -> None:
        """Call all that listen."""
        for look in self.signals.get(channel, ()):
            look()

    def leader_now(self) -> str | None:
        """The holder, unless the key has expired."""
        if self.leader is not None and self.leader[1] <= self.clock.monotonic():
            self.leader = None
        return None if self.leader is None else self.leader[0]

    def builder_now(self) -> str | None:
        """Who builds the ticks, unless the right has expired."""
        if self.builder is not None and self.builder[1] <= self.clock.monotonic():
            self.builder = None
        return None if self.builder is None else self.builder[0]

    def stream_id(self) -> str:
        """The next id of an entry of a stream."""
        self.entries += 1
        return f"{self.clock.now().timestamp() * 1000:.0f}-{self.entries}"

    def alive(self, node: str) -> bool:
        """Whether the node's heartbeat has not expired."""
        entry = self.reports.get(node)
        return entry is not None and entry[1] > self.clock.monotonic()

    def is_cancelled(self, run: str) -> bool:
        """Whether the run was cancelled within the hour."""
        return self.cancels.get(run, 0.0) > self.clock.monotonic()

    def lock(self, key: tuple[str, str]) -> tuple[JobLock, str] | None:
        """Who has a lock, unless it has expired."""
        entry = self.locks.get(key)
        if entry is None or entry[2] <= self.clock.monotonic():
            return None
        return entry[0], entry[1]


class MemoryServerClock:
    """The Timepiece port; `skew` puts it wrong."""

    def __init__(self, faults: Faults, clock: Clock, service: str) -> None:
        self.faults, self._clock, self._service = faults, clock, service
        self.skew = timedelta(0)

    async def now(self) -> datetime:
        """The shared clock, and the skew."""
        await self.faults.before(self._service, f"{self._service}.time")
        return self._clock.now() + self.skew


class MemoryElection:
    """The Election port."""

    def __init__(self, faults: Faults, memory: Memory) -> None:
        self.faults, self._memory = faults, memory

    @verb(REDIS, "election.acquire")
    def acquire(self, holder: str, ttl_s: float) -> bool:
        """SET NX PX."""
        if self._memory.leader_now() is not None:
            return False
        self._memory.leader = (holder, self._memory.clock.monotonic() + ttl_s)
        return True

    @verb(REDIS, "election.install")
    def install(self, holder: str, term: int, redis_epoch: str) -> bool:
        """As install.lua."""
        if self._memory.leader_now() != holder or self._memory.term > term:
            return False
        self._memory.term, self._memory.redis_epoch = term, redis_epoch
        return True

    @verb(REDIS, "election.renew")
    def renew(self, holder: str, ttl_s: float, term: int, redis_epoch: str) -> Renewal:
        """As renew.lua."""
        memory = self._memory
        present = memory.leader_now()
        if memory.term > term or present not in (None, holder):
            return Renewal.LOST
        known = present == holder and (memory.term, memory.redis_epoch) == (term, redis_epoch)
        memory.leader = (holder, memory.clock.monotonic() + ttl_s)
        memory.term, memory.redis_epoch = term, redis_epoch
        if known and memory.resign == term:
            return Renewal.ASKED
        return Renewal.OK if known else Renewal.AGAIN

    @verb(REDIS, "election.resign")
    def resign(self, holder: str) -> bool:
        """As resign.lua."""
        if self._memory.leader_now() != holder:
            return False
        self._memory.leader = None
        self._memory.notify(Signal.LEADER)
        return True

    @verb(REDIS, "election.ask_to_resign")
    def ask_to_resign(self, term: int) -> None:
        """Remember, and ring."""
        self._memory.resign = term
        self._memory.notify(Signal.LEADER)

    @verb(REDIS, "election.holder")
    def holder(self) -> tuple[str, float] | None:
        """GET and PTTL."""
        if self._memory.leader_now() is None or self._memory.leader is None:
            return None
        name, until = self._memory.leader
        return name, until - self._memory.clock.monotonic()


class MemoryMembership:
    """The Membership port."""

    def __init__(self, faults: Faults, memory: Memory) -> None:
        self.faults, self._memory = faults, memory

    @verb(REDIS, "membership.report")
    def report(self, report: NodeReport, ttl_s: float, *, asked: bool = False) -> bool:
        """As report.lua."""
        for node in self._memory.reports:
            if node != report.id and node_name(node) == report.name and self._memory.alive(node):
                raise Conflict(
                    f"a live node is already called {report.name!r} (it is {node}); choose another NODE_NAME"
                )
        now = self._memory.clock.monotonic()
        self._memory.reports[report.id] = (report, now + ttl_s, now)
        if asked:
            self._memory.drains.setdefault(report.name, True)
        return self._memory.drains.get(report.name, False)

    @verb(REDIS, "membership.members")
    def members(self) -> list[Member]:
        """As members.lua."""
        memory = self._memory
        return [
            Member(
                report,
                timedelta(seconds=memory.clock.monotonic() - seen),
                len(memory.lists.get(node, ())),
                len(memory.held.get(node, ())),
                memory.drains.get(report.name, False),
            )
            for node, (report, _, seen) in memory.reports.items()
            if memory.alive(node)
        ]

    @verb(REDIS, "membership.leave")
    def leave(self, report: NodeReport) -> None:
        """As leave.lua."""
        self._memory.reports.pop(report.id, None)
        self._memory.notify(Signal.LEADER)

    @verb(REDIS, "membership.holdings")
    def holdings(self, nodes: Collection[str]) -> dict[str, tuple[bool, dict[str, int]]]:
        """Look up."""
        return {node: (self._memory.alive(node), dict(self._memory.held.get(node, {}))) for node in nodes}

    @verb(REDIS, "membership.drain")
    def drain(self, name: str, *, wanted: bool) -> None:
        """Remember, and ring."""
        self._memory.drains[name] = wanted
        self._memory.notify(Signal.STOP)


class MemoryQueue:
    """The Queue port."""

    def __init__(self, faults: Faults, memory: Memory, *, lock_s: float = 35.0, start_by_s: float = 5.0) -> None:
        self.faults, self._memory = faults, memory
        self._lock_s, self._start_by_s = lock_s, start_by_s

    @verb(REDIS, "queue.dispatch")
    def dispatch(self, term: int, redis_epoch: str, lists: Mapping[str, Sequence[Assignment]]) -> bool:
        """As dispatch.lua."""
        if self._memory.term > term:
            raise Deposed("Redis knows a newer term")
        if self._memory.redis_epoch != redis_epoch:
            return False
        start_by = self._memory.clock.monotonic() + self._start_by_s
        for node, assignments in lists.items():
            self._memory.lists.setdefault(node, []).extend((start_by, assignment) for assignment in assignments)
            self._memory.notify(f"node:{node}")
        return True

    @verb(REDIS, "queue.take")
    def take(self, node: str, most: int) -> Taken:
        """As take.lua."""
        memory = self._memory
        now = memory.clock.monotonic()
        waiting = memory.lists.get(node, [])
        batch, memory.lists[node] = waiting[:most], waiting[most:]
        taken: list[Assignment] = []
        outdated: list[Assignment] = []
        put_back = dropped = 0
        for start_by, assignment in batch:
            if now > start_by or memory.is_cancelled(assignment.run):
                dropped += 1
                continue
            if assignment.term < memory.term:
                outdated.append(assignment)
                continue
            job_lock = JobLock(assignment.job.name, slot(assignment), assignment.run, assignment.fence)
            present = memory.lock((job_lock.job, job_lock.slot))
            if present is not None and present[0].run != job_lock.run:
                put_back += 1
                memory.lists[node].append((start_by, assignment))
            elif present is not None and present[0].fence >= job_lock.fence:
                dropped += 1
            else:
                memory.locks[(job_lock.job, job_lock.slot)] = (job_lock, node, now + self._lock_s)
                memory.held.setdefault(node, {})[job_lock.run] = job_lock.fence
                taken.append(assignment)
        return Taken(taken, put_back, dropped, outdated)

    @verb(REDIS, "queue.renew_locks")
    def renew_locks(self, node: str, job_locks: Sequence[JobLock]) -> set[str]:
        """As renew_locks.lua."""
        memory = self._memory
        lost = set()
        for job_lock in job_locks:
            present = memory.lock((job_lock.job, job_lock.slot))
            if present is None or present == (job_lock, node):
                memory.locks[(job_lock.job, job_lock.slot)] = (job_lock, node, memory.clock.monotonic() + self._lock_s)
                memory.held.setdefault(node, {})[job_lock.run] = job_lock.fence
            else:
                lost.add(job_lock.run)
        return lost

    @verb(REDIS, "queue.release")
    def release(self, node: str, job_locks: Sequence[JobLock]) -> None:
        """As release.lua."""
        memory = self._memory
        for job_lock in job_locks:
            present = memory.lock((job_lock.job, job_lock.slot))
            if present is not None and present[0].fence == job_lock.fence:
                del memory.locks[(job_lock.job, job_lock.slot)]
            mine = memory.held.get(node, {})
            if mine.get(job_lock.run) == job_lock.fence:
                del mine[job_lock.run]
        memory.notify(Signal.CAPACITY)

    @verb(REDIS, "queue.give_back")
    def give_back(self, node: str) -> list[Assignment]:
        """As give_back.lua."""
        return [assignment for _, assignment in self._memory.lists.pop(node, [])]

    @verb(REDIS, "queue.cancel")
    def cancel(self, runs: Collection[str]) -> None:
        """Remember for an hour, and ring."""
        until = self._memory.clock.monotonic() + CANCEL_S
        self._memory.cancels.update(dict.fromkeys(runs, until))
        self._memory.notify(Signal.STOP)

    @verb(REDIS, "queue.cancelled")
    def cancelled(self, runs: Collection[str]) -> set[str]:
        """Look up."""
        return {run for run in runs if self._memory.is_cancelled(run)}

    @verb(REDIS, "queue.ping")
    def ping(self) -> float:
        """No time at all."""
        return 0.0


class MemoryBus:
    """The Bus port."""

    def __init__(self, faults: Faults, memory: Memory) -> None:
        self.faults, self._memory = faults, memory

    @verb(REDIS, "bus.ring")
    def notify(self, signal: Signal) -> None:
        """Call all that listen."""
        self._memory.notify(signal)

    async def listen(self, node: str, signals: Mapping[Signal, Callable[[], None]]) -> None:
        """Listen until cancelled."""
        channels = {f"node:{node}" if signal is Signal.NODE else signal.value: look for signal, look in signals.items()}
        for channel, look in channels.items():
            self._memory.signals.setdefault(channel, []).append(look)
            look()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            for channel, look in channels.items():
                listening = self._memory.signals.get(channel, [])
                # A test may have made everybody deaf.
                if look in listening:
                    listening.remove(look)
