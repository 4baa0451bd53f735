"""Chaos on real processes: a cluster under all faults, and a check of its history.

Jobs of every kind run on three nodes while a seeded sequence of faults is injected: the leader and a worker are killed,
a leader is stopped for longer than its TTL, Redis is flushed, MongoDB is killed and restarted; jobs are edited and
paused meanwhile. Then the cluster recovers, and the records, the oplog of MongoDB and the file that the handlers write
must form a history that the protocol allows (`cronflow.testing.history`).
"""

from __future__ import annotations

import asyncio
import random
import re
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from redis.asyncio import Redis

from cronflow.domain.job import SYSTEM_PREFIX, Delivery, Job, Overlap, PythonTarget, Retry, StartGuard
from cronflow.domain.schedule.kinds import Every
from cronflow.testing.embedded import MongoServer, RedisServer
from cronflow.testing.history import records
from cronflow.testing.history.checker import check
from cronflow.testing.history.history import Ack, Elected, Fault, History, noted
from tests.processes.conftest import SHORT_LIMITS, Processes, process_cluster
from tests.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.chaos

NODES = ("a", "b", "c")
STALL_S = 1.0
LIMITS = SHORT_LIMITS | {"CRONFLOW_RUN_LEASE": "5s", "CRONFLOW_NODE_TTL": "3s"}
ELECTED = re.compile(r"leader elected.*")


def the_jobs(sink: Path) -> list[Job]:
    """Jobs of each kind, with intervals of one to three seconds."""

    def job(name: str, every: str, seconds: float, fails: int = 0, **fields: object) -> Job:
        args = {"sink": str(sink), "seconds": seconds, "fails": fails}
        return Job(
            name=name,
            target=PythonTarget("tests.processes.handlers:work", args),
            schedule=Every(every),
            timeout=timedelta(seconds=30),
            **{"retry": Retry(max=0)} | fields,  # type: ignore[arg-type]
        )

    retry = Retry(max=2, initial="1s")
    return [
        *(job(f"allow-{k}", f"{k}s", 0.3, overlap=Overlap.ALLOW) for k in (1, 2, 3)),
        *(job(f"forbid-{k}", f"{k}s", 1.5, overlap=Overlap.FORBID) for k in (1, 2)),
        *(job(f"queue-{k}", f"{k}s", 0.5, overlap=Overlap.QUEUE) for k in (2, 3)),
        *(job(f"replace-{k}", f"{k}s", 2.5, overlap=Overlap.REPLACE) for k in (2, 3)),
        *(job(f"retry-{k}", f"{k}s", 0.2, 30, retry=retry, overlap=Overlap.ALLOW) for k in (2, 3)),
        *(job(f"guard-{k}", f"{k}s", 0.5, start_guard=StartGuard.MONGO, overlap=Overlap.ALLOW) for k in (2, 3)),
        *(job(f"once-{k}", f"{k}s", 0.8, delivery=Delivery.AT_MOST_ONCE, overlap=Overlap.ALLOW) for k in (1, 2)),
        job("once-queue", "3s", 0.5, delivery=Delivery.AT_MOST_ONCE, overlap=Overlap.QUEUE),
    ]


