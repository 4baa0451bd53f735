"""Simulations: whole nodes on virtual time under random faults, one seed = one schedule; the history is then judged.

What may go wrong is drawn from the seed: killed nodes, calls that fail before or after they acted or hang, servers
away, lost and doubled items, a wiped Redis, clocks that step; beside them people edit, pause and trigger. Then
everything heals, and the checker must find nothing. Without faults it must find that what was started is what was run.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cronflow.domain.chain import On, Upstream
from cronflow.domain.cluster import node_name
from cronflow.domain.concurrency import KeyedConcurrency
from cronflow.domain.errors import BackendUnavailable, Conflict
from cronflow.domain.job import Delivery, Job, Overlap, PythonTarget, Retry, StartGuard
from cronflow.domain.run import AttemptResult, Outcome, Run
from cronflow.domain.schedule.kinds import Every
from cronflow.domain.split import RunOn
from cronflow.node.timings import Timings
from cronflow.ports import Assignment, LineSink
from cronflow.testing.clock import FakeClock
from cronflow.testing.history.checker import check
from cronflow.testing.history.history import END, START, Ack, Elected, Fault, History, Noted, Step
from cronflow.testing.memory.documents import Table
from tests.node.cluster import Cluster, Recording, a_cluster

SECOND = timedelta(seconds=1)
LEASE = timedelta(seconds=Timings().run_lease)
NODES = ("a", "b", "c")
TROUBLE_S, STEP_S = 120.0, 0.5
SHARED = (KeyedConcurrency("shared", 2),)
GONE_S = 20.0
"""Before a killed node starts again under its name: its last heartbeat must have expired."""
VERBS = (
    *("jobs.due_in_turn", "jobs.move", "jobs.replace", "plans.write", "plans.remove", "versions.keep"),
    *("runs.insert", "runs.apply", "runs.overdue", "runs.open_of", "control.begin_term", "control.extend"),
    *("election.renew", "membership.report", "membership.members"),
    *("chains.ended", "chains.marked", "chains.write_join", "chains.answered"),
    *("limits.get", "limits.acquire", "limits.release", "limits.held", "runs.standings"),
    *("queue.dispatch", "queue.take", "queue.release", "queue.renew_locks"),
)


SPLIT_VERBS = (*VERBS, "runs.parents", "runs.part_counts", "runs.existing", "runs.taken_of")


def job(name: str, every: str | None, seconds: float, **fields: Any) -> Job:
    """How long a run takes and how often it fails stands in the arguments."""
    fields = {"retry": Retry(max=0)} | fields
    return Job(
        name=name,
        target=PythonTarget("jobs:work", {"seconds": seconds, "fails": 0 if fields["retry"].max == 0 else 0.4}),
        schedule=None if every is None else Every(every),
        **fields,
    )


def split_jobs() -> list[Job]:
    """Runs that are split, and one job whose runs are not."""
    return [
        job("allow", "6s", 1.0, overlap=Overlap.ALLOW),
        job("forbid", "8s", 2.0, shards=3, retry=Retry(max=2, initial="2s")),
        job("replace", "15s", 9.0, shards=3, overlap=Overlap.REPLACE),
        job("once", "12s", 2.0, shards=2, delivery=Delivery.AT_MOST_ONCE, overlap=Overlap.QUEUE),
        job("everywhere", "12s", 2.0, run_on=RunOn.EVERY_NODE),
        job(
            "everywhere-retried",
            "9s",
            1.0,
            run_on=RunOn.EVERY_NODE,
            overlap=Overlap.ALLOW,
            retry=Retry(max=2, initial="2s"),
        ),
    ]


def the_jobs() -> list[Job]:
    """Of each kind."""
    return [
        job("allow", "3s", 1.0, overlap=Overlap.ALLOW),
        job("forbid", "4s", 3.0, overlap=Overlap.FORBID),
        job("queue", "5s", 2.0, overlap=Overlap.QUEUE),
        job("replace", "7s", 9.0, overlap=Overlap.REPLACE),
        job("retries", "10s", 1.0, retry=Retry(max=3, initial="2s"), overlap=Overlap.ALLOW),
        job("guarded", "5s", 1.0, start_guard=StartGuard.MONGO),
        job("once", "4s", 2.0, delivery=Delivery.AT_MOST_ONCE, overlap=Overlap.ALLOW),
        job("long", "8s", 25.0, overlap=Overlap.ALLOW),
        job("limited", "6s", 2.0, overlap=Overlap.ALLOW, concurrency=SHARED),
        job("limited-too", "7s", 2.0, overlap=Overlap.ALLOW, retry=Retry(max=3, initial="2s"), concurrency=SHARED),
        job("follower", None, 1.0, overlap=Overlap.ALLOW, after=(Upstream("forbid", On.ENDED),)),
        job("joined", None, 1.0, overlap=Overlap.ALLOW, after=(Upstream("follower"), Upstream("queue", On.ENDED))),
        job("last", None, 1.0, overlap=Overlap.ALLOW, after=(Upstream("joined", On.ENDED),)),
        job("long-once", "20s", 25.0, delivery=Delivery.AT_MOST_ONCE, overlap=Overlap.ALLOW),
    ]


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
        assert isinstance(fails, int | float)
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
            )
        )


ACTING: ContextVar[str] = ContextVar("acting", default="")
"""The node whose task this is; the tasks that it creates inherit it."""


class Simulation:
    """One seed's schedule."""

    def __init__(
        self, cluster: Cluster, seed: int, jobs: Callable[[], list[Job]] = the_jobs, verbs: Sequence[str] = VERBS
    ) -> None:
        self.cluster = cluster
        self.jobs, self.verbs = jobs, verbs
        self.rng = random.Random(seed)
        self.handlers = Handlers(cluster.clock, rng=random.Random(seed + 1))
        cluster.executor = self.handlers
        self.runs = Kept(cluster.clock)
        cluster.backends.documents.runs = self.runs
        self.faults: list[Fault] = []
        self.acks: list[Ack] = []
        self.terms: set[Elected] = set()
        self.gone: dict[str, float] = {}
        self.attempt_result: list[tuple[float, Callable[[], object]]] = []
        self.cut: set[tuple[str, str]] = set()
        self._before = cluster.backends.faults.before
        cluster.backends.faults.before = self.before  # type: ignore[method-assign]
        # The nodes' own chances, in placing and in campaigning, come from here.
        random.seed(seed)

    @property
    def now(self) -> datetime:
        """The shared clock."""
        return self.cluster.clock.now()

    async def before(self, service: str, verb: str) -> None:
        """In front of each call: whether this node reaches the server."""
        if (ACTING.get(), service) in self.cut:
            await asyncio.sleep(0)
            raise BackendUnavailable(service, "memory", f"{ACTING.get()} is cut from it")
        await self._before(service, verb)

    def begin(self, name: str) -> None:
        """A node starts."""
        token = ACTING.set(name)
        self.cluster.start(name)
        ACTING.reset(token)

    async def elapse(self, seconds: float) -> None:
        """Let time pass, and record who leads."""
        for _ in range(round(seconds / STEP_S)):
            await self.cluster.clock.advance(STEP_S)
            over = [act for when, act in self.attempt_result if when <= self.cluster.clock.monotonic()]
            self.attempt_result = [(when, act) for when, act in self.attempt_result if act not in over]
            for act in over:
                act()
            for node in self.cluster.leaders:
                assert node.elector.tenure is not None
                self.terms.add(Elected(node.elector.tenure.term, node.id))
            record = self.cluster.backends.documents.leader
            if record is not None:
                self.terms.add(Elected(record.term, record.holder.rpartition("#")[0]))

    async def done(self, act: Coroutine[Any, Any, Any]) -> Any:
        """What people do waits on the clock; one that fails was not acknowledged."""
        task = asyncio.ensure_future(act)
        while not task.done():
            await self.elapse(STEP_S)
        try:
            return task.result()
        except (BackendUnavailable, Conflict):
            return None

    def fault(self, what: str, seconds: float = 0.0, killed: str | None = None) -> None:
        """Record what was done."""
        self.faults.append(Fault(what, self.now, self.now + timedelta(seconds=seconds), killed))

    def later(self, seconds: float, act: Callable[[], object], what: str) -> None:
        """The end of a fault; others may begin before."""
        since = self.now

        def over() -> None:
            act()
            self.faults.append(Fault(what, since, self.now))

        self.attempt_result.append((self.cluster.clock.monotonic() + seconds, over))

    # ------------------------------------------------------------------------------------------- what may happen

    async def kill(self) -> None:
        """The leader, or another one; it comes back later."""
        nodes = self.cluster.nodes
        if len(nodes) < 2:
            return
        leaders = self.cluster.leaders
        node = leaders[0] if leaders and self.rng.random() < 0.5 else self.rng.choice(nodes)
        self.fault(f"killed {node.id}", killed=node_name(node.id))
        self.gone[node_name(node.id)] = self.cluster.clock.monotonic() + GONE_S
        await self.cluster.kill(node)

    async def fail_calls(self) -> None:
        """The next calls of a verb fail before they act, or after."""
        verb, times = self.rng.choice(self.verbs), self.rng.randint(1, 4)
        after = self.rng.random() < 0.5
        faults = self.cluster.backends.faults
        (faults.fail_after if after else faults.fail_before)(verb, times)
        self.fault(f"{verb} fails {'after' if after else 'before'} x{times}", 10.0)

    async def stall(self) -> None:
        """Calls of a verb hang for a while, before they act or before they answer."""
        verb, acted, seconds = self.rng.choice(self.verbs), self.rng.random() < 0.5, self.rng.choice([2.0, 8.0, 40.0])
        faults = self.cluster.backends.faults
        stall = faults.stall(verb, acted=acted)

        def over() -> None:
            stall.release()
            faults._stalls.pop((verb, acted), None)

        self.later(seconds, over, f"{verb} hangs, acted={acted}")

    async def away(self) -> None:
        """A server answers nobody for a while."""
        service, seconds = self.rng.choice(["MongoDB", "Redis"]), self.rng.choice([3.0, 12.0, 30.0])
        faults = self.cluster.backends.faults
        faults.fail_before(service, 10**9)
        self.later(seconds, lambda: faults._before.pop(service, None), f"{service} away")

    async def cut_off(self) -> None:
        """One node reaches one server, or both, no more; what it runs goes on."""
        if not self.cluster.nodes:
            return
        name = node_name(self.rng.choice(self.cluster.nodes).id)
        services = self.rng.choice([["MongoDB"], ["Redis"], ["MongoDB", "Redis"], ["MongoDB", "Redis"]])
        cut = {(name, service) for service in services}
        self.cut |= cut
        seconds = self.rng.choice([15.0, 60.0, 60.0])
        self.later(seconds, lambda: self.cut.difference_update(cut), f"{name} cut from {' and '.join(services)}")

    async def wipe(self) -> None:
        """FLUSHALL."""
        self.fault("Redis wiped")
        self.cluster.backends.memory.flush()

    async def lose_or_double(self) -> None:
        """An item of a list is lost, or there twice, perhaps in another list."""
        memory = self.cluster.backends.memory
        # Nobody takes for a moment, so that something lies there.
        self.cluster.backends.faults.stall("queue.take")
        await self.elapse(2.0)
        self.cluster.backends.faults._stalls.pop(("queue.take", False)).release()
        full = [node for node, items in memory.lists.items() if items]
        if not full or not memory.reports:
            return
        node = self.rng.choice(full)
        if self.rng.random() < 0.5:
            self.fault(f"item {memory.lists[node].pop()[1].run} lost")
            return
        item = self.rng.choice(memory.lists[node])
        self.fault(f"item {item[1].run} doubled", 5.0)
        memory.lists.setdefault(self.rng.choice(sorted(memory.reports)), []).append(item)

    async def step_a_clock(self) -> None:
        """Of a node, or of all of them and the servers: forward."""
        if self.cluster.nodes and self.rng.random() < 0.5:
            node = self.rng.choice(self.cluster.nodes)
            skew = timedelta(seconds=self.rng.choice([-3600, -3, 3, 3600]))
            node._clock._local.skew = skew  # type: ignore[attr-defined]
            self.fault(f"the clock of {node.id} is off by {skew}")
            return
        self.fault("all clocks step")
        self.cluster.clock.step(timedelta(seconds=self.rng.choice([5, 40, 90])))

    async def edit(self) -> None:
        """A job gets another time limit, or another schedule."""
        old = self.rng.choice(self.jobs())
        timeout = timedelta(seconds=self.rng.randint(60, 600))
        schedule = self.rng.choice([old.schedule, Every("6s")])
        new = replace(old, timeout=timeout, schedule=schedule)
        if await self.done(self.cluster.service.jobs.apply([new])) is not None:
            self.acks.append(Ack(new.name, (await self.cluster.service.jobs.get(new.name)).ver, self.now))

    async def pause(self) -> None:
        """A job is paused, and perhaps resumed."""
        name = self.rng.choice(self.jobs()).name
        for act in (self.cluster.service.jobs.pause, self.cluster.service.jobs.resume):
            record = await self.done(act(name))
            if record is not None:
                self.acks.append(Ack(name, record.ver, self.now))
            await self.elapse(self.rng.choice([0.0, 8.0]))

    async def trigger(self) -> None:
        """A job is run by hand."""
        await self.done(self.cluster.service.jobs.trigger(self.rng.choice(self.jobs()).name))

    # ------------------------------------------------------------------------------------------------ the schedule

    async def start(self) -> None:
        """Nodes and jobs."""
        for name in NODES:
            self.begin(name)
        await self.elapse(2.0)
        await self.done(self.cluster.service.jobs.apply(self.jobs()))

    def start_again(self) -> None:
        """Those that were killed long enough ago, and those that found no server when they started."""
        for node in [node for node in self.cluster.nodes if self.cluster.tasks[node.id].done()]:
            task = self.cluster.tasks.pop(node.id)
            self.cluster.nodes.remove(node)
            no_server = task.exception()
            assert isinstance(no_server, Exception)
            assert ExceptionGroup("", [no_server]).split(BackendUnavailable)[1] is None
            self.gone[node_name(node.id)] = self.cluster.clock.monotonic() + GONE_S
        for name, when in list(self.gone.items()):
            if when <= self.cluster.clock.monotonic():
                del self.gone[name]
                self.begin(name)

    async def trouble(self) -> None:
        """Until the time is over."""
        acts = [
            *(self.kill, self.fail_calls, self.fail_calls, self.stall, self.away, self.wipe, self.lose_or_double),
            *(
                self.cut_off,
                self.cut_off,
                self.lose_or_double,
                self.step_a_clock,
                self.edit,
                self.edit,
                self.pause,
                self.trigger,
            ),
        ]
        until = self.cluster.clock.monotonic() + TROUBLE_S
        while self.cluster.clock.monotonic() < until:
            await self.elapse(self.rng.choice([0.5, 2.0, 6.0]))
            self.start_again()
            await self.rng.choice(acts)()

    async def heal(self) -> History:
        """Nothing goes wrong any more; two leases later all that was open has ended. Then the book is closed."""
        for _, over in self.attempt_result:
            over()
        self.attempt_result.clear()
        self.cluster.backends.faults.heal()
        for node in self.cluster.nodes:
            node._clock._local.skew = timedelta(0)  # type: ignore[attr-defined]
        await self.elapse(1.0)
        self.start_again()
        while self.gone:
            await self.elapse(1.0)
            self.start_again()
        for job in self.jobs():
            # Its resumption may have failed; and what fell due while it was paused is covered only then.
            await self.done(self.cluster.service.jobs.resume(job.name))
        healed = self.now
        ends_within = 2 * LEASE
        await self.elapse(ends_within.total_seconds())
        for job in self.jobs():
            record = await self.done(self.cluster.service.jobs.pause(job.name))
            assert record is not None
            self.acks.append(Ack(job.name, record.ver, self.now))
        until = healed.replace(microsecond=0)
        await self.elapse(40.0)
        backends = self.cluster.backends
        return History(
            jobs=list(backends.documents.jobs.values()),
            earlier={job.name: await backends.versions.of(job.name) for job in self.jobs()},
            runs=self.cluster.runs,
            late=list(backends.documents.late.values()),
            intents=list(backends.documents.plans),
            terms=sorted(self.terms, key=lambda elected: elected.term),
            steps=self.runs.steps,
            sink=self.handlers.sink,
            faults=self.faults,
            acks=self.acks,
            until=until,
            healed=healed,
            ends_within=ends_within,
        )


