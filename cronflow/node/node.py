"""The node: one TaskGroup of roles, and the order in which they stop.

Starting: the name is announced first, because a live namesake is refused. Stopping, on the first signal: resign,
take nothing more, wait for what runs, then stop it and hand it on, record everything, leave. A second signal forces
what runs to stop at once.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta

import structlog

from cronflow.domain.cluster import node_id
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.events import NodeJoined, NodeLeft
from cronflow.domain.job import Job
from cronflow.node.alarms import Alarms
from cronflow.node.counts import Counts
from cronflow.node.courier import Courier
from cronflow.node.dispatch import Dispatcher
from cronflow.node.draining import Draining
from cronflow.node.elector import Elector
from cronflow.node.figures import tell_figures
from cronflow.node.grace import SpoolGrace
from cronflow.node.heartbeat import Heartbeat, Measures
from cronflow.node.journal import Journal
from cronflow.node.leases import Lease, Leases
from cronflow.node.lifeline import Lifeline, Pulse
from cronflow.node.loop import Outages, Role, repeat
from cronflow.node.planner import Planner
from cronflow.node.preflight import check_servers
from cronflow.node.reconciler import Reconciler
from cronflow.node.recorder import Recorder
from cronflow.node.settler import Settler
from cronflow.node.spool import Spool
from cronflow.node.systemjobs import Caretaker
from cronflow.node.timekeeper import Timekeeper
from cronflow.node.timings import Timings
from cronflow.node.watch import Watch
from cronflow.node.worker import LINES_PER_RUN, Worker
from cronflow.ports import UNMETERED, Backends, Bell, Clock, Executor, Meter, Postman
from cronflow.supervision import Phase, Standing

STALLED_AFTER_S = 10.0

log = structlog.get_logger("cronflow.node")


@dataclass(frozen=True, slots=True)
class Connected:
    """Ports on connections that nobody else uses, and what opens and closes them."""

    backends: Backends
    lifetime: AbstractAsyncContextManager[object]


class Node:
    """One incarnation of a node. Without a `postman` it takes no part in alerts."""

    def __init__(
        self,
        backends: Backends,
        executor: Executor,
        clock: Clock,
        timings: Timings,
        *,
        name: str,
        slots: int = 16,
        labels: Mapping[str, str] | None = None,
        version: str = "",
        resources: Measures | None = None,
        lifeline: Connected | None = None,
        system_jobs: Sequence[Job] = (),
        log_retention: timedelta | None = None,
        spool: Spool | None = None,
        breakers: Callable[[], Mapping[str, str]] = dict,
        answered_at: Callable[[str], float] = lambda _service: math.inf,
        journal: Journal | None = None,
        lines_per_run: int = LINES_PER_RUN,
        namespace: str = "default",
        postman: Postman | None = None,
        meter: Meter = UNMETERED,
    ) -> None:
        vital = lifeline.backends if lifeline is not None else backends
        self._name, self._version = name, version
        self._journal = journal or Journal(backends, clock, name, meter=meter)
        tell = self._journal.tell
        self._timekeeper = Timekeeper(clock, vital.timepieces, timings.heartbeat, name=name, tell=tell)
        # Every role of this node asks the cluster's time; only the timekeeper asks the machine's.
        clock = self._journal.clock = self._timekeeper
        self._backends = backends
        self._executor = executor
        self._clock: Clock = clock
        self._timings = timings
        self._slots = slots
        self._lines_per_run = lines_per_run
        self._stop = asyncio.Event()
        self._force = asyncio.Event()
        self._worker: Worker | None = None
        self._outages = Outages(clock.monotonic, tell, answered_at)
        self._pulse = Pulse(clock, meter)
        self._meter = meter
        incarnation = secrets.token_hex(4)
        self.id = node_id(name, incarnation)
        self.elector = Elector(
            self.id,
            vital.election,
            vital.control,
            clock,
            timings,
            on_change=self._leadership_changed,
            unfit=self._unfit,
            mongo_away_s=lambda: self._outages.away_s("MongoDB"),
            tell=tell,
            meter=meter,
        )
        self._heartbeat = Heartbeat(
            vital.membership,
            clock,
            timings,
            name=name,
            incarnation=incarnation,
            slots=slots,
            labels=labels or {},
            version=version,
            load=self._load,
            lag_s=lambda: self._pulse.lag_s,
            mongo_away_s=lambda: self._outages.away_s("MongoDB"),
            breakers=breakers,
            backlog=lambda: self._recorder.backlog,
            resources=resources,
        )
        leases = Leases(
            vital.runs,
            vital.queue,
            clock,
            timings,
            node=self.id,
            current=self._leases,
            lost=self._lease_lost,
            meter=meter,
        )
        self._lifeline = Lifeline(
            [
                Role("timekeeper", self._timekeeper.step, self._timekeeper.wake),
                Role("elector", self.elector.step, self.elector.wake),
                Role("heartbeat", self._heartbeat.step, self._heartbeat.wake),
                *leases.roles,
            ],
            clock,
            self._outages,
            lifeline.lifetime if lifeline is not None else None,
            threaded=lifeline is not None,
        )
        self._counts = Counts(backends.rollups, meter)
        dispatcher = Dispatcher(backends.queue, lambda: self._lifeline.call(self.elector.renew_now))
        self._planner = Planner(backends, self.elector, dispatcher, clock, timings, self._counts.inserted, meter)
        self._settler = Settler(backends, self.elector, clock, timings, tell)
        self._caretaker = Caretaker(backends, self.elector, clock, system_jobs, log_retention)
        self._recorder = Recorder(
            backends, self.id, clock, timings, self._outages, spool, tell, self._counts.changed, meter
        )
        grace = SpoolGrace(clock, timings, self._outages, lambda: self._recorder.spooled)
        self._reconciler = Reconciler(
            backends, self.elector, dispatcher, clock, timings, grace, tell, self._counts.changed
        )
        self._watch = Watch(backends, self.elector, clock, timings, tell)
        self._alerting: list[Role] = []
        if postman is not None:
            courier = Courier(backends, postman, clock, tell, meter)
            alarms = Alarms(backends, self.elector, clock, timings, namespace=namespace, posted=courier.ask)
            self._alerting = [Role("alarms", alarms.step, alarms.wake), courier.role]
        tell_figures(
            meter,
            clock=clock,
            timings=timings,
            elector=self.elector,
            heartbeat=self._heartbeat,
            timekeeper=self._timekeeper,
            outages=self._outages,
            pulse=self._pulse,
            watch=self._watch,
            backlog=lambda: self._recorder.backlog,
            breakers=breakers,
            slots=slots,
            load=self._load,
        )

    @property
    def leads(self) -> bool:
        """Whether this node believes now that it leads."""
        return self.elector.tenure is not None

    @property
    def standing(self) -> Standing:
        """How it stands, for who supervises it."""
        phase = Phase.STARTING if self._worker is None else Phase.UP
        if self._stop.is_set():
            phase = Phase.STOPPING
        away = tuple(service for service in ("Redis", "MongoDB") if self._outages.began(service) is not None)
        return Standing(phase, "leader" if self.leads else "worker", away)

    def stop(self) -> None:
        """Ask it to stop; the second time, at once."""
        if self._stop.is_set():
            self._force.set()
        self._stop.set()

    async def run(self) -> None:
        """Until it is asked to stop.

        Raises Conflict when a live node has the name, BackendUnavailable when a server is away at start, InvalidInput
        when Redis is not fit to be used.
        """
        await check_servers(self._backends, self._timings)
        async with self._lifeline as lifeline, asyncio.TaskGroup() as group:
            await lifeline.call(self._timekeeper.step)
            await lifeline.call(self._heartbeat.announce)
            log.info("node up", node=self.id, slots=self._slots)
            self._journal.tell(NodeJoined(self._name, self._version, self._slots))
            worker = self._worker = Worker(
                self._backends,
                self._recorder,
                self._heartbeat,
                self._executor,
                self._clock,
                self._timings,
                node=self.id,
                slots=self._slots,
                group=group,
                lines_per_run=self._lines_per_run,
                meter=self._meter,
            )
            drain = Draining(
                self._backends,
                self._heartbeat,
                self.elector,
                worker,
                self._clock,
                self._timings,
                node=self.id,
                tell=self._journal.tell,
            )
            self._heartbeat.on_asked = drain.wake.set
            roles = [
                self._pulse.role,
                Role("planner", self._planner.step, self._planner.wake),
                Role("settler", self._settler.step, self._settler.wake),
                Role("reconciler", self._reconciler.step, self._reconciler.wake),
                Role("caretaker", self._caretaker.step, self._caretaker.wake),
                Role("worker", worker.step, worker.wake),
                Role("cancellations", worker.look_for_cancellations, worker.cancellations),
                Role("draining", drain.step, drain.wake),
                Role("watch", self._watch.step, self._watch.wake),
                self._recorder.replaying,
                self._recorder.publishing,
                self._journal.role,
                self._counts.role,
                *self._alerting,
            ]
            tasks = [group.create_task(repeat(role, self._clock, self._outages), name=role.name) for role in roles]
            tasks.append(group.create_task(self._backends.bus.listen(self.id, self._bells(worker)), name="bells"))
            tasks.append(group.create_task(lifeline.ended(), name="lifeline"))
            tasks += self._recorder.start_roles(group)
            lifeline.begin()
            await self._stop.wait()
            await self._wind_down(worker)
            for task in tasks:
                task.cancel()
        self._journal.tell(NodeLeft(self._name))
        await self._counts.flush()
        await self._journal.flush()
        log.info("node down", node=self.id)

    async def _wind_down(self, worker: Worker) -> None:
        log.info("node stopping", node=self.id, running=worker.in_flight)
        self._heartbeat.draining = True
        for farewell in (self.elector.resign, self._heartbeat.step):
            try:
                await self._lifeline.call(farewell)
            except BackendUnavailable as error:
                # The leader's key and the heartbeat then expire by themselves.
                log.warning("could not say goodbye", reason=str(error))
        draining = asyncio.ensure_future(worker.drain(self._timings.drain))
        forced = asyncio.ensure_future(self._force.wait())
        await asyncio.wait({draining, forced}, return_when=asyncio.FIRST_COMPLETED)
        if not draining.done():
            draining.cancel()
            await worker.drain(0.0)
        forced.cancel()
        await self._recorder.replay_all()
        try:
            await self._lifeline.call(self._heartbeat.leave)
            # What a leader pushed before it saw that.
            await worker.give_back()
        except BackendUnavailable as error:
            log.warning("could not leave", reason=str(error))

    def _bells(self, worker: Worker) -> dict[Bell, Callable[[], None]]:
        def jobs() -> None:
            self._planner.look()
            self._reconciler.wake.set()

        def stop() -> None:
            worker.cancellations.set()
            self._heartbeat.wake.set()

        return {
            Bell.LEADER: self.elector.ring,
            Bell.ROOM: self._planner.room_freed,
            Bell.JOBS: jobs,
            Bell.STOP: stop,
            Bell.NODE: worker.wake.set,
        }

    def _load(self) -> tuple[int, int]:
        return (0, 0) if self._worker is None else (self._worker.in_flight, self._worker.ended)

    def _unfit(self) -> str | None:
        if self._pulse.stalled_s > STALLED_AFTER_S:
            return "the loop that plans does not turn"
        return self._timekeeper.complaint

    def _leases(self) -> Sequence[Lease]:
        return () if self._worker is None else self._worker.leases()

    def _lease_lost(self, lease: Lease) -> None:
        if self._worker is not None:
            self._worker.lost(lease)

    def _leadership_changed(self) -> None:
        for role in (self._planner, self._settler, self._reconciler, self._caretaker):
            role.wake.set()