@dataclass
class Chaos:
    """Injects faults and edits, and records them."""

    cluster: Processes
    redis: RedisServer
    mongo: MongoServer
    rng: random.Random
    faults: list[Fault] = field(default_factory=list)
    acks: list[Ack] = field(default_factory=list)

    @property
    def now(self) -> datetime:
        return datetime.now(UTC)

    def ended(self) -> int:
        """The number of ends in the sink."""
        return sum(line.startswith("end ") for line in self.lines())

    def lines(self) -> list[str]:
        return self.cluster.sink.read_text().splitlines() if self.cluster.sink.exists() else []

    async def progress(self, least: int) -> None:
        """Wait until `least` more handlers have ended."""
        wanted = self.ended() + least
        await eventually(lambda: self.ended() >= wanted, PATIENCE_S, f"{least} more ends in the sink")

    @asynccontextmanager
    async def fault(self, what: str, killed: str | None = None) -> AsyncIterator[None]:
        """Record the fault that is injected inside this context."""
        since = self.now
        try:
            yield
        finally:
            self.faults.append(Fault(what, since, self.now, killed))

    # ---------------------------------------------------------------------------------------------------- faults

    async def leader(self) -> str:
        """Wait for a leader and return its name."""
        found = await eventually(self.cluster.leader, PATIENCE_S, "a leader")
        assert found is not None
        return found

    async def kill(self, name: str) -> None:
        """Kill the node with SIGKILL, wait until its heartbeat expires, and restart it."""
        async with self.fault(f"{name} killed", killed=name):
            self.cluster.kill(name)

        async def forgotten() -> bool:
            return name not in {member.report.name for member in await self.cluster.service.cluster.members()}

        await eventually(forgotten, PATIENCE_S, f"the heartbeat of {name} has expired")
        self.cluster.start(name)
        await self.cluster.all_up(*NODES, timeout=PATIENCE_S)

    async def kill_the_leader(self) -> None:
        """Kill the leader."""
        await self.kill(await self.leader())

    async def kill_a_worker(self) -> None:
        """Kill a node that is not the leader."""
        leader = await self.leader()
        await self.kill(self.rng.choice([name for name in NODES if name != leader]))

    async def stop_the_leader(self) -> None:
        """Stop the leader until another node leads, and a while longer."""
        leader = await self.leader()
        async with self.fault(f"{leader} stopped"):
            self.cluster.signal(leader, signal.SIGSTOP)
            try:
                await self.cluster.new_leader(leader, PATIENCE_S)
                await self.progress(self.rng.randint(3, 15))
            finally:
                self.cluster.signal(leader, signal.SIGCONT)

    async def flush_redis(self) -> None:
        async with self.fault("Redis flushed"), Redis.from_url(self.redis.url) as redis:
            await redis.flushall()

    async def restart_mongodb(self) -> None:
        """Kill MongoDB, and restart it after a node has detected the outage."""

        def detected() -> int:
            return sum(len(re.findall("service away.*MongoDB", self.cluster.log(name).read_text())) for name in NODES)

        before = detected()
        async with self.fault("MongoDB killed"):
            await asyncio.to_thread(self.mongo.kill)
            await eventually(lambda: detected() > before, PATIENCE_S, "a node logs that MongoDB is unavailable")
            await asyncio.to_thread(self.mongo.start)
            await self.progress(1)

    async def edit(self, job: Job) -> None:
        """Change the duration of a job."""
        assert isinstance(job.target, PythonTarget)
        target = replace(job.target, args={**job.target.args, "seconds": 0.4})
        await self.cluster.service.jobs.apply([replace(job, target=target)])
        self.acks.append(Ack(job.name, (await self.cluster.service.jobs.get(job.name)).ver, self.now))

    async def pause(self, name: str) -> None:
        """Pause a job."""
        record = await self.cluster.service.jobs.pause(name)
        self.acks.append(Ack(name, record.ver, self.now))

    async def live(self, jobs: list[Job]) -> None:
        """Inject each fault once, with edits and pauses in between, in an order that depends on the seed."""
        acts: list[Callable[[], Awaitable[None]]] = [
            *(self.kill_the_leader, self.kill_a_worker, self.stop_the_leader),
            *(self.flush_redis, self.restart_mongodb),
        ]
        self.rng.shuffle(acts)
        edited = self.rng.sample(jobs, 2 * len(acts))
        for act in acts:
            await self.progress(self.rng.randint(5, 20))
            paused = edited.pop()
            await self.edit(edited.pop())
            await self.pause(paused.name)
            await act()
            resumed = await self.cluster.service.jobs.resume(paused.name)
            self.acks.append(Ack(paused.name, resumed.ver, self.now))

    async def heal(self) -> History:
        """Wait until all nodes are up and all due runs have ended, stop everything, and return the history."""
        await self.cluster.all_up(*NODES, timeout=PATIENCE_S)
        healed = self.now
        until = healed.replace(microsecond=0)
        await self.cluster.all_handled(until, PATIENCE_S)
        for record in await self.cluster.service.backends.jobs.find():
            if not record.name.startswith(SYSTEM_PREFIX):
                await self.pause(record.name)
        await eventually(self.nothing_open, PATIENCE_S, "no run is open")
        # Nodes write late and spooled outcomes before they exit.
        for child in self.cluster.children.values():
            child.terminate()
        for child in self.cluster.children.values():
            assert await asyncio.to_thread(child.wait, PATIENCE_S) == 0
        found = await asyncio.to_thread(records.read, self.mongo.url, self.cluster.namespace)
        return History(
            jobs=found.jobs,
            earlier=found.earlier,
            runs=found.runs,
            late=found.late,
            intents=found.intents,
            terms=[*found.terms, *self.elections()],
            steps=found.steps,
            sink=[noted(line) for line in self.lines()],
            faults=self.faults,
            acks=self.acks,
            until=until,
            healed=healed,
            ends_within=timedelta(seconds=PATIENCE_S),
        )

    async def nothing_open(self) -> bool:
        return not any(run.is_open for run in await self.cluster.runs())

    async def watch(self) -> None:
        """Record stalls of the machine as faults."""
        while True:
            began, since = time.monotonic(), self.now
            await asyncio.sleep(0.1)
            if time.monotonic() - began > STALL_S:
                self.faults.append(Fault("the machine stalled", since, self.now))

    def elections(self) -> list[Elected]:
        """The elections in the logs of the nodes."""
        found = []
        for name in NODES:
            for line in ELECTED.findall(self.cluster.log(name).read_text()):
                words = dict(re.findall(r"(\w+)=['\"]?([^\s'\"]+)", line))
                found.append(Elected(int(words["term"]), words["node"]))
        return found


def failure_report(seed: int, history: History) -> str:
    """The findings, with the seed and the faults to reproduce them."""
    start = min(step.at for step in history.steps)
    faults = [f"  {(fault.since - start).total_seconds():5.1f} s  {fault.what}" for fault in history.faults]
    return "\n".join([f"seed {seed}", *(f"  {finding}" for finding in check(history)), "faults:", *faults])


@pytest.mark.parametrize(("seed", "look_ahead"), [pytest.param(1, "0s", marks=pytest.mark.prove), (2, "2s")])
async def test_a_cluster_under_everything_at_once_leaves_a_history_that_the_protocol_allows(
    seed: int, look_ahead: str, own_redis: RedisServer, own_mongo: MongoServer, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(own_redis.url, own_mongo.url, namespace, tmp_path) as cluster:
        cluster.limits = LIMITS | {"CRONFLOW_LOOK_AHEAD": look_ahead}
        chaos = Chaos(cluster, own_redis, own_mongo, random.Random(seed))
        await cluster.up(*NODES)
        watching = asyncio.create_task(chaos.watch())
        jobs = the_jobs(cluster.sink)
        await cluster.apply(*jobs)
        await chaos.live(jobs)
        history = await chaos.heal()
        watching.cancel()
        assert check(history) == [], failure_report(seed, history)
        assert any(run.created_at < run.fire_at for run in history.runs) == (look_ahead != "0s")
        assert len(history.sink) > 100
        assert len(history.steps) > 300
