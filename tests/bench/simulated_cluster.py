"""A cluster on virtual time: the real planner, placement and late inserts, on simulated stores, networks and nodes.

The leader's code is that of production: `Planner` with its rounds, batches and limits, `Fleet` with its ranks,
`LateInserts`, and `Throughput`, by which nodes announce how many runs they accept ahead. What is simulated is the time
that calls take: a round trip, and the measured CPU time on the leader, on a node, in MongoDB and in Redis.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import ceil
from types import SimpleNamespace
from typing import Any

from cronflow.domain.cluster import Fences, Member, NodeReport, Tenure, Term
from cronflow.domain.job import JobRecord, PlanIntent
from cronflow.domain.run import Run
from cronflow.leader.dispatcher import Dispatcher
from cronflow.leader.late_inserts import LateInserts
from cronflow.leader.limits import LimitGate
from cronflow.leader.pending_runs import PendingRuns
from cronflow.leader.planner import Planner
from cronflow.node.timings import Timings
from cronflow.ports import Assignment, Deferral, Move, OpenRun
from cronflow.testing.virtual_time import START, VirtualClock, run_on_virtual_time
from cronflow.worker.group_commit import MOST_AT_ONCE
from cronflow.worker.throughput import Throughput
from tests.bench.processor import Processor
from tests.bench.soak_load import Load

LONG_TERM = Term(1, 0, 2**62)
MEMBER_MS = 0.017
"""CPU time to read one member, which the leader does in each round. Measured with 100 and 300 members."""
READ, MOVE, PUSH = 0.35, 0.3, 0.35
"""How the CPU time of the leader for a run is spread over the steps of a round (estimated, like the next two)."""
FIND, CURSOR, RECORD = 0.1, 0.35, 0.55
"""How that of MongoDB is spread: the leader's read and write, and the write of the node."""
TAKE, RELEASE = 0.35, 0.3
"""How that of Redis is spread: the push and the take, and the release."""
POLL_S = 0.05
FIRST_S = 1.0
"""The first instant, in seconds after the beginning."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Milliseconds of CPU time for a run: of the leader, of its node, of MongoDB and of Redis."""

    leader: float
    node: float
    mongod: float
    redis: float


@dataclass(frozen=True, slots=True)
class Hardware:
    """`round_trip_ms` to either server; `commit_ms` is how long MongoDB waits for the journal and a majority, beyond a
    round trip. `leaders` is the number of namespaces that share the servers, each with its share of the nodes; with
    `own_redis` each has a Redis of its own. With `one_machine` all processes share that many cores.
    """

    nodes: int = 100
    slots: int = 100
    mongod_cores: int = 8
    round_trip_ms: float = 0.5
    commit_ms: float = 5.0
    leaders: int = 1
    own_redis: bool = False
    one_machine: int | None = None


@dataclass(slots=True)
class Measured:
    """How many seconds late each run started, and at which seconds runs started and were recorded."""

    late: list[float] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)

    def started(self, due: datetime, at: float) -> None:
        """A run that was due started, at a time of the loop."""
        self.late.append(at - (due - START).total_seconds())
        self.starts.append(at)

    def add(self, other: Measured) -> None:
        self.late += other.late
        self.starts += other.starts
        self.ends += other.ends

    def percentile(self, fraction: float) -> float:
        """The nearest-rank percentile of the lateness, in seconds."""
        return sorted(self.late)[max(0, ceil(fraction * len(self.late)) - 1)]

    def rate(self) -> float:
        """Recorded runs per second, from the first instant to the last record."""
        return len(self.ends) / (max(self.ends) - FIRST_S)


