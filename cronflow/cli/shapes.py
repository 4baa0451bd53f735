"""What scripts read: jobs, runs, nodes and the cluster as plain values with the field names of the interface.

The rule: a field is there for every object of its kind, and is null where there is no value; instants are ISO 8601 in
UTC, lengths of time say their unit in their name. It shows and decides nothing.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from cronflow.cli.times import iso, milliseconds, optional_iso

if TYPE_CHECKING:
    from cronflow.domain.cluster import Member
    from cronflow.domain.job import JobRecord, Pend
    from cronflow.domain.placement import Placement
    from cronflow.domain.run import Attempt, Covers, Resolution, Run
    from cronflow.domain.sweep import SweepReport
    from cronflow.ports import LateResult, LogLine
    from cronflow.service import ClusterStatus

Shape = dict[str, object]


def job_state(record: JobRecord) -> str:
    """active, paused, disabled, done (it will not fire again) or by_hand."""
    if not record.job.enabled:
        return "disabled"
    if record.paused:
        return "paused"
    if record.job.schedule is None:
        return "by_hand"
    return "done" if record.next_fire is None else "active"


def job_shape(record: JobRecord) -> Shape:
    """The job's document with every default, and beside it what the cluster keeps of it."""
    from cronflow.documents import job_document

    return {
        **job_document(record.job),
        "state": job_state(record),
        "paused": record.paused,
        "next_fire": optional_iso(record.next_fire),
        "due_at": optional_iso(record.due_at),
        "pend": None if record.pend is None else _pend(record.pend),
        "version": record.ver,
        "revision": record.rev,
        "term": record.term,
        "created_at": iso(record.created_at),
        "updated_at": iso(record.updated_at),
    }


def _pend(pend: Pend) -> Shape:
    return {
        "fire": iso(pend.fire),
        "state": pend.state.value,
        "node": pend.node,
        "fence": pend.fence,
        "reason": pend.reason,
        "covers": _covers(pend.covers),
        "at": iso(pend.at),
    }


def run_shape(run: Run) -> Shape:
    """A run."""
    return {
        "id": run.id,
        "job": run.job,
        "fire_at": iso(run.fire_at),
        "kind": run.kind.value,
        "state": run.state.value,
        "attempt": run.attempt,
        "max_attempts": run.max_attempts,
        "fence": run.fence,
        "term": run.term,
        "node": run.node,
        "created_at": iso(run.created_at),
        "dispatched_at": optional_iso(run.dispatched_at),
        "started_at": optional_iso(run.started_at),
        "ended_at": optional_iso(run.ended_at),
        "check_at": optional_iso(run.check_at),
        "lateness_ms": milliseconds(run.lateness),
        "duration_ms": milliseconds(run.duration),
        "outcome": None if run.outcome is None else run.outcome.value,
        "reason": run.reason,
        "cancel_requested": run.cancel_requested,
        "cancel_reason": run.cancel_reason,
        "cancel_by": run.cancel_by,
        "result": run.result,
        "error": run.error,
        "args": None if run.args is None else dict(run.args),
        "attempts": [_attempt(attempt) for attempt in run.attempts],
        "covers": _covers(run.covers),
        "placement": None if run.placement is None else _placement(run.placement),
        "blocked_by": run.blocked_by,
        "replay_of": run.replay_of,
        "dead": run.is_dead,
        "resolution": None if run.resolution is None else _resolution(run.resolution),
    }


def _placement(placement: Placement) -> Shape:
    others = [
        {"node": node, "reason" if isinstance(standing, str) else "rank": standing}
        for node, standing in placement.others
    ]
    return {"node": placement.node, "rank": placement.rank, "others": others, "more": placement.more}


def _resolution(resolution: Resolution) -> Shape:
    return {
        "how": resolution.how.value,
        "at": iso(resolution.at),
        "by": resolution.by or None,
        "note": resolution.note or None,
        "run": resolution.run,
    }


def late_shape(late: LateResult) -> Shape:
    """An outcome that came too late."""
    return {
        "at": iso(late.at),
        "node": late.node,
        "fence": late.fence,
        "outcome": late.ending.outcome.value,
        "result": late.ending.result,
        "error": late.ending.error,
    }


def attempt_length(attempt: Attempt) -> timedelta | None:
    """From its start to its end."""
    return None if attempt.started_at is None else attempt.ended_at - attempt.started_at


def _attempt(attempt: Attempt) -> Shape:
    return {
        "n": attempt.n,
        "fence": attempt.fence,
        "node": attempt.node,
        "started_at": optional_iso(attempt.started_at),
        "ended_at": iso(attempt.ended_at),
        "duration_ms": milliseconds(attempt_length(attempt)),
        "outcome": attempt.outcome.value,
        "error": attempt.error,
    }


def _covers(covers: Covers | None) -> Shape | None:
    if covers is None:
        return None
    return {"first": iso(covers.first), "last": iso(covers.last), "count": covers.count}


def log_shape(line: LogLine) -> Shape:
    """A line that a run wrote."""
    return {
        "run": line.run,
        "job": line.job,
        "attempt": line.attempt,
        "fence": line.fence,
        "n": line.n,
        "at": iso(line.at),
        "level": line.level,
        "text": line.text,
    }


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
