"""The nodes, the cluster and its sweep."""

from __future__ import annotations

from datetime import timedelta

from cronflow.domain.cluster import Member
from cronflow.domain.sweep import SweepReport
from cronflow.service import ClusterStatus
from cronflow.shapes.plain import Shape, iso, optional_iso


def node_state(member: Member, heartbeat: timedelta) -> str:
    """up, draining, or stale: two heartbeats are missing, so it gets no work."""
    if member.draining:
        return "draining"
    return "stale" if member.age > 2 * heartbeat else "up"


def node_shape(member: Member, leader: str | None, heartbeat: timedelta) -> Shape:
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
    }


def cluster_shape(namespace: str, status: ClusterStatus, heartbeat: timedelta) -> Shape:
    """The cluster. Without a leader `leader` and `lease_left_s` are null and `term` is the last one."""
    return {
        "namespace": namespace,
        "term": status.term,
        "leader": status.leader,
        "lease_left_s": None if status.lease_left_s is None else round(status.lease_left_s, 3),
        "elected_at": None if status.record is None or status.leader is None else iso(status.record.elected_at),
        "nodes": [node_shape(member, status.leader, heartbeat) for member in status.members],
        "queue": queue_shape(status),
        "sweep": None if status.sweep is None else sweep_shape(status.sweep),
    }


def sweep_shape(report: SweepReport) -> Shape:
    """A sweep. `found` counts all findings, of which `findings` has the first hundred."""
    return {
        "at": iso(report.at),
        "run": report.run,
        "took_ms": report.took_ms,
        "checked": dict(report.checked),
        "found": report.found,
        "findings": [
            {"kind": one.kind.value, "where": one.where, "what": one.what, "repaired": one.repaired}
            for one in report.findings
        ],
    }


def queue_shape(status: ClusterStatus) -> dict[str, int]:
    """The nodes' lists together: `queued` wait in them, `room` is how many more runs could be given out now."""
    members = status.members
    return {
        "queued": sum(member.queued for member in members),
        "in_flight": sum(member.report.in_flight for member in members),
        "slots": sum(member.report.slots for member in members),
        "room": sum(max(member.room, 0) for member in members),
    }
