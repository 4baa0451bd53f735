"""The nodes, the cluster and its sweep."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import Literal, get_args

from cronflow.domain.cluster import ClusterStatus, Member
from cronflow.domain.sweep import Flaw, SweepReport
from cronflow.schemas.base import Schema, iso, optional_iso

NodeState = Literal["up", "draining", "stale"]


class SpoolSchema(Schema):
    """What waits on a disk for MongoDB."""

    outcomes: int
    """How many outcomes."""
    bytes: int
    """How large they are."""
    since: str | None
    """Since when there have been any."""


class NodeSchema(Schema):
    """A node that is up."""

    name: str
    """Its name."""
    id: str
    """`<name>#<incarnation>`."""
    roles: list[Literal["leader", "worker"]]
    """What it does."""
    state: NodeState
    """`draining`: it gets no more work; `stale`: two heartbeats are missing."""
    cpu: float
    """The part of its CPUs that is in use."""
    memory: float
    """The part of its memory that is in use."""
    slots: int
    """How many runs it takes at the same time."""
    in_flight: int
    """How many it runs."""
    queued: int
    """How many wait in its list."""
    held: int
    """How many it has taken and not ended."""
    rate: float
    """How many it ends in a second."""
    heartbeat_age_s: float
    """How old its last report is."""
    labels: dict[str, str]
    """What jobs may require."""
    version: str
    """Of CronFlow."""
    host: str
    """The machine."""
    pid: int
    """The process."""
    started_at: str | None
    """When it was started."""
    breakers: dict[str, str]
    """The states of its circuits by service: MongoDB's, and those of hosts that are not closed."""
    spool: SpoolSchema
    """Outcomes that wait on its disk for MongoDB."""
    zones: str
    """The version of its time zone data."""
    drained: bool
    """Whether it knows that it is to be drained, and has nothing left."""


class NodeDetailSchema(NodeSchema):
    """A node, and what it runs."""

    runs: list[str]
    """What it holds."""


class DrainSchema(Schema):
    """A node that is to take no more work."""

    name: str
    """The node."""
    draining: Literal[True]
    """So it is."""
    drained: bool
    """Whether it has nothing left."""


class UndrainSchema(Schema):
    """A node that takes work again."""

    name: str
    """The node."""
    draining: Literal[False]
    """So it is."""
    up: bool
    """Whether such a node is up now."""


class QueueSchema(Schema):
    """The nodes' lists together."""

    queued: int
    """Runs that wait in them."""
    in_flight: int
    """Runs that are running."""
    slots: int
    """How many can run at the same time."""
    capacity: int
    """How many more could be given out now."""


class FindingSchema(Schema):
    """Something that must not be."""

    kind: Flaw
    """What kind of flaw."""
    where: str
    """The record."""
    what: str
    """What is wrong with it."""
    repaired: bool
    """Whether the sweep has put it right."""


class SweepSchema(Schema):
    """What a sweep looked at and found."""

    at: str
    """When."""
    run: str
    """Its run."""
    took_ms: int
    """For how long."""
    checked: dict[str, int]
    """How many records of each kind."""
    found: int
    """All findings."""
    findings: list[FindingSchema]
    """The first hundred of them."""


class ClusterSchema(Schema):
    """The cluster at a glance."""

    namespace: str
    """Its name."""
    term: int
    """The number of the tenure; without a leader the last one."""
    leader: str | None
    """The node that leads."""
    lease_left_s: float | None
    """How long its lead still lasts unless it renews it."""
    elected_at: str | None
    """Since when it leads."""
    nodes: list[NodeSchema]
    """The nodes that are up, by name."""
    queue: QueueSchema
    """Their lists together."""
    sweep: SweepSchema | None
    """The last sweep."""


class SettingsSchema(Schema):
    """What of the settings of the cluster its clients go by."""

    namespace: str
    """The name of the cluster."""
    heartbeat_ms: int
    """How often a node reports."""
    retry_max: int
    """How often what fails is tried again, where a job does not say."""
    retry_initial_ms: int
    """How long after the first failure, where a job does not say."""
    retry_multiplier: float
    """How much longer after each other one, where a job does not say."""
    version: str
    """Of the API."""
    chaos: bool
    """Whether an admin may break parts of it on purpose, which `cronflow dev` alone offers."""


class StepdownSchema(Schema):
    """A leader that was asked to step down."""

    asked: str
    """The node."""
    term: int
    """Its term."""


def node_state(member: Member, heartbeat: timedelta) -> NodeState:
    """up, draining, or stale: two heartbeats are missing, so it gets no work."""
    if member.draining:
        return "draining"
    return "stale" if member.age > 2 * heartbeat else "up"


def nodes_by_state(members: Iterable[Member], heartbeat: timedelta) -> dict[str, int]:
    """How many are in each state, those that nobody is in too."""
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
    }


def node_detail_schema(
    member: Member, runs: Collection[str], leader: str | None, heartbeat: timedelta
) -> NodeDetailSchema:
    """A node, and what it runs."""
    return {**node_schema(member, leader, heartbeat), "runs": sorted(runs)}


def drain_schema(name: str, member: Member | None) -> DrainSchema:
    """A node that is to take no more work; one that is gone has nothing left either."""
    return {"name": name, "draining": True, "drained": member is None or member.drained}


def undrain_schema(name: str, member: Member | None) -> UndrainSchema:
    """A node that takes work again."""
    return {"name": name, "draining": False, "up": member is not None}


def cluster_schema(namespace: str, status: ClusterStatus, heartbeat: timedelta) -> ClusterSchema:
    """The cluster. Without a leader `leader` and `lease_left_s` are null and `term` is the last one."""
    return {
        "namespace": namespace,
        "term": status.term,
        "leader": status.leader,
        "lease_left_s": None if status.lease_left_s is None else round(status.lease_left_s, 3),
        "elected_at": optional_iso(status.elected_at),
        "nodes": [node_schema(member, status.leader, heartbeat) for member in status.members],
        "queue": queue_schema(status),
        "sweep": None if status.sweep is None else sweep_schema(status.sweep),
    }


def sweep_schema(report: SweepReport) -> SweepSchema:
    """A sweep. `found` counts all findings, of which `findings` has the first hundred."""
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
    """The nodes' lists together: `queued` wait in them, `capacity` is how many more runs could be given out now."""
    members = status.members
    return {
        "queued": sum(member.queued for member in members),
        "in_flight": sum(member.report.in_flight for member in members),
        "slots": sum(member.report.slots for member in members),
        "capacity": capacity_of(members),
    }


def capacity_of(members: Iterable[Member]) -> int:
    """How many more runs could be given out now. A node that ends many a second is given more than it has slots; who
    reads `capacity` beside `slots` is told no more than those.
    """
    return sum(min(max(member.capacity, 0), member.report.slots) for member in members)
