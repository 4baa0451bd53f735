"""Builds a node's roles and gives each the few ports it uses."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from cronflow.bootstrap.alerting import alert_sender, missing_leader
from cronflow.bootstrap.backends import Connected
from cronflow.domain.capabilities import Capabilities
from cronflow.domain.cluster import node_id
from cronflow.domain.events import RoleFailed
from cronflow.domain.job import Job
from cronflow.domain.resources import ResourceAmount
from cronflow.leader.alert_evaluator import AlertEvaluator
from cronflow.leader.backfiller import Backfiller
from cronflow.leader.catch_up import CatchUp, CatchUpOptions
from cronflow.leader.chain_follower import ChainFollower
from cronflow.leader.contention import Contention
from cronflow.leader.cursor_corrector import CursorCorrector
from cronflow.leader.definition_monitor import DefinitionMonitor
from cronflow.leader.dispatcher import Dispatcher
from cronflow.leader.elector import Elector
from cronflow.leader.held_fires import HeldFires
from cronflow.leader.job_health_monitor import JobHealthMonitor
from cronflow.leader.late_inserts import LateInserts
from cronflow.leader.limits import LimitGate, PermitRecovery
from cronflow.leader.long_run_monitor import LongRunMonitor
from cronflow.leader.look_ahead import LookAhead
from cronflow.leader.maintenance import Maintenance
from cronflow.leader.maintenance_watch import MaintenanceWatch
from cronflow.leader.minimum_nodes import MinimumNodes
from cronflow.leader.node_monitor import NodeMonitor
from cronflow.leader.occupancy_reader import OccupancyReader
from cronflow.leader.pauses import PauseEnder
from cronflow.leader.pending_runs import PendingRuns
from cronflow.leader.plan_recovery import PlanRecovery
from cronflow.leader.planner import Planner
from cronflow.leader.reconciler import Reconciler, SpoolGrace
from cronflow.leader.splitter import Splitter
from cronflow.leader.unplaced import UnplacedReporter
from cronflow.node.cluster_clock import ClusterClock
from cronflow.node.definition_watch import DefinitionWatch
from cronflow.node.drain import Drain
from cronflow.node.event_log import EventLog
from cronflow.node.heartbeat import Heartbeat, Measures
from cronflow.node.keep_alive import KeepAliveThread, LoopMonitor
from cronflow.node.node import Node
from cronflow.node.node_metrics import RunCounter, register_node_metrics
from cronflow.node.role_guard import guarded
from cronflow.node.role_loop import NodeRole, Outages, StepMonitor
from cronflow.node.startup import check_servers
from cronflow.node.timings import Timings
from cronflow.node.zone_watch import ZoneWatch
from cronflow.ports import UNMETERED, Backends, Clock, EventSink, Executor, Meter, NotificationSender, Signal
from cronflow.usecases.calendar_binding import CalendarUpdates
from cronflow.usecases.edit import Editor
from cronflow.usecases.job_breakers import JobBreakers
from cronflow.usecases.job_health import JobHealthReader
from cronflow.usecases.pause_after import PauseAfterFailures
from cronflow.usecases.runs import Canceller
from cronflow.worker.attempt_log import LINES_PER_RUN
from cronflow.worker.leases import Leases
from cronflow.worker.log_writer import LogWriter
from cronflow.worker.permits import Permits
from cronflow.worker.recorder import Recorder
from cronflow.worker.spool import Spool
from cronflow.worker.worker import Worker

STALLED_AFTER_S = 10.0
DEFAULT_CATCH_UP = CatchUpOptions(limit=1000)
DISPATCHING_ROLES = frozenset({"planner", "reconciler"})
LEADER_ROLES = frozenset(
    {
        "planner",
        "late inserts",
        "plan recovery",
        "reconciler",
        "permit recovery",
        "backfiller",
        "chain follower",
        "splitter",
        "catch up",
        "pauses",
        "maintenance watch",
        "maintenance",
        "cursor corrector",
        "node monitor",
        "long run monitor",
        "definition monitor",
        "alert evaluator",
    }
)
"""They have short steps and must not hang."""
LONG_LEADER_ROLES = frozenset({"job health monitor"})
AUXILIARY_ROLES = frozenset({"definition watch", "zone watch", "events", "roll-ups", "alert sender"})
"""Neither the lead nor a run depends on them."""


def build_node(
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
    notifier: NotificationSender | None = None,
    meter: Meter = UNMETERED,
    capabilities: Capabilities | None = None,
    capacity: ResourceAmount | None = None,
    catch_up_options: CatchUpOptions = DEFAULT_CATCH_UP,
    defined: Sequence[Job] = (),
    apps: Mapping[str, str] | None = None,
    min_nodes: int = 1,
) -> Node:
    """Build one incarnation of a node. Without `keep_alive` everything runs in one event loop; without a
    `notifier` the node does not send alerts; without `capabilities` it is offered every run. `capacity` is what
    jobs may reserve on it; without it, it gets no job that reserves anything. `defined` are the jobs of its Apps,
    and `apps` their fingerprints.
    """
    # Roles that must not wait for the main loop use their own connections.
    vital = keep_alive.backends if keep_alive is not None else backends
    event_log = event_log or EventLog(backends.events, backends.feed, clock, name, meter=meter)
    emit = event_log.emit
    cluster_clock = ClusterClock(clock, vital.server_clocks, timings.heartbeat, name=name, emit=emit)
    # Every role reads the cluster's time; only the cluster clock reads the machine's.
    clock = event_log.clock = cluster_clock
    outages = Outages(clock.monotonic, emit, answered_at)
    loop_monitor = LoopMonitor(clock, meter)
    step_monitor = StepMonitor(clock.monotonic)
    incarnation = secrets.token_hex(4)
    node = node_id(name, incarnation)
    counter = RunCounter(backends.rollups, meter)
    definition_watch = DefinitionWatch(backends.jobs, defined)
    zone_watch = ZoneWatch(lambda: elector.tenure is not None)

    def mongo_away_s() -> float:
        return outages.away_s("MongoDB")

    def unfit() -> str | None:
        if loop_monitor.stalled_s > STALLED_AFTER_S:
            return "the planner's event loop is blocked"
        return step_monitor.hanging(LEADER_ROLES, timings.leader_ttl) or cluster_clock.complaint or minimum_nodes.held()

    def load() -> tuple[int, int]:
        return worker.in_flight, worker.ended

    def leadership_changed() -> None:
        for role in (
            maintenance_watch,
            planner,
            late_inserts,
            plan_recovery,
            reconciler,
            permit_recovery,
            backfiller,
            chain_follower,
            splitter,
            catch_up,
            pauses,
            maintenance,
            cursor_corrector,
        ):
            role.wake.set()

    minimum_nodes = MinimumNodes(
        backends.membership, backends.control, lambda: elector, clock, timings, emit, min_nodes
    )
    elector = Elector(
        node,
        vital.election,
        vital.control,
        clock,
        timings,
        on_change=leadership_changed,
        unfit=unfit,
        mongo_away_s=mongo_away_s,
        dispatching=lambda: step_monitor.running(DISPATCHING_ROLES),
        emit=emit,
        meter=meter,
    )
    permits = Permits(backends.limits, backends.bus, clock, outages, lambda: recorder.spooled, timings.group_commit)
    editor = Editor(backends.jobs, backends.versions, backends.plans, backends.runs, backends.queue, clock)
    job_breakers = JobBreakers(backends.breakers, backends.runs, clock, emit)
    pause_after = PauseAfterFailures(backends.jobs, backends.runs, editor, emit)
    recorder = Recorder(
        backends.jobs,
        backends.runs,
        backends.results,
        backends.queue,
        LogWriter(backends.logs, backends.live_tail, clock, outages),
        node,
        clock,
        timings,
        outages,
        spool,
        emit,
        counter.changed,
        meter,
        permits,
        pause_after,
    )
    heartbeat = Heartbeat(
        vital.membership,
        clock,
        timings,
        name=name,
        incarnation=incarnation,
        slots=slots,
        labels=labels or {},
        version=version,
        load=load,
        lag_s=lambda: loop_monitor.lag_s,
        mongo_away_s=mongo_away_s,
        breakers=breakers,
        backlog=lambda: recorder.backlog,
        resources=resources,
        capabilities=capabilities,
        capacity=capacity,
        early=lambda: worker.accepts_early(),
        zones=lambda: zone_watch.version,
        differing=lambda: definition_watch.current,
        apps=apps,
    )
    worker = Worker(
        backends.queue,
        backends.runs,
        backends.bus,
        recorder,
        heartbeat,
        executor,
        clock,
        timings,
        permits=permits,
        node=node,
        slots=slots,
        lines_per_run=lines_per_run,
        meter=meter,
        breakers=job_breakers,
        pause_after=pause_after,
    )
    leases = Leases(
        vital.runs,
        vital.queue,
        clock,
        timings,
        node=node,
        current=worker.leases,
        lost=worker.lost,
        unrenewed=worker.unrenewed,
        meter=meter,
    )
    keep_alive_thread = KeepAliveThread(
        [
            NodeRole("cluster clock", cluster_clock.step, cluster_clock.wake),
            NodeRole("elector", elector.step, elector.wake),
            NodeRole("heartbeat", heartbeat.step, heartbeat.wake),
            *leases.roles,
        ],
        clock,
        outages,
        keep_alive.lifetime if keep_alive is not None else None,
        threaded=keep_alive is not None,
    )
    dispatcher = Dispatcher(backends.queue, lambda: keep_alive_thread.call(elector.renew_now), clock)
    contention, unplaced, pending_runs = Contention(clock), UnplacedReporter(emit), PendingRuns(backends.runs)
    late_inserts = LateInserts(backends.plans, backends.runs, pending_runs, elector, clock)
    look_ahead = LookAhead(timings.look_ahead)
    maintenance_watch = MaintenanceWatch(backends.control, elector, clock, lambda: jobs_changed(), emit)
    canceller = Canceller(backends.jobs, backends.runs, backends.queue, clock)
    limits = LimitGate(backends.limits, backends.runs, canceller, clock)
    occupancy = OccupancyReader(backends.jobs, backends.runs, pending_runs)
    catch_up = CatchUp(
        backends.catch_up, backends.jobs, backends.membership, elector, clock, timings, catch_up_options, emit
    )
    planner = Planner(
        backends.jobs,
        backends.plans,
        backends.runs,
        backends.membership,
        canceller,
        elector,
        dispatcher,
        pending_runs,
        late_inserts,
        limits,
        clock,
        timings,
        counter.inserted,
        meter,
        contention,
        unplaced,
        look_ahead,
        lambda tenure: cursor_corrector.held(tenure) or maintenance_watch.held(tenure),
        occupancy,
        lambda: splitter.wake.set(),
        catch_up,
    )
    catch_up.planner_wake = planner.wake
    plan_recovery = PlanRecovery(backends.jobs, backends.plans, backends.runs, elector, timings, emit)
    reconciler = Reconciler(
        backends.jobs,
        backends.runs,
        backends.membership,
        elector,
        dispatcher,
        pending_runs,
        limits,
        clock,
        timings,
        SpoolGrace(clock, timings, outages, lambda: recorder.spooled),
        emit,
        counter.changed,
        contention,
        unplaced,
        look_ahead,
        job_breakers,
        pause_after,
        maintenance_watch.held,
        occupancy,
    )
    permit_recovery = PermitRecovery(backends.limits, backends.runs, elector, limits, clock, timings, emit)
    backfiller = Backfiller(
        backends.backfills,
        backends.jobs,
        backends.runs,
        canceller,
        elector,
        contention,
        clock,
        reconciler.wake.set,
        emit,
        maintenance_watch.held,
    )
    chain_follower = ChainFollower(
        backends.chains,
        backends.jobs,
        backends.runs,
        elector,
        clock,
        reconciler.wake.set,
        counter.inserted,
        emit,
    )
    pauses = PauseEnder(backends.jobs, editor, elector, clock, emit)
    cursor_corrector = CursorCorrector(backends.jobs, backends.control, elector, zone_watch, planner.look, emit)
    updates = CalendarUpdates(backends.calendars, backends.jobs, editor)
    maintenance = Maintenance(backends.store_admin, editor, elector, system_jobs, log_retention, updates, emit)
    node_monitor = NodeMonitor(backends.membership, backends.events, elector, clock, timings, emit)
    splitter = Splitter(
        backends.jobs,
        backends.runs,
        backends.membership,
        canceller,
        elector,
        clock,
        timings,
        reconciler.wake.set,
        lambda: capacity_freed(),
        node_monitor.missing,
        emit,
        maintenance_watch.held,
        pause_after,
    )
    long_run_monitor = LongRunMonitor(backends.runs, backends.events, elector, clock, emit)
    job_health_monitor = JobHealthMonitor(JobHealthReader(backends, clock), elector, emit)
    definition_monitor = DefinitionMonitor(backends.events, elector, clock, lambda: node_monitor.members, emit)
    drain = Drain(
        backends.membership, backends.election, heartbeat, elector, worker, clock, timings, node=node, emit=emit
    )
    heartbeat.on_asked = drain.wake.set
    roles = [
        loop_monitor.role,
        NodeRole("maintenance watch", maintenance_watch.step, maintenance_watch.wake),
        NodeRole("planner", planner.step, planner.wake),
        NodeRole("late inserts", late_inserts.step, late_inserts.wake),
        NodeRole("plan recovery", plan_recovery.step, plan_recovery.wake),
        NodeRole("reconciler", reconciler.step, reconciler.wake),
        NodeRole("permit recovery", permit_recovery.step, permit_recovery.wake),
        NodeRole("backfiller", backfiller.step, backfiller.wake),
        NodeRole("chain follower", chain_follower.step, chain_follower.wake),
        NodeRole("splitter", splitter.step, splitter.wake),
        NodeRole("catch up", catch_up.step, catch_up.wake),
        NodeRole("pauses", pauses.step, pauses.wake),
        NodeRole("maintenance", maintenance.step, maintenance.wake),
        NodeRole("cursor corrector", cursor_corrector.step, cursor_corrector.wake),
        NodeRole("zone watch", zone_watch.step, zone_watch.wake),
        NodeRole("definition watch", definition_watch.step, definition_watch.wake),
        NodeRole("definition monitor", definition_monitor.step, definition_monitor.wake),
        NodeRole("worker", worker.step, worker.wake),
        NodeRole("local queue", worker.start_due, worker.instants),
        NodeRole("cancellations", worker.cancellations.step, worker.cancellations.wake),
        NodeRole("drain", drain.step, drain.wake),
        NodeRole("node monitor", node_monitor.step, node_monitor.wake),
        NodeRole("minimum nodes", minimum_nodes.step, minimum_nodes.wake),
        NodeRole("long run monitor", long_run_monitor.step, long_run_monitor.wake),
        NodeRole("job health monitor", job_health_monitor.step, job_health_monitor.wake),
        recorder.replaying,
        recorder.publishing,
        event_log.role,
        counter.role,
    ]
    if notifier is not None:
        sender = alert_sender(backends, notifier, clock, emit, meter)
        renew_s = timings.leader_renew
        absence = missing_leader(backends, sender, leader_renew_s=renew_s, namespace=namespace)
        evaluator = AlertEvaluator(
            backends.alerts,
            backends.outbox,
            backends.alert_conditions,
            backends.runs,
            backends.rollups,
            absence,
            elector,
            HeldFires(backends.events, clock, maintenance_watch.mode),
            clock,
            backends.jobs,
            backends.limits,
            backends.events,
            namespace=namespace,
            members=lambda: node_monitor.members,
            in_maintenance=lambda: maintenance_watch.is_on,
            posted=sender.ask,
            long_runs=lambda: long_run_monitor.current,
        )
        roles += [NodeRole("alert evaluator", evaluator.step, evaluator.wake), sender.role]
    roles = _guarded(roles, name, elector, emit)
    register_node_metrics(
        meter,
        clock=clock,
        timings=timings,
        elector=elector,
        heartbeat=heartbeat,
        cluster_clock=cluster_clock,
        outages=outages,
        loop_monitor=loop_monitor,
        members=lambda: node_monitor.members,
        backlog=lambda: recorder.backlog,
        breakers=breakers,
        limits=permit_recovery.figures,
        backfills=lambda: backfiller.figures,
        maintenance=maintenance_watch.mode,
        long_runs=lambda: len(long_run_monitor.current),
        missed=lambda: catch_up.held_runs,
        slots=slots,
        load=load,
    )

    def jobs_changed() -> None:
        planner.look()
        reconciler.wake.set()
        backfiller.wake.set()
        chain_follower.wake.set()
        splitter.wake.set()
        pauses.wake.set()

    def changed() -> None:
        """Another process changed jobs or runs, or the maintenance mode."""
        jobs_changed()
        maintenance_watch.wake.set()
        catch_up.wake.set()

    def capacity_freed() -> None:
        planner.capacity_freed()
        reconciler.capacity_freed()
        backfiller.run_ended()
        chain_follower.run_ended()
        splitter.run_ended()

    def stop_requested() -> None:
        worker.cancellations.wake.set()
        heartbeat.wake.set()

    return Node(
        node=node,
        name=name,
        version=version,
        slots=slots,
        check=lambda: check_servers(backends.coordination_admin, backends.queue, timings),
        bus=backends.bus,
        clock=cluster_clock,
        timings=timings,
        outages=outages,
        step_monitor=step_monitor,
        event_log=event_log,
        counter=counter,
        keep_alive=keep_alive_thread,
        heartbeat=heartbeat,
        elector=elector,
        worker=worker,
        recorder=recorder,
        before_resigning=late_inserts.close,
        roles=roles,
        signals={
            Signal.LEADER: elector.notify,
            Signal.CAPACITY: capacity_freed,
            Signal.JOBS: changed,
            Signal.STOP: stop_requested,
            Signal.NODE: worker.wake.set,
        },
    )


def _guarded(roles: Sequence[NodeRole], node: str, elector: Elector, emit: EventSink) -> list[NodeRole]:
    """The roles; those that may fail do not end the process then."""

    def failed(role: str, error: str) -> None:
        emit(RoleFailed(node, role, error))
        if role not in AUXILIARY_ROLES:
            elector.role_failed(f"the {role} failed: {error}")

    may_fail = LEADER_ROLES | LONG_LEADER_ROLES | AUXILIARY_ROLES
    return [guarded(role, failed) if role.name in may_fail else role for role in roles]
