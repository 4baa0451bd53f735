"""The gauges of a node: what its roles know of themselves, read when somebody looks.

The rule it protects: looking costs no server anything. What the leader tells of the cluster it saw at its last look at
the heartbeats, and nobody tells it who does not lead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from cronflow.circuit_breaker import breaker_figures
from cronflow.domain import metrics
from cronflow.domain.cluster import Backlog
from cronflow.leader.elector import Elector
from cronflow.leader.node_monitor import NodeMonitor
from cronflow.node.cluster_clock import ClusterClock
from cronflow.node.heartbeat import Heartbeat
from cronflow.node.keep_alive import LoopMonitor
from cronflow.node.role_loop import Outages
from cronflow.node.timings import Timings
from cronflow.ports import Clock, Meter, Reading
from cronflow.schemas.cluster import nodes_by_state

SERVICES = {"redis": "Redis", "mongodb": "MongoDB"}


def register_node_metrics(
    meter: Meter,
    *,
    clock: Clock,
    timings: Timings,
    elector: Elector,
    heartbeat: Heartbeat,
    cluster_clock: ClusterClock,
    outages: Outages,
    loop_monitor: LoopMonitor,
    watch: NodeMonitor,
    backlog: Callable[[], Backlog],
    breakers: Callable[[], Mapping[str, str]],
    slots: int,
    load: Callable[[], tuple[int, int]],
) -> None:
    """Let them be read."""

    def leads() -> bool:
        return elector.tenure is not None

    def spool_age() -> float:
        since = backlog().since
        return 0.0 if since is None else max(0.0, (clock.now() - since).total_seconds())

    def nodes() -> Reading:
        return nodes_by_state(watch.members, timedelta(seconds=timings.heartbeat)) if leads() else None

    meter.read(metrics.LEADER, lambda: float(leads()))
    meter.read(metrics.TERM, lambda: float(elector.last_term))
    meter.read(metrics.LEASE_LEFT, lambda: elector.lease_left_s if leads() else None)
    meter.read(metrics.CLOCK_TRUSTED, lambda: float(cluster_clock.complaint is None))
    meter.read(metrics.LOOP_STALLED, lambda: loop_monitor.lag_s)
    meter.read(metrics.HEARTBEAT_AGE, lambda: heartbeat.age_s)
    meter.read(metrics.SLOTS, lambda: float(slots))
    meter.read(metrics.IN_FLIGHT, lambda: float(load()[0]))
    meter.read(metrics.SPOOL_OUTCOMES, lambda: float(backlog().outcomes))
    meter.read(metrics.SPOOL_BYTES, lambda: float(backlog().bytes))
    meter.read(metrics.SPOOL_AGE, spool_age)
    meter.read(
        metrics.BACKEND_UP,
        lambda: {name: float(outages.began(service) is None) for name, service in SERVICES.items()},
    )
    meter.read(metrics.BREAKER_STATE, lambda: breaker_figures(breakers()))
    meter.read(metrics.CLUSTER_NODES, nodes)
    meter.read(
        metrics.CLUSTER_SLOTS, lambda: float(sum(one.report.slots for one in watch.members)) if leads() else None
    )
    meter.read(
        metrics.CLUSTER_IN_FLIGHT,
        lambda: float(sum(one.report.in_flight for one in watch.members)) if leads() else None,
    )
    meter.read(metrics.QUEUE_DEPTH, lambda: float(sum(one.queued for one in watch.members)) if leads() else None)
