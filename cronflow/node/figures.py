"""The gauges of a node: what its roles know of themselves, read when somebody looks.

The rule it protects: looking costs no server anything. What the leader tells of the cluster it saw at its last look at
the heartbeats, and nobody tells it who does not lead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from cronflow.circuit import breaker_figures
from cronflow.domain import metrics
from cronflow.domain.cluster import Backlog
from cronflow.node.elector import Elector
from cronflow.node.heartbeat import Heartbeat
from cronflow.node.lifeline import Pulse
from cronflow.node.loop import Outages
from cronflow.node.timekeeper import Timekeeper
from cronflow.node.timings import Timings
from cronflow.node.watch import Watch
from cronflow.ports import Clock, Meter, Reading
from cronflow.shapes.cluster import nodes_by_state

SERVICES = {"redis": "Redis", "mongodb": "MongoDB"}


def tell_figures(
    meter: Meter,
    *,
    clock: Clock,
    timings: Timings,
    elector: Elector,
    heartbeat: Heartbeat,
    timekeeper: Timekeeper,
    outages: Outages,
    pulse: Pulse,
    watch: Watch,
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
    meter.read(metrics.CLOCK_TRUSTED, lambda: float(timekeeper.complaint is None))
    meter.read(metrics.LOOP_STALLED, lambda: pulse.lag_s)
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
