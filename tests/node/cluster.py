"""A cluster of nodes on the memory backend and a clock that the test moves: whole nodes, virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

from cronflow.bootstrap import roles
from cronflow.bootstrap.roles import build_node
from cronflow.domain.capabilities import Capabilities
from cronflow.domain.job import Job
from cronflow.domain.metrics import MetricSource
from cronflow.domain.resources import ResourceAmount
from cronflow.domain.run import AttemptResult, Outcome, Run
from cronflow.leader.catch_up import CatchUpOptions
from cronflow.leader.elector import Elector
from cronflow.leader.planner import Planner
from cronflow.monitoring.prometheus import PrometheusMeter
from cronflow.node.node import Node
from cronflow.node.timings import Timings
from cronflow.ports import Assignment, LineSink, NotificationSender
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends, memory_backends
from cronflow.usecases import UseCases
from cronflow.worker.spool import Spool
from cronflow.worker.worker import Worker


def worker_of(node: Node) -> Worker:
    """The worker of a node."""
    assert isinstance(node._worker, Worker)
    return node._worker


def elector_of(node: Node) -> Elector:
    """The elector of a node."""
    assert isinstance(node.elector, Elector)
    return node.elector


def planner_of(node: Node) -> Planner:
    """The planner of a node."""
    (planner,) = [role.step.__self__ for role in node._roles if role.name == "planner"]  # type: ignore[attr-defined]
    assert isinstance(planner, Planner)
    return planner


class Steady:
    """A machine that is always equally busy, so that placement is decided by the runs alone."""

    def cpu(self) -> float:
        """A tenth."""
        return 0.1

    def memory(self) -> float:
        """A fifth."""
        return 0.2


async def inline(act: Callable[..., Any], /, *args: Any) -> Any:
    """Disk work in the event loop, so that virtual time does not run away from it."""
    return act(*args)


@dataclass
class Recording:
    """An executor that records every start, and ends as configured: at once, or when `release` is set."""

    clock: FakeClock
    attempt_result: Callable[[Assignment], AttemptResult] = lambda _: AttemptResult(Outcome.OK)
    starts: list[tuple[str, int, str, datetime]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    release: asyncio.Event | None = None

    async def run(self, assignment: Assignment, node: str, log: LineSink) -> AttemptResult:
        """Record the start, wait if configured, end it."""
        self.starts.append((assignment.run, assignment.fence, node, self.clock.now()))
        if self.release is not None:
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                self.cancelled.append(assignment.run)
                raise
        return self.attempt_result(assignment)

    @property
    def runs_started(self) -> list[str]:
        """The runs, in the order of their starts."""
        return [run for run, *_ in self.starts]


@dataclass
class Skewed:
    """The shared clock as a machine sees it whose own clock is off."""

    clock: FakeClock
    skew: timedelta

    def now(self) -> datetime:
        """Off by the skew."""
        return self.clock.now() + self.skew

    def monotonic(self) -> float:
        """Never off."""
        return self.clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Never off."""
        await self.clock.sleep(seconds)

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        """Never off."""
        return await self.clock.wait(event, seconds)


UNLIMITED = CatchUpOptions()


@dataclass
class Cluster:
    """The parts that a test looks at."""

    clock: FakeClock
    backends: MemoryBackends
    executor: Recording
    service: UseCases
    nodes: list[Node] = field(default_factory=list)
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    spools: Path | None = None
    notifier: NotificationSender | None = None
    timings: Timings = field(default_factory=Timings)
    catch_up: CatchUpOptions = UNLIMITED
    min_nodes: int = 1
    meters: dict[str, PrometheusMeter] = field(default_factory=dict)

    def start(
        self,
        name: str,
        *,
        slots: int = 16,
        skew: timedelta = timedelta(0),
        capabilities: Capabilities | None = None,
        capacity: ResourceAmount | None = None,
        defines: Sequence[Job] = (),
        **labels: str,
    ) -> Node:
        """One more node, with a spool if the cluster has a folder for them; `skew` puts its own clock wrong."""
        spool = None if self.spools is None else Spool(self.spools / name, self.clock, offload=inline)
        node = build_node(
            self.backends,
            self.executor,
            Skewed(self.clock, skew),
            self.timings,
            name=name,
            slots=slots,
            labels=labels,
            version="test",
            resources=Steady(),
            spool=spool,
            notifier=self.notifier,
            meter=self.meters.setdefault(name, PrometheusMeter((MetricSource.NODE, MetricSource.LEADER))),
            capabilities=capabilities,
            capacity=capacity,
            catch_up_options=self.catch_up,
            defined=defines,
            min_nodes=self.min_nodes,
        )

        async def live() -> None:
            async with spool or nullcontext():
                await node.run()

        self.nodes.append(node)
        self.tasks[node.id] = asyncio.create_task(live(), name=name)
        return node

    async def kill(self, node: Node) -> None:
        """As kill -9 would: no goodbye. What it would still have written is not."""
        task = self.tasks.pop(node.id)
        self.nodes.remove(node)
        task.cancel()
        await asyncio.wait({task})

    @property
    def leaders(self) -> list[Node]:
        """Those that believe that they lead."""
        return [node for node in self.nodes if node.leads]

    @property
    def runs(self) -> list[Run]:
        """All runs, by their instants."""
        return sorted(self.backends.documents.runs.values(), key=lambda run: (run.fire_at, run.id))

    async def elapse(self, seconds: float) -> None:
        """Let time pass. Everything that becomes due on the way happens then."""
        await self.clock.advance(seconds)


def bugs_raised() -> AbstractContextManager[object]:
    """Where an unexpected error in any role ends its node."""
    return mock.patch.object(roles, "guarded", lambda role, _failed: role)


@asynccontextmanager
async def living(cluster: Cluster) -> AsyncIterator[None]:
    """Nodes that have found their leader; stopped, and their failures raised, at the end."""
    try:
        await cluster.elapse(1.0)
        yield
        for task in cluster.tasks.values():
            if task.done():
                task.result()
    finally:
        for task in cluster.tasks.values():
            task.cancel()
        if cluster.tasks:
            await asyncio.wait(cluster.tasks.values())


@asynccontextmanager
async def a_cluster(
    *names: str,
    slots: int = 16,
    spools: Path | None = None,
    notifier: NotificationSender | None = None,
    look_ahead: float = 0.0,
    catch_up: CatchUpOptions = UNLIMITED,
    timings: Timings | None = None,
    ahead: bool = True,
    guarded: bool = False,
) -> AsyncIterator[Cluster]:
    """Nodes that have found their leader; stopped, and their failures raised, at the end. Unless the roles of the
    leader are guarded, an unexpected error in one is a failure too.
    """
    clock = FakeClock()
    timings = timings or Timings(look_ahead=look_ahead)
    backends = memory_backends(clock, lock_s=timings.job_lock, ahead=ahead)
    service = UseCases(backends, clock)
    cluster = Cluster(
        clock,
        backends,
        Recording(clock),
        service,
        spools=spools,
        notifier=notifier,
        timings=timings,
        catch_up=catch_up,
    )
    with nullcontext() if guarded else bugs_raised():
        for name in names:
            cluster.start(name, slots=slots)
        async with living(cluster):
            yield cluster