class Servers:
    """The MongoDB and the Redis of a namespace, and the time that calls to them take."""

    def __init__(self, hardware: Hardware, costs: Costs, mongod: Processor, redis: Processor) -> None:
        self.costs = costs
        self._mongod, self._redis = mongod, redis
        self._trip_s, self._commit_s = hardware.round_trip_ms / 1000, hardware.commit_ms / 1000

    async def read(self, runs: float = 0) -> None:
        """A read from MongoDB that is so much of the work for a run."""
        await self._mongod.work(runs * self.costs.mongod / 1000)
        await asyncio.sleep(self._trip_s)

    async def write(self, runs: float = 0) -> None:
        await self._mongod.work(runs * self.costs.mongod / 1000)
        await asyncio.sleep(self._trip_s + self._commit_s)

    async def call_redis(self, runs: float = 0) -> None:
        await self._redis.work(runs * self.costs.redis / 1000)
        await asyncio.sleep(self._trip_s)


class Node:
    """Takes what is pushed to it for its free slots, executes, and records in group commits."""

    def __init__(self, name: str, slots: int, processor: Processor, cluster: Cluster) -> None:
        self.name = name
        self.processor = processor
        self._slots = slots
        self._cluster, self._servers = cluster, cluster.servers
        self._throughput = Throughput(slots)
        self._queue: deque[Assignment] = deque()
        self._running, self._held, self._unrecorded, self._ahead = 0, 0, 0, 0
        self._pushed, self._ended = asyncio.Event(), asyncio.Event()

    def member(self) -> Member:
        """The node as the planner sees it."""
        report = NodeReport(
            name=self.name,
            incarnation="a",
            cpu=self.processor.utilisation,
            memory=0.2,
            slots=self._slots,
            in_flight=self._running,
            inserts_runs=True,
            knows_newer_keys=True,
            knows_keys_of_0_12=True,
        )
        return Member(report, timedelta(0), queued=len(self._queue), held=self._held, ahead=self._ahead)

    def push(self, assignments: Iterable[Assignment]) -> None:
        self._queue.extend(assignments)
        self._pushed.set()

    async def take(self) -> None:
        """The role that takes runs for free slots."""
        while True:
            await self._pushed.wait()
            self._pushed.clear()
            while most := min(len(self._queue), self._slots - self._running):
                taken = [self._queue.popleft() for _ in range(most)]
                self._held += most
                self._running += most
                await self._servers.call_redis(TAKE * most)
                for assignment in taken:
                    await self.processor.work(self._servers.costs.node / 2000)
                    self._start(assignment)

    def _start(self, assignment: Assignment) -> None:
        loop = asyncio.get_running_loop()
        self._cluster.measured.started(assignment.fire_at, loop.time())
        seconds = self._cluster.duration_s()
        loop.call_later(seconds, self._end, seconds)

    def _end(self, seconds: float) -> None:
        """The handler has ended: its slot is free."""
        self._running -= 1
        self._unrecorded += 1
        self._throughput.ended(seconds)
        self._ended.set()
        self._pushed.set()

    async def record(self) -> None:
        """The role that records outcomes, and then releases locks."""
        linger_s = Timings().group_commit
        while True:
            await self._ended.wait()
            self._ended.clear()
            while self._unrecorded:
                if self._unrecorded < MOST_AT_ONCE:
                    await asyncio.sleep(linger_s)
                count = min(self._unrecorded, MOST_AT_ONCE)
                self._unrecorded -= count
                await self.processor.work(count * self._servers.costs.node / 2000)
                await self._servers.write(RECORD * count)
                await self._servers.call_redis(RELEASE * count)
                self._cluster.measured.ends += [asyncio.get_running_loop().time()] * count
                self._held -= count
                self._ahead = self._throughput.ahead(0)
                self._cluster.planner.capacity_freed()


