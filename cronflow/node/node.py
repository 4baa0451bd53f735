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
from cronflow.leader.alert_evaluator import AlertEvaluator
from cronflow.leader.dispatcher import Dispatcher
from cronflow.leader.elector import Elector
from cronflow.leader.maintenance import Maintenance
from cronflow.leader.node_monitor import NodeMonitor
from cronflow.leader.plan_recovery import PlanRecovery
from cronflow.leader.planner import Planner
from cronflow.leader.reconciler import Reconciler
from cronflow.leader.spool_grace import SpoolGrace
from cronflow.node.alert_sender import AlertSender
from cronflow.node.cluster_clock import ClusterClock
from cronflow.node.drain import Draining
from cronflow.node.event_log import EventLog
from cronflow.node.heartbeat import Heartbeat, Measures
from cronflow.node.keep_alive import KeepAliveThread, LoopMonitor
from cronflow.node.node_metrics import register_node_metrics
from cronflow.node.role_loop import NodeRole, Outages, repeat
from cronflow.node.run_counter import RunCounter
from cronflow.node.server_checks import check_servers
from cronflow.node.timings import Timings
from cronflow.ports import UNMETERED, Backends, Clock, Executor, Meter, Signal, WebhookSender
from cronflow.supervision import Phase, ProcessStatus
from cronflow.worker.leases import Lease, Leases
from cronflow.worker.recorder import Recorder
from cronflow.worker.spool import Spool
from cronflow.worker.worker import LINES_PER_RUN, Worker

STALLED_AFTER_S = 10.0

log = structlog.get_logger("cronflow.node")


@dataclass(frozen=True, slots=True)
class Connected:
    """Ports on connections that nobody else uses, and what opens and closes them."""

    backends: Backends
    lifetime: AbstractAsyncContextManager[object]


