"""An experiment: break a cluster for some time, let it recover, and collect its history."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

from cronflow.chaos.cluster import NAMESPACE, ChaosCluster
from cronflow.chaos.editors import Editors
from cronflow.chaos.faults import FaultKind, FaultPlace, FaultTarget
from cronflow.chaos.jobs import the_jobs
from cronflow.chaos.recovery import HANDLED_WITHIN_S, Recovery
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.events import LeaderElected, LeaderSteppedDown, RecordedEvent, RoleFailed, kind_of
from cronflow.testing.history import records
from cronflow.testing.history.history import Elected, Fault, History

PAGE = 500
STALL_S = 1.0
GAP_S = (1.0, 8.0)
"""Seconds between the starts of two faults."""
MOST_AT_ONCE = 2
LENGTH = (0.4, 1.6)
"""Factors of the default duration."""
BY_DEFAULT_TTL_S = 30.0
ELECTED = re.compile(r"leader elected.*")
"""A line in the log of a node."""

Say = Callable[[str], None]
"""Print a line about what happens."""


@dataclass(frozen=True, slots=True)
class ChosenFault:
    """A fault and how many seconds it lasts; None if chance decides."""

    kind: FaultKind
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Injected:
    """A fault that was injected. `term` was the highest one when it began."""

    kind: FaultKind
    node: str
    since: datetime
    until: datetime
    term: int

    @property
    def name(self) -> str:
        return f"{self.kind.name} {self.node}".rstrip()


@dataclass(frozen=True, slots=True)
class Leads:
    """When leaders were elected and stepped down, by term."""

    elected: Sequence[tuple[int, datetime]]
    stepped_down: Sequence[tuple[int, datetime]]


@dataclass(frozen=True, slots=True)
class Observed:
    """The result of a round: its history, the leaders, and the faults."""

    history: History
    leads: Leads
    injected: Sequence[Injected]


@dataclass(slots=True)
class Experiment:
    """Injects faults into a running cluster, in rounds. With `in_turns`, the chosen faults take turns, one at a time;
    otherwise chance decides, and two may happen at once. The processes of the nodes in `spared` are neither killed nor
    stopped.
    """

    cluster: ChaosCluster
    chosen: Sequence[ChosenFault]
    rng: Random
    leader_ttl_s: float
    say: Say
    burst: int
    in_turns: bool = False
    spared: Collection[str] = ()
    _injected: list[Injected] = field(default_factory=list)
    _stalls: list[Fault] = field(default_factory=list)
    _busy: set[str] = field(default_factory=set)
    _turn: int = 0

    async def round(self, seconds: float, stop: asyncio.Event, *, name: str = "", last: bool = True) -> Observed:
        """Inject faults for some seconds or until `stop` is set, let the cluster recover, and return what happened. The
        names of the round's jobs begin with `name`. The nodes are stopped after the last round.

        Raises CronFlowError if the cluster is not whole at the beginning, or does not recover in time.
        """
        began = datetime.now(UTC).replace(microsecond=0)
        self._injected, self._stalls = [], []
        self.cluster.sink.lines.clear()
        recovery = Recovery(self.cluster)
        jobs = the_jobs(self.cluster.sink.port, burst=self.burst, name=name)
        editors = Editors(self.cluster.service, [job for job in jobs if job.schedule is not None], self.rng)
        await recovery.whole()
        await self.cluster.service.jobs.apply(jobs)
        beside = [asyncio.create_task(editors.work()), asyncio.create_task(self._watch_this_process())]
        try:
            await self._inject(seconds, stop)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.wait(beside)
        healed = await self._recover(recovery, editors)
        events = await self._events(began)
        if last:
            # Nodes write late and spooled outcomes before they exit.
            await self.cluster.stop_nodes()
        else:
            await recovery.recorded()
        found = await asyncio.to_thread(records.read, self.cluster.mongo.url, NAMESPACE, prefix=name, since=began)
        history = History(
            jobs=found.jobs,
            earlier=found.earlier,
            runs=found.runs,
            late=found.late,
            intents=found.intents,
            terms=[*found.terms, *self._elections()],
            steps=found.steps,
            sink=list(self.cluster.sink.lines),
            faults=[*map(_fault, self._injected), *self._stalls],
            acks=editors.acks,
            until=healed.replace(microsecond=0),
            healed=healed,
            ends_within=timedelta(seconds=HANDLED_WITHIN_S),
            failures=[(one.event.node, one.event.text) for one in events if isinstance(one.event, RoleFailed)],
        )
        if not last:
            for job in reversed(jobs):
                await self.cluster.service.jobs.delete(job.name)
        return Observed(history, _leads(events), self._injected)

    # ---------------------------------------------------------------------------------------------- faults

    async def _inject(self, seconds: float, stop: asyncio.Event) -> None:
        deadline = time.monotonic() + seconds
        running: set[asyncio.Task[None]] = set()
        most = 1 if self.in_turns else MOST_AT_ONCE
        while time.monotonic() < deadline and not stop.is_set():
            chosen = self.chosen[self._turn % len(self.chosen)] if self.in_turns else self.rng.choice(self.chosen)
            self._turn += 1
            running.add(asyncio.create_task(self._one(chosen, deadline, stop), name=chosen.kind.name))
            await self._wait(min(self.rng.uniform(*GAP_S), deadline - time.monotonic()), stop)
            while len(running) >= most or any(task.done() for task in running):
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    # A fault that could not be injected must not pass for one that did no harm.
                    task.result()
        await asyncio.gather(*running)

    async def _one(self, chosen: ChosenFault, deadline: float, stop: asyncio.Event) -> None:
        kind = chosen.kind
        if kind.waits is not None:
            await self._wait(kind.waits(self.rng), stop)
            if stop.is_set() or time.monotonic() >= deadline:
                return
        with self._place(kind, await self._node(kind)) as node:
            if node is None:
                return
            seconds = chosen.seconds
            if seconds is None:
                seconds = kind.lasts * self.rng.uniform(*LENGTH) * self.leader_ttl_s / BY_DEFAULT_TTL_S
            term = await self._term()
            since = datetime.now(UTC)
            lasting = f" for {seconds:.1f} s" if seconds else ""
            self.say(f"{kind.name}{f' {node}' if node else ''}{lasting}")
            try:
                async with kind.inflict(FaultTarget(self.cluster, node, seconds, self.rng)):
                    await self._wait(min(seconds, max(0.0, deadline - time.monotonic())), stop)
            finally:
                until = since if kind.fatal else datetime.now(UTC)
                self._injected.append(Injected(kind, node, since, until, term))

    async def _node(self, kind: FaultKind) -> str:
        """A node for a fault that has no other fault now; empty if there is none."""
        if kind.place in (FaultPlace.REDIS, FaultPlace.MONGO):
            return ""
        # A fault that has waited for its moment must not miss it.
        may_wait = kind.place is FaultPlace.LEADER and kind.waits is None
        leader = await (self.cluster.some_leader() if may_wait else self.cluster.leader())
        nodes = {
            FaultPlace.LEADER: [name for name in self.cluster.names if name == leader],
            FaultPlace.WORKER: [name for name in self.cluster.names if name != leader],
            FaultPlace.NODE: self.cluster.names,
        }[kind.place]
        spared = self.spared if kind.fatal or kind.stops else ()
        free = [
            name for name in nodes if name not in self._busy and name not in spared and self.cluster.nodes[name].alive
        ]
        return self.rng.choice(free) if free else ""

    @contextmanager
    def _place(self, kind: FaultKind, node: str) -> Iterator[str | None]:
        """Reserve the place of a fault; None if another fault has it."""
        of_server = kind.place in (FaultPlace.REDIS, FaultPlace.MONGO)
        place = kind.place.value if of_server else node
        if not place or place in self._busy:
            yield None
            return
        self._busy.add(place)
        try:
            yield node
        finally:
            self._busy.discard(place)

    async def _term(self) -> int:
        try:
            return await self.cluster.term()
        except BackendUnavailable:
            # The failover of this fault is not measured.
            return 0

    @staticmethod
    async def _wait(seconds: float, stop: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(seconds):
                await stop.wait()
        except TimeoutError:
            pass

    async def _watch_this_process(self) -> None:
        """This process forwards all traffic of the nodes, so a stall of it is a fault as well."""
        while True:
            began, since = time.monotonic(), datetime.now(UTC)
            await asyncio.sleep(STALL_S / 10)
            if time.monotonic() - began > STALL_S:
                self._stalls.append(Fault("this machine stalled", since, datetime.now(UTC)))

    # ------------------------------------------------------------------------------------- what is known afterwards

    async def _recover(self, recovery: Recovery, editors: Editors) -> datetime:
        """Wait until everything that was due has ended, and nothing more falls due. Returns when the cluster was whole
        again.
        """
        self.say("no more faults; waiting until the cluster has recovered")
        await recovery.whole()
        await editors.resume_all()
        healed = datetime.now(UTC)
        await recovery.handled(healed.replace(microsecond=0))
        await editors.pause_all()
        await recovery.ended()
        return healed

    async def _events(self, began: datetime) -> Sequence[RecordedEvent]:
        """Those about leaders, from the beginning on, oldest first."""
        kinds = set(map(kind_of, (LeaderElected, LeaderSteppedDown, RoleFailed)))
        found, before = [], ""
        while True:
            page = await self.cluster.service.backends.events.find(kinds=kinds, since=began, before=before, limit=PAGE)
            found += page
            if len(page) < PAGE:
                break
            before = page[-1].id
        return sorted(found, key=lambda one: one.at)

    def _elections(self) -> list[Elected]:
        """The elections in the logs of the nodes."""
        found = []
        for name in self.cluster.names:
            for line in ELECTED.findall(self.cluster.log(name).read_text(errors="replace")):
                words = dict(re.findall(r"(\w+)=['\"]?([^\s'\"]+)", line))
                found.append(Elected(int(words["term"]), words["node"]))
        return found


def _leads(events: Sequence[RecordedEvent]) -> Leads:
    return Leads(
        [(one.event.term, one.at) for one in events if isinstance(one.event, LeaderElected)],
        [(one.event.term, one.at) for one in events if isinstance(one.event, LeaderSteppedDown)],
    )


def _fault(injected: Injected) -> Fault:
    return Fault(injected.name, injected.since, injected.until, injected.node if injected.kind.fatal else None)