class Ports:
    """The calls of the planner and of the late inserts to the servers, with the CPU time that the leader needs."""

    def __init__(self, cluster: Cluster, leader: Processor) -> None:
        self._cluster, self._servers, self._leader = cluster, cluster.servers, leader
        self._jobs: dict[str, JobRecord] = {}
        self._due: list[tuple[datetime, str]] = []
        self._read: list[str] = []

    def add(self, record: JobRecord) -> None:
        assert record.due_at is not None
        self._jobs[record.name] = record
        heapq.heappush(self._due, (record.due_at, record.name))

    async def _lead(self, runs: float) -> None:
        await self._leader.work(runs * self._servers.costs.leader / 1000)

    async def due_in_turn(
        self, now: datetime, until: datetime, limit: int, coming: int = 1, since: datetime | None = None
    ) -> list[JobRecord]:
        assert since is None, "nothing is missed here"
        # What was read before and was not moved is still due.
        for record in (self._jobs[name] for name in self._read):
            if record.due_at is not None:
                heapq.heappush(self._due, (record.due_at, record.name))
        self._read = []
        while self._due and self._due[0][0] <= now and len(self._read) < limit:
            self._read.append(heapq.heappop(self._due)[1])
        found = [self._jobs[name] for name in self._read]
        following = heapq.nsmallest(coming, self._due)
        found += [self._jobs[name] for due_at, name in following if due_at <= until]
        await self._servers.read(FIND * len(self._read))
        await self._lead(READ * len(self._read))
        return found

    async def move(self, moves: Sequence[Move], term: int) -> set[str]:
        await self._lead(MOVE * len(moves))
        await self._servers.write(CURSOR * len(moves))
        for move in moves:
            record = self._jobs[move.job]
            self._jobs[move.job] = replace(
                record,
                next_fire=move.next_fire,
                due_at=move.next_fire,
                pending_run=move.pending_run,
                rev=record.rev + 1,
                term=term,
            )
        return {move.job for move in moves}

    async def get(self, names: Collection[str]) -> list[JobRecord]:
        await self._servers.read()
        return [self._jobs[name] for name in names]

    async def defer(self, jobs: Mapping[str, Deferral]) -> None:
        await self._servers.write()
        for name, deferral in jobs.items():
            self._jobs[name] = replace(self._jobs[name], due_at=deferral.due_at)

    async def write(self, note: PlanIntent) -> None:
        await self._servers.write()

    async def remove(self, ids: Collection[str]) -> None:
        await self._servers.write()

    async def open_of(self, jobs: Collection[str]) -> dict[str, list[OpenRun]]:
        await self._servers.read()
        return {}

    async def existing(self, ids: Collection[str]) -> set[str]:
        """The workers have inserted all of them."""
        await self._servers.read()
        return set(ids)

    async def insert(self, runs: Sequence[Run]) -> set[str]:
        await self._servers.write()
        return {run.id for run in runs}

    async def members(self) -> list[Member]:
        await self._servers.call_redis()
        await self._leader.work(MEMBER_MS * len(self._cluster.nodes) / 1000)
        return [node.member() for node in self._cluster.nodes.values()]

    async def dispatch(
        self, term: int, redis_epoch: str, lists: Mapping[str, Sequence[Assignment]], waited_s: float = 0.0
    ) -> bool:
        runs = sum(map(len, lists.values()))
        await self._lead(PUSH * runs)
        await self._servers.call_redis(TAKE * runs)
        for node, assignments in lists.items():
            self._cluster.nodes[node].push(assignments)
        return True