class Node:
    """One incarnation of a node. Without a `webhook_sender` it takes no part in alerts."""

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
        keep_alive: Connected | None = None,
        system_jobs: Sequence[Job] = (),
        log_retention: timedelta | None = None,
        spool: Spool | None = None,
        breakers: Callable[[], Mapping[str, str]] = dict,
        answered_at: Callable[[str], float] = lambda _service: math.inf,
        event_log: EventLog | None = None,
        lines_per_run: int = LINES_PER_RUN,
        namespace: str = "default",
        webhook_sender: WebhookSender | None = None,
        meter: Meter = UNMETERED,
    ) -> None:
        vital = keep_alive.backends if keep_alive is not None else backends
        self._name, self._version = name, version
        self._event_log = event_log or EventLog(backends, clock, name, meter=meter)
        emit = self._event_log.emit
        self._cluster_clock = ClusterClock(clock, vital.server_clocks, timings.heartbeat, name=name, emit=emit)
        # Every role of this node asks the cluster's time; only the timekeeper asks the machine's.
        clock = self._event_log.clock = self._cluster_clock
        self._backends = backends
        self._executor = executor
        self._clock: Clock = clock
        self._timings = timings
        self._slots = slots
        self._lines_per_run = lines_per_run
        self._stop = asyncio.Event()
        self._force = asyncio.Event()
        self._worker: Worker | None = None
        self._outages = Outages(clock.monotonic, emit, answered_at)
        self._pulse = LoopMonitor(clock, meter)
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
            emit=emit,
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
        self._keep_alive = KeepAliveThread(
            [
                NodeRole("timekeeper", self._cluster_clock.step, self._cluster_clock.wake),
                NodeRole("elector", self.elector.step, self.elector.wake),
                NodeRole("heartbeat", self._heartbeat.step, self._heartbeat.wake),
                *leases.roles,
            ],
            clock,
            self._outages,
            keep_alive.lifetime if keep_alive is not None else None,
            threaded=keep_alive is not None,
        )
        self._run_counter = RunCounter(backends.rollups, meter)
        dispatcher = Dispatcher(backends.queue, lambda: self._keep_alive.call(self.elector.renew_now))
        self._planner = Planner(backends, self.elector, dispatcher, clock, timings, self._run_counter.inserted, meter)
        self._plan_recovery = PlanRecovery(backends, self.elector, clock, timings, emit)
        self._maintenance = Maintenance(backends, self.elector, clock, system_jobs, log_retention)
        self._recorder = Recorder(
            backends, self.id, clock, timings, self._outages, spool, emit, self._run_counter.changed, meter
        )
        grace = SpoolGrace(clock, timings, self._outages, lambda: self._recorder.spooled)
        self._reconciler = Reconciler(
            backends, self.elector, dispatcher, clock, timings, grace, emit, self._run_counter.changed
        )
        self._node_monitor = NodeMonitor(backends, self.elector, clock, timings, emit)
        self._alerting: list[NodeRole] = []
        if webhook_sender is not None:
            alert_sender = AlertSender(backends, webhook_sender, clock, emit, meter)
            alert_evaluator = AlertEvaluator(
                backends, self.elector, clock, timings, namespace=namespace, posted=alert_sender.ask
            )
            self._alerting = [NodeRole("alarms", alert_evaluator.step, alert_evaluator.wake), alert_sender.role]
        register_node_metrics(
            meter,
            clock=clock,
            timings=timings,
            elector=self.elector,
            heartbeat=self._heartbeat,
            cluster_clock=self._cluster_clock,
            outages=self._outages,
            loop_monitor=self._pulse,
            watch=self._node_monitor,
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
    def status(self) -> ProcessStatus:
        """How it stands, for who supervises it."""
        phase = Phase.STARTING if self._worker is None else Phase.UP
        if self._stop.is_set():
            phase = Phase.STOPPING
        away = tuple(service for service in ("Redis", "MongoDB") if self._outages.began(service) is not None)
        return ProcessStatus(phase, "leader" if self.leads else "worker", away)

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
        async with self._keep_alive as keep_alive, asyncio.TaskGroup() as group:
            await keep_alive.call(self._cluster_clock.step)
            await keep_alive.call(self._heartbeat.announce)
            log.info("node up", node=self.id, slots=self._slots)
            self._event_log.emit(NodeJoined(self._name, self._version, self._slots))
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
                emit=self._event_log.emit,
            )
            self._heartbeat.on_asked = drain.wake.set
            roles = [
                self._pulse.role,
                NodeRole("planner", self._planner.step, self._planner.wake),
                NodeRole("settler", self._plan_recovery.step, self._plan_recovery.wake),
                NodeRole("reconciler", self._reconciler.step, self._reconciler.wake),
                NodeRole("caretaker", self._maintenance.step, self._maintenance.wake),
                NodeRole("worker", worker.step, worker.wake),
                NodeRole("cancellations", worker.look_for_cancellations, worker.cancellations),
                NodeRole("draining", drain.step, drain.wake),
                NodeRole("watch", self._node_monitor.step, self._node_monitor.wake),
                self._recorder.replaying,
                self._recorder.publishing,
                self._event_log.role,
                self._run_counter.role,
                *self._alerting,
            ]
            tasks = [group.create_task(repeat(role, self._clock, self._outages), name=role.name) for role in roles]
            tasks.append(group.create_task(self._backends.bus.listen(self.id, self._signals(worker)), name="bells"))
            tasks.append(group.create_task(keep_alive.ended(), name="lifeline"))
            tasks += self._recorder.start_roles(group)
            keep_alive.begin()
            await self._stop.wait()
            await self._wind_down(worker)
            for task in tasks:
                task.cancel()
        self._event_log.emit(NodeLeft(self._name))
        await self._run_counter.flush()
        await self._event_log.flush()
        log.info("node down", node=self.id)

    async def _wind_down(self, worker: Worker) -> None:
        log.info("node stopping", node=self.id, running=worker.in_flight)
        self._heartbeat.draining = True
        for farewell in (self.elector.resign, self._heartbeat.step):
            try:
                await self._keep_alive.call(farewell)
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
            await self._keep_alive.call(self._heartbeat.leave)
            # What a leader pushed before it saw that.
            await worker.give_back()
        except BackendUnavailable as error:
            log.warning("could not leave", reason=str(error))

    def _signals(self, worker: Worker) -> dict[Signal, Callable[[], None]]:
        def jobs() -> None:
            self._planner.look()
            self._reconciler.wake.set()

        def stop() -> None:
            worker.cancellations.set()
            self._heartbeat.wake.set()

        return {
            Signal.LEADER: self.elector.notify,
            Signal.CAPACITY: self._planner.capacity_freed,
            Signal.JOBS: jobs,
            Signal.STOP: stop,
            Signal.NODE: worker.wake.set,
        }

    def _load(self) -> tuple[int, int]:
        return (0, 0) if self._worker is None else (self._worker.in_flight, self._worker.ended)

    def _unfit(self) -> str | None:
        if self._pulse.stalled_s > STALLED_AFTER_S:
            return "the loop that plans does not turn"
        return self._cluster_clock.complaint

    def _leases(self) -> Sequence[Lease]:
        return () if self._worker is None else self._worker.leases()

    def _lease_lost(self, lease: Lease) -> None:
        if self._worker is not None:
            self._worker.lost(lease)

    def _leadership_changed(self) -> None:
        for role in (self._planner, self._plan_recovery, self._reconciler, self._maintenance):
            role.wake.set()
