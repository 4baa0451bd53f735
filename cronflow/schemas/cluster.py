"""Nodes, the cluster, its sweep, and statistics over time for charts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Literal, get_args

from cronflow.domain.capabilities import Capabilities
from cronflow.domain.cluster import ClusterStatus, Member
from cronflow.domain.maintenance_mode import MaintenanceMode
from cronflow.domain.resources import ResourceAmount
from cronflow.domain.rollup import Span, Tally, quantile_ms
from cronflow.domain.run import RunState
from cronflow.domain.sweep import Flaw, SweepReport
from cronflow.schemas import Schema, iso, optional_iso

NodeState = Literal["up", "draining", "stale"]


class SpoolSchema(Schema):
    """Results that wait on a node's disk because MongoDB was unavailable."""

    outcomes: int
    """Number of results."""
    bytes: int
    """Their size in bytes."""
    since: str | None
    """When the oldest one was written."""


class AmountSchema(Schema):
    """An amount of CPU and memory."""

    cpu: float
    """CPUs."""
    memory: int
    """Bytes."""


class NodeSchema(Schema):
    """A node that is up."""

    name: str
    """Its name."""
    id: str
    """`<name>#<incarnation>`."""
    roles: list[Literal["leader", "worker"]]
    """Its roles."""
    state: NodeState
    """`draining`: accepts no new runs; `stale`: missed two heartbeats."""
    cpu: float
    """CPU use, from 0 to 1."""
    memory: float
    """Memory use, from 0 to 1."""
    slots: int
    """How many runs it can execute concurrently."""
    in_flight: int
    """Runs that it is executing."""
    queued: int
    """Runs waiting in its queue."""
    held: int
    """Runs that it has claimed and not finished."""
    rate: float
    """Runs finished per second."""
    heartbeat_age_s: float
    """Seconds since its last heartbeat."""
    labels: dict[str, str]
    """Labels that jobs can require."""
    version: str
    """Its CronFlow version."""
    host: str
    """Host name of its machine."""
    pid: int
    """Process id."""
    started_at: str | None
    """When its process started."""
    breakers: dict[str, str]
    """State of its circuit breakers by service: MongoDB, and every host whose breaker is not closed."""
    spool: SpoolSchema
    """Results that wait on its disk for MongoDB."""
    zones: str
    """Version of its time zone data."""
    drained: bool
    """Whether it is draining and has no runs left."""
    capacity: AmountSchema | None
    """What jobs may reserve on it with `resources`; null: a node of 0.9, which announces none."""
    reserved: AmountSchema | None
    """What its runs reserve; null: MongoDB did not answer."""
    differing: dict[str, str]
    """The jobs whose code on this node is not what is stored, each with the keys that differ; at most 20."""
    apps: dict[str, str]
    """The Apps that it has loaded, each with a fingerprint of the jobs that it defines."""


class CapabilitiesSchema(Schema):
    """What a node can run, as it announces it."""

    shell: bool
    """Whether it runs commands."""
    modules: list[str] | None
    """Modules whose functions it calls; null: too many to announce."""
    hosts: list[str] | None
    """Hosts that it may call; null: all, or too many to announce."""
    secrets: bool
    """Whether it can open secrets."""
    amqp: bool
    """Whether it can publish to a broker."""


class NodeDetailSchema(NodeSchema):
    """A node with what it can run and the runs that it has claimed."""

    incarnation: str
    """The random name of this start of the node."""
    lag_s: float
    """How late its event loop runs, in seconds."""
    capabilities: CapabilitiesSchema | None
    """What it can run; null: a node of 0.6, which announces nothing."""
    accepts_ahead: int
    """How many runs it accepts beyond its slots."""
    drain_until: str | None
    """When what still runs moves to other nodes; null: it does not drain, or its drain has no deadline."""
    runs: list[str]
    """Ids of the runs that it has claimed."""


class DrainSchema(Schema):
    """A node that is draining."""

    name: str
    """The node."""
    draining: Literal[True]
    """Always true."""
    drained: bool
    """Whether it has no runs left."""
    until: str | None
    """When what still runs moves to other nodes; null: running jobs end."""


class UndrainSchema(Schema):
    """A node that accepts runs again."""

    name: str
    """The node."""
    draining: Literal[False]
    """Always false."""
    up: bool
    """Whether a node with this name is up."""


class QueueSchema(Schema):
    """The queues of all nodes, added up."""

    queued: int
    """Runs waiting in the queues."""
    in_flight: int
    """Runs being executed."""
    slots: int
    """How many runs the cluster can execute concurrently."""
    capacity: int
    """How many more runs could be dispatched now."""


class FindingSchema(Schema):
    """An inconsistency found by a sweep."""

    kind: Flaw
    """The kind of inconsistency."""
    where: str
    """The inconsistent record."""
    what: str
    """What is wrong."""
    repaired: bool
    """Whether the sweep repaired it."""


