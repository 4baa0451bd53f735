"""A cluster to which everything may happen, and all that its history consists of.

What people do goes on beside the story: an edit may wait for a server that hangs while nodes are killed. What was
acknowledged is recorded when it is.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from cronflow.domain.cluster import node_name
from cronflow.domain.errors import BackendUnavailable, Conflict, InvalidInput, NotFound
from cronflow.domain.job import Job, PythonTarget
from cronflow.domain.resources import ResourceAmount
from cronflow.domain.run import AttemptResult, Outcome, Run
from cronflow.node.node import Node
from cronflow.node.timings import Timings
from cronflow.ports import Assignment, LineSink
from cronflow.testing.clock import FakeClock
from cronflow.testing.history.history import (
    END,
    START,
    Ack,
    CancelAck,
    DrainAck,
    Elected,
    Fault,
    History,
    MaintenanceAck,
    Noted,
    Step,
)
from cronflow.testing.memory.documents import Table
from tests.node.cluster import Cluster, Recording, a_cluster
from tests.node.simulation.jobs import GB, NAMED
from tests.node.simulation.loop import ACTING, StoppableLoop

STEP_S = 0.5
TIMINGS = Timings(
    leader_ttl=6.0,
    leader_renew=2.5,
    failover_check=9.0,
    heartbeat=2.0,
    node_ttl=5.0,
    run_lease=9.0,
    lock_buffer=2.0,
    plan_age=6.0,
    drain=3.0,
)
"""Shorter than in production, so that little time passes until what a killed node left is found."""
GONE_S = 6.0
"""Before a killed node starts again under its name: its last heartbeat must have expired."""
ENDS_WITHIN = timedelta(seconds=90)
"""After healing: the longest run, behind others of its job, and what is not scaled by the timings."""
WAITS_FOR = timedelta(minutes=10)
"""For what happens without faults, and takes much less."""
CAPACITY = ResourceAmount(memory=3 * GB)
REFUSED = (BackendUnavailable, Conflict, InvalidInput, NotFound)
"""How an action of a person fails."""


@dataclass
class Handlers(Recording):
    """Handlers that write the sink, take as long as their job says, and fail as often."""

    rng: random.Random = field(default_factory=random.Random)
    sink: list[Noted] = field(default_factory=list)

    async def run(self, assignment: Assignment, node: str, log: LineSink) -> AttemptResult:
        """Record the start, take the time, record the end."""
        target = assignment.job.target
        assert isinstance(target, PythonTarget)
        seconds, fails = target.args["seconds"], target.args["fails"]
        assert isinstance(seconds, float)
        assert isinstance(fails, float)
        place = (assignment.run, assignment.fence, node_name(node))
        self.sink.append(Noted(START, *place, self.clock.now()))
        ok = self.rng.random() >= fails
        await self.clock.sleep(seconds)
        self.sink.append(Noted(END, *place, self.clock.now(), ok))
        return AttemptResult(Outcome.OK if ok else Outcome.ERROR)


class Kept(Table[str, Run]):
    """The documents of the run store, and each write of one."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self.clock = clock
        self.steps: list[Step] = []

    def __setitem__(self, name: str, run: Run) -> None:
        super().__setitem__(name, run)
        self.steps.append(
            Step(
                run=name,
                at=self.clock.now(),
                state=run.state,
                fence=run.fence,
                term=run.term,
                job_ver=run.job_ver,
                finish_id=run.finish_id,
                node=run.node,
                reserved=run.reserved,
            )
        )