class Cluster:
    """One namespace: a leader, which is its first node, and the other nodes."""

    def __init__(self, hardware: Hardware, servers: Servers, handler_s: float, shared: Processor | None) -> None:
        self.servers, self.measured = servers, Measured()
        self._handler_s, self._random = handler_s, random.Random(1)
        self._clock = VirtualClock()
        self.leader = shared or Processor(1)
        count = max(1, hardware.nodes // hardware.leaders)
        processors = [self.leader, *(shared or Processor(1) for _ in range(count - 1))]
        self.nodes = {
            f"node-{k}#a": Node(f"node-{k}", hardware.slots, processor, self) for k, processor in enumerate(processors)
        }
        self._stores = Ports(self, self.leader)
        # Only some methods of each port are called.
        ports: Any = self._stores
        elector: Any = SimpleNamespace(
            tenure=Tenure(term=1, holder="node-0#a", redis_epoch="x", fences=Fences(LONG_TERM))
        )
        canceller: Any = None
        pending_runs = PendingRuns(ports)
        self._late_inserts = LateInserts(ports, ports, pending_runs, elector, self._clock)
        self.planner = Planner(
            ports,
            ports,
            ports,
            ports,
            canceller,
            elector,
            Dispatcher(ports, _not_renewed, self._clock),
            pending_runs,
            self._late_inserts,
            LimitGate(ports, ports, canceller, self._clock),
            self._clock,
            Timings(),
        )

    def duration_s(self) -> float:
        """How long the next handler runs: half to one and a half of the mean."""
        return self._handler_s * self._random.uniform(0.5, 1.5)

    def add(self, load: Load, start: datetime) -> None:
        for k, job in enumerate(load.all_jobs(start)):
            first = start + timedelta(seconds=k % load.spread_s)
            self._stores.add(
                JobRecord(job=job, next_fire=first, due_at=first, created_at=START, updated_at=START, since=first)
            )

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for role in (self.planner, self._late_inserts):
                group.create_task(self._loop(role))
            for node in self.nodes.values():
                group.create_task(node.take())
                group.create_task(node.record())

    async def _loop(self, role: Planner | LateInserts) -> None:
        while True:
            pause = await role.step()
            if pause > 0:
                await self._clock.wait(role.wake.event, pause)
            role.wake.event.clear()


async def _not_renewed() -> Tenure | None:
    return None


@dataclass(frozen=True, slots=True)
class Simulation:
    """The result. `busy` has the share of the time that each part was busy, of its cores."""

    measured: Measured
    due: int
    busy: Mapping[str, float]

    @property
    def bottleneck(self) -> str:
        """The part that was busiest."""
        return max(self.busy, key=self.busy.__getitem__)


def simulate(hardware: Hardware, costs: Costs, load: Load, handler_s: float, limit_s: float = 60.0) -> Simulation:
    """Run the load, which is shared among the leaders, until all runs are recorded, or for `limit_s` seconds. The same
    arguments give the same result.
    """
    state = random.getstate()
    # Placement breaks ties at random.
    random.seed(1)
    try:
        return run_on_virtual_time(_simulate(hardware, costs, load, handler_s, limit_s))
    finally:
        random.setstate(state)


async def _simulate(hardware: Hardware, costs: Costs, load: Load, handler_s: float, limit_s: float) -> Simulation:
    shared = Processor(hardware.one_machine) if hardware.one_machine else None
    mongod = shared or Processor(hardware.mongod_cores)
    redis = [shared or Processor(1) for _ in range(hardware.leaders if hardware.own_redis else 1)]
    clusters = []
    share = replace(load, jobs=load.jobs // hardware.leaders)
    for k in range(hardware.leaders):
        cluster = Cluster(hardware, Servers(hardware, costs, mongod, redis[k % len(redis)]), handler_s, shared)
        cluster.add(share, START + timedelta(seconds=FIRST_S))
        clusters.append(cluster)
    due = share.instants * hardware.leaders
    running = [asyncio.create_task(cluster.run()) for cluster in clusters]
    loop = asyncio.get_running_loop()
    while loop.time() < limit_s and sum(len(cluster.measured.ends) for cluster in clusters) < due:
        done, _ = await asyncio.wait(running, timeout=POLL_S, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    measured = Measured()
    for cluster in clusters:
        measured.add(cluster.measured)
    seconds = max(measured.ends) - FIRST_S
    nodes = [node.processor for cluster in clusters for node in list(cluster.nodes.values())[1:]]
    parts = {"leader": [cluster.leader for cluster in clusters], "nodes": nodes, "MongoDB": [mongod], "Redis": redis}
    busy = {
        name: sum(processor.busy_s for processor in some) / sum(processor.cores for processor in some) / seconds
        for name, some in parts.items()
        if some
    }
    return Simulation(measured, due, busy)