class SweepSchema(Schema):
    """The report of a sweep."""

    at: str
    """When."""
    run: str
    """The run of the sweep."""
    took_ms: int
    """How long it took, in milliseconds."""
    checked: dict[str, int]
    """Records checked, by kind."""
    found: int
    """Number of findings."""
    findings: list[FindingSchema]
    """The first hundred findings."""


class MaintenanceSchema(Schema):
    """Whether the cluster is in maintenance: it plans and dispatches no new runs."""

    on: bool
    """Whether it is."""
    since: str | None
    """Since when."""
    by: str | None
    """Who turned it on."""
    note: str | None
    """Why."""
    until: str | None
    """When it ends by itself; null: when somebody turns it off."""


class ClusterSchema(Schema):
    """An overview of the cluster."""

    namespace: str
    """Its name."""
    term: int
    """The leader's term; without a leader, the last term."""
    leader: str | None
    """The leader; null if the cluster has none."""
    lease_left_s: float | None
    """Seconds until the leader's lease expires unless it is renewed."""
    elected_at: str | None
    """When the leader was elected."""
    nodes: list[NodeSchema]
    """The nodes that are up, by name."""
    queue: QueueSchema
    """The queues of all nodes, added up."""
    sweep: SweepSchema | None
    """The last sweep."""
    maintenance: MaintenanceSchema
    """Whether the cluster is in maintenance."""


class SettingsSchema(Schema):
    """Cluster settings that clients need."""

    namespace: str
    """Name of the cluster."""
    heartbeat_ms: int
    """Interval between two heartbeats, in milliseconds."""
    retry_max: int
    """Default number of retries."""
    retry_initial_ms: int
    """Default delay before the first retry, in milliseconds."""
    retry_multiplier: float
    """Default factor by which each further delay grows."""
    timezone: str
    """Time zone of schedules that name none."""
    version: str
    """CronFlow version of the API."""
    chaos: bool
    """Whether the chaos routes are available; only `cronflow dev` has them."""


class SettingSchema(Schema):
    """A setting of the API process."""

    name: str
    """Its name, without the prefix `CRONFLOW_`."""
    value: str
    """Its value as text; `***`: it is set, and never shown."""
    default: str | None
    """Its default as text; null: it depends on the machine."""
    source: str
    """Where the value comes from: a flag, the environment, a file, or `default`."""
    hidden: bool
    """Whether its value is never shown."""
    description: str
    """What it does."""


class StepdownSchema(Schema):
    """A leader that was asked to step down."""

    asked: str
    """The node."""
    term: int
    """Its term."""


def node_state(member: Member, heartbeat: timedelta) -> NodeState:
    """up, draining, or stale (missed two heartbeats, so it gets no runs)."""
    if member.draining:
        return "draining"
    return "stale" if member.age > 2 * heartbeat else "up"


def nodes_by_state(members: Iterable[Member], heartbeat: timedelta) -> dict[str, int]:
    """Number of nodes per state, including states without nodes."""
    counts = dict.fromkeys(get_args(NodeState), 0)
    for member in members:
        counts[node_state(member, heartbeat)] += 1
    return counts


def node_schema(member: Member, leader: str | None, heartbeat: timedelta) -> NodeSchema:
    """A node."""
    report = member.report
    return {
        "name": report.name,
        "id": report.id,
        "roles": ["leader", "worker"] if report.name == leader else ["worker"],
        "state": node_state(member, heartbeat),
        "cpu": round(report.cpu, 4),
        "memory": round(report.memory, 4),
        "slots": report.slots,
        "in_flight": report.in_flight,
        "queued": member.queued,
        "held": member.held,
        "rate": report.rate,
        "heartbeat_age_s": round(member.age.total_seconds(), 3),
        "labels": dict(report.labels),
        "version": report.version,
        "host": report.host,
        "pid": report.pid,
        "started_at": optional_iso(report.started_at),
        "breakers": dict(report.breakers),
        "spool": {
            "outcomes": report.spool.outcomes,
            "bytes": report.spool.bytes,
            "since": optional_iso(report.spool.since),
        },
        "zones": report.zones,
        "drained": member.drained,
        "capacity": _amount_schema(report.capacity),
        "reserved": _amount_schema(member.reserved),
        "differing": {job: keys for job, (keys, _) in report.differing.items()},
        "apps": dict(report.apps),
    }


def _amount_schema(amount: ResourceAmount | None) -> AmountSchema | None:
    return None if amount is None else {"cpu": amount.cpu, "memory": amount.memory}


def node_detail_schema(
    member: Member, runs: Collection[str], leader: str | None, heartbeat: timedelta
) -> NodeDetailSchema:
    report = member.report
    return {
        **node_schema(member, leader, heartbeat),
        "incarnation": report.incarnation,
        "lag_s": report.lag_s,
        "capabilities": _capabilities_schema(report.capabilities),
        "accepts_ahead": member.ahead,
        "drain_until": optional_iso(member.drain_until),
        "runs": sorted(runs),
    }