class World:
    """The cluster of one story. What it does to a node, and what people do, are methods; `stories` says when."""

    def __init__(self, cluster: Cluster, jobs: Sequence[Job], names: Sequence[str], slots: int, seed: int) -> None:
        self.cluster, self.jobs, self.names, self.slots = cluster, jobs, names, slots
        self.service, self.faults, self.memory = cluster.service, cluster.backends.faults, cluster.backends.memory
        self.handlers = Handlers(cluster.clock, rng=random.Random(seed))
        cluster.executor = self.handlers
        self.runs = cluster.backends.documents.runs = Kept(cluster.clock)
        self.done: list[Fault] = []
        self.acks: list[Ack] = []
        self.editors: list[str] = []
        self.cancels: list[CancelAck] = []
        self.drains: dict[str, datetime] = {}
        self.drained: list[DrainAck] = []
        self.in_maintenance: datetime | None = None
        self.maintenance_until: datetime | None = None
        self.asked_to_end: Counter[str] = Counter()
        self.maintained: list[MaintenanceAck] = []
        self.terms: set[Elected] = set()
        self.gone: dict[str, float] = {}
        self.ends: list[tuple[float, Callable[[], None]]] = []
        self.cut: set[tuple[str, str]] = set()
        self.skews: dict[str, timedelta] = {}
        self.people: set[asyncio.Task[None]] = set()
        self.earlier = [self.memory.copy()]
        self._before = self.faults.before
        self.faults.before = self.before  # type: ignore[method-assign]
        loop = asyncio.get_running_loop()
        assert isinstance(loop, StoppableLoop)
        self.loop = loop

    @property
    def now(self) -> datetime:
        """The shared clock."""
        return self.cluster.clock.now()

    async def before(self, service: str, verb: str) -> None:
        """In front of each call: whether this node reaches the server."""
        if self.cut and (ACTING.get(), service) in self.cut:
            await asyncio.sleep(0)
            raise BackendUnavailable(service, "memory", f"{ACTING.get()} is cut from it")
        await self._before(service, verb)

    # ---------------------------------------------------------------------------------------------------- the nodes

    def begin(self, name: str) -> None:
        """A node starts."""
        token = ACTING.set(name)
        self.cluster.start(name, slots=self.slots, capacity=CAPACITY, skew=self.skews.get(name, timedelta(0)))
        ACTING.reset(token)

    def nodes(self, *, leading: bool = False) -> list[Node]:
        """All, or those that hold a term; without asking them, which would make one resign whose lease is over."""
        nodes = self.cluster.nodes
        return [node for node in nodes if node.elector._tenure is not None] if leading else nodes  # type: ignore[attr-defined]

    async def kill(self, node: Node) -> None:
        """SIGKILL; it comes back later."""
        name = node_name(node.id)
        self.fault(f"{name} killed", killed=name)
        self.loop.continue_node(name)
        self.gone[name] = self.cluster.clock.monotonic() + GONE_S
        await self.cluster.kill(node)

    def step_clock(self, name: str, skew: timedelta) -> None:
        """The clock of this machine is off from now on, also when its node starts again."""
        self.skews[name] = skew
        for node in self.nodes():
            if node_name(node.id) == name:
                node._clock._local.skew = skew  # type: ignore[attr-defined]

    def start_again(self) -> None:
        """Those that were killed long enough ago, and those that have ended: stopped, or without a server at their
        start, or with a name that Redis took to be in use.
        """
        for node in [node for node in self.cluster.nodes if self.cluster.tasks[node.id].done()]:
            task = self.cluster.tasks.pop(node.id)
            self.cluster.nodes.remove(node)
            error = task.exception()
            if error is not None:
                assert isinstance(error, Exception)
                _, others = ExceptionGroup("", [error]).split((BackendUnavailable, Conflict))
                if others is not None:
                    raise others
            self.gone[node_name(node.id)] = self.cluster.clock.monotonic() + (GONE_S if error else 0.0)
        for name, when in list(self.gone.items()):
            if when <= self.cluster.clock.monotonic():
                del self.gone[name]
                self.begin(name)

    # ----------------------------------------------------------------------------------------------------- the time

    async def elapse(self, seconds: float) -> None:
        """Let time pass, record who leads, and end the faults whose time is over."""
        clock = self.cluster.clock
        target = clock.monotonic() + seconds
        while clock.monotonic() < target:
            await clock.advance(min(STEP_S, target - clock.monotonic()))
            over = [act for when, act in self.ends if when <= clock.monotonic()]
            self.ends = [(when, act) for when, act in self.ends if act not in over]
            for act in over:
                act()
            self.start_again()
            for node in self.nodes(leading=True):
                tenure = node.elector._tenure  # type: ignore[attr-defined]
                self.terms.add(Elected(tenure.term, node.id))
            record = self.cluster.backends.documents.leader
            if record is not None:
                self.terms.add(Elected(record.term, record.holder.rpartition("#")[0]))

    def fault(self, what: str, seconds: float = 0.0, killed: str | None = None) -> None:
        """Record what was done."""
        self.done.append(Fault(what, self.now, self.now + timedelta(seconds=seconds), killed))

    def later(self, seconds: float, act: Callable[[], object], what: str) -> None:
        """The end of a fault; others may begin before."""
        since = self.now

        def over() -> None:
            act()
            self.done.append(Fault(what, since, self.now))

        self.ends.append((self.cluster.clock.monotonic() + seconds, over))

    # --------------------------------------------------------------------------------------------------- the people

    def person(self, act: Coroutine[Any, Any, Any], acknowledged: Callable[[Any], None] = lambda _: None) -> None:
        """Somebody does it, while everything else goes on. What fails is not acknowledged, and may have been done."""

        async def do() -> None:
            try:
                result = await act
            except REFUSED:
                return
            acknowledged(result)

        task = asyncio.ensure_future(do())
        self.people.add(task)

        def went(_: object) -> None:
            self.people.discard(task)
            # It may have been cancelled before its first turn.
            act.close()
            if not task.cancelled():
                task.result()

        task.add_done_callback(went)

    async def person_done(self, *acts: Coroutine[Any, Any, Any]) -> None:
        """Wait until everybody has done what they do."""
        for act in acts:
            self.person(act)
        await self.until(lambda: not self.people, "everybody has an answer")

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Let time pass until this is so. Raises AssertionError if it never is."""
        limit = self.cluster.clock.monotonic() + WAITS_FOR.total_seconds()
        while not condition():
            assert self.cluster.clock.monotonic() < limit, f"not within {WAITS_FOR}: {what}"
            await self.elapse(STEP_S)

    def edit(self, act: Callable[[str], Coroutine[Any, Any, Any]], name: str) -> None:
        """An edit of this job by the person whose name `act` gets, and whose version is in force once it is
        acknowledged. One that changed nothing acknowledges no version: somebody else's edit may be under way.
        """
        by = f"person-{len(self.editors)}"
        self.editors.append(by)

        def acknowledged(_: object) -> None:
            record = self.cluster.backends.documents.jobs.get(name)
            if record is not None and record.edited_by == by:
                self.acks.append(Ack(name, record.ver, self.now))

        self.person(act(by), acknowledged)

    def end_drain(self, name: str) -> None:
        """Before somebody ends it."""
        since = self.drains.pop(name, None)
        if since is not None:
            self.drained.append(DrainAck(name, since, self.now))

    def end_maintenance(self) -> None:
        """Before somebody ends it, if it has not ended by itself."""
        if self.in_maintenance is not None:
            until = min(self.now, self.maintenance_until or self.now)
            self.maintained.append(MaintenanceAck(self.in_maintenance, until))
            self.in_maintenance = None

    # ------------------------------------------------------------------------------------------ the end of the story

    async def heal(self) -> History:
        """Nothing goes wrong any more. When all that was open has ended, the jobs are paused, and the book is closed
        when nothing is left to be done.
        """
        for _, over in self.ends:
            over()
        self.ends.clear()
        self.faults.heal()
        for name in self.loop.stopped:
            self.loop.continue_node(name)
        for name in self.names:
            self.step_clock(name, timedelta(0))
        await self.elapse(STEP_S)
        await self.until(
            lambda: not self.gone and not any(node._stop.is_set() for node in self.nodes()),
            "each stopped node has ended",
        )
        for name in [*self.drains]:
            self.end_drain(name)
        self.end_maintenance()
        cluster, jobs = self.service.cluster, self.service.jobs
        await self.person_done(cluster.end_maintenance(), *(cluster.undrain(name) for name in self.names))
        # What fell due while a job was paused or disabled is covered only when that ends.
        await self.person_done(*(jobs.resume(job.name) for job in self.jobs))
        disabled = [job.job for job in self.cluster.backends.documents.jobs.values() if not job.job.enabled]
        await self.person_done(jobs.apply([replace(job, enabled=True) for job in disabled]))
        healed, limit = self.now, self.cluster.clock.monotonic() + ENDS_WITHIN.total_seconds()
        await self.elapse(2.0)
        while self.cluster.clock.monotonic() < limit and self._is_busy(healed):
            await self.elapse(STEP_S)
        for job in self.jobs:
            self.edit(lambda by, name=job.name: jobs.pause(name, by=by), job.name)  # type: ignore[misc]
        await self.person_done()
        limit += ENDS_WITHIN.total_seconds()
        while self.cluster.clock.monotonic() < limit and (
            self._is_busy(self.now) or self.cluster.backends.documents.plans
        ):
            await self.elapse(STEP_S)
        return await self.history(healed)

    def _is_busy(self, created: datetime) -> bool:
        """Whether something of before is left: a run, an end that no job has followed, a fire, or a backfill."""
        documents = self.cluster.backends.documents
        return (
            any((run.is_open or run.followed) and run.created_at <= created for run in documents.runs.values())
            or any(job.active and job.next_fire and job.next_fire <= created for job in documents.jobs.values())
            or any(backfill.watched for backfill, _ in documents.backfills.values())
        )

    async def history(self, healed: datetime) -> History:
        """All that is known."""
        backends = self.cluster.backends
        documents = backends.documents
        return History(
            jobs=list(documents.jobs.values()),
            earlier={job.name: await backends.versions.of(job.name) for job in self.jobs},
            runs=self.cluster.runs,
            late=list(documents.late.values()),
            intents=list(documents.plans),
            terms=sorted(self.terms, key=lambda elected: elected.term),
            steps=self.runs.steps,
            sink=self.handlers.sink,
            faults=self.done,
            acks=self.acks,
            until=healed.replace(microsecond=0),
            healed=healed,
            ends_within=ENDS_WITHIN,
            backfills=list(documents.backfills.values()),
            capacities=dict.fromkeys(self.names, CAPACITY),
            limits=[NAMED],
            cancels=self.cancels,
            drains=self.drained,
            maintenance=self.maintained,
        )


@asynccontextmanager
async def a_world(
    jobs: Sequence[Job], spools: Path, *, nodes: int, slots: int, look_ahead: float, ahead: bool, seed: int
) -> AsyncIterator[World]:
    """Nodes that have found their leader, and these jobs."""
    names = [chr(ord("a") + n) for n in range(nodes)]
    timings = replace(TIMINGS, look_ahead=look_ahead)
    async with a_cluster(spools=spools, timings=timings, ahead=ahead) as cluster:
        world = World(cluster, jobs, names, slots, seed)
        for name in names:
            world.begin(name)
        await world.elapse(1.0)
        await world.person_done(cluster.service.limits.define(NAMED))
        await world.person_done(cluster.service.jobs.apply(jobs))
        try:
            yield world
        finally:
            for name in world.loop.stopped:
                world.loop.continue_node(name)
            for task in world.people:
                task.cancel()