def report(seed: int, history: History) -> str:
    """What somebody needs who wants to see it again."""
    start = history.steps[0].at
    faults = "\n".join(
        f"  {(fault.since - start).total_seconds():7.1f} to {(fault.until - start).total_seconds():.1f} s  {fault.what}"
        for fault in sorted(history.faults, key=lambda fault: fault.since)
    )
    found = "\n".join(f"  {finding}" for finding in check(history))
    return f"seed {seed}\n{found}\nfaults:\n{faults}"


SEEDS, SPLIT_SEEDS, MORE_SEEDS = 5, 1, 40
"""`make prove` tries more."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    proving = metafunc.config.getoption("prove")
    if "look_ahead" in metafunc.fixturenames:
        seeds = range(MORE_SEEDS if proving else SEEDS)
        metafunc.parametrize(("seed", "look_ahead"), [(seed, early) for early in (0.0, 2.0) for seed in seeds])
    elif "split_seed" in metafunc.fixturenames:
        metafunc.parametrize("split_seed", range(MORE_SEEDS if proving else SPLIT_SEEDS))


async def test_after_any_faults_the_history_is_one_that_the_protocol_allows(
    seed: int, look_ahead: float, tmp_path: Path
) -> None:
    async with a_cluster(spools=tmp_path, look_ahead=look_ahead) as cluster:
        simulation = Simulation(cluster, seed)
        await simulation.start()
        await simulation.trouble()
        history = await simulation.heal()
        assert check(history) == [], report(seed, history)
        assert len(history.faults) > 5


async def test_after_any_faults_each_run_that_was_split_follows_from_its_parts(split_seed: int, tmp_path: Path) -> None:
    async with a_cluster(spools=tmp_path) as cluster:
        simulation = Simulation(cluster, split_seed, split_jobs, SPLIT_VERBS)
        await simulation.start()
        await simulation.trouble()
        history = await simulation.heal()
        assert check(history) == [], report(split_seed, history)
        assert len({run.state for run in history.runs if run.split is not None and run.split.begun}) > 1


@pytest.mark.parametrize("seed", [100])
async def test_in_peace_what_was_started_is_what_was_run(seed: int, tmp_path: Path) -> None:
    async with a_cluster(spools=tmp_path) as cluster:
        simulation = Simulation(cluster, seed)
        await simulation.start()
        await simulation.elapse(30.0)
        await simulation.edit()
        await simulation.trigger()
        history = await simulation.heal()
        assert check(history) == [], report(seed, history)
        assert len(history.sink) > 200