def _capabilities_schema(found: Capabilities | None) -> CapabilitiesSchema | None:
    if found is None:
        return None
    return {
        "shell": found.shell,
        "modules": None if found.modules is None else list(found.modules),
        "hosts": None if found.hosts is None else list(found.hosts),
        "secrets": found.secrets,
        "amqp": found.amqp,
    }


def drain_schema(name: str, member: Member | None) -> DrainSchema:
    """A node that is gone counts as drained."""
    return {
        "name": name,
        "draining": True,
        "drained": member is None or member.drained,
        "until": None if member is None else optional_iso(member.drain_until),
    }


def undrain_schema(name: str, member: Member | None) -> UndrainSchema:
    """A node that accepts runs again."""
    return {"name": name, "draining": False, "up": member is not None}


def cluster_schema(namespace: str, status: ClusterStatus, heartbeat: timedelta) -> ClusterSchema:
    return {
        "namespace": namespace,
        "term": status.term,
        "leader": status.leader,
        "lease_left_s": None if status.lease_left_s is None else round(status.lease_left_s, 3),
        "elected_at": optional_iso(status.elected_at),
        "nodes": [node_schema(member, status.leader, heartbeat) for member in status.members],
        "queue": queue_schema(status),
        "sweep": None if status.sweep is None else sweep_schema(status.sweep),
        "maintenance": maintenance_schema(status.maintenance),
    }


def maintenance_schema(mode: MaintenanceMode | None) -> MaintenanceSchema:
    if mode is None:
        return {"on": False, "since": None, "by": None, "note": None, "until": None}
    return {
        "on": True,
        "since": iso(mode.since),
        "by": mode.by or None,
        "note": mode.note or None,
        "until": optional_iso(mode.until),
    }


def sweep_schema(report: SweepReport) -> SweepSchema:
    return {
        "at": iso(report.at),
        "run": report.run,
        "took_ms": report.took_ms,
        "checked": dict(report.checked),
        "found": report.found,
        "findings": [
            {"kind": one.kind, "where": one.where, "what": one.what, "repaired": one.repaired}
            for one in report.findings
        ],
    }


def queue_schema(status: ClusterStatus) -> QueueSchema:
    members = status.members
    return {
        "queued": sum(member.queued for member in members),
        "in_flight": sum(member.report.in_flight for member in members),
        "slots": sum(member.report.slots for member in members),
        "capacity": capacity_of(members),
    }


def capacity_of(members: Iterable[Member]) -> int:
    """How many more runs could be dispatched now. A fast node is given more runs than it has slots; the result is
    capped at the slots.
    """
    return sum(min(max(member.capacity, 0), member.report.slots) for member in members)


class QuantilesSchema(Schema):
    """Percentiles in milliseconds, one value per point; null where nothing was measured."""

    p50: list[float | None]
    """Median."""
    p95: list[float | None]
    """95th percentile."""
    p99: list[float | None]
    """99th percentile."""


class SeriesSchema(Schema):
    """Finished runs over a span of time, as columns of equal length, oldest first."""

    span: Span
    """Length of the span."""
    step_s: int
    """Seconds that a point covers."""
    at: list[str]
    """Start of each point; the last point is still growing."""
    ended: list[int]
    """Runs that ended."""
    succeeded: list[int]
    """Runs that succeeded."""
    failed: list[int]
    """Runs that failed."""
    lost: list[int]
    """Runs that were lost."""
    lateness_ms: QuantilesSchema
    """Delay between due time and start."""
    duration_ms: QuantilesSchema
    """Duration of runs."""


def series_schema(span: Span, points: Sequence[tuple[datetime, Tally]]) -> SeriesSchema:
    tallies = [tally for _, tally in points]
    return {
        "span": span,
        "step_s": int(span.step.total_seconds()),
        "at": [iso(at) for at, _ in points],
        "ended": [tally.ended for tally in tallies],
        "succeeded": [tally.states[RunState.SUCCEEDED] for tally in tallies],
        "failed": [tally.states[RunState.FAILED] for tally in tallies],
        "lost": [tally.states[RunState.LOST] for tally in tallies],
        "lateness_ms": _quantiles([tally.lateness for tally in tallies]),
        "duration_ms": _quantiles([tally.duration for tally in tallies]),
    }


def _quantiles(counts: Sequence[dict[int, int]]) -> QuantilesSchema:
    def column(share: float) -> list[float | None]:
        found = [quantile_ms(one, share) for one in counts]
        return [None if value is None else round(value, 1) for value in found]

    return {"p50": column(0.5), "p95": column(0.95), "p99": column(0.99)}
