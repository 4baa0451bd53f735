"""A job and its versions."""

from __future__ import annotations

from cronflow.documents import job_document
from cronflow.domain.job import JobRecord, Pend
from cronflow.domain.version import Version
from cronflow.shapes.plain import Shape, iso, optional_iso
from cronflow.shapes.runs import covers_shape


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
        "covers": covers_shape(pend.covers),
        "at": iso(pend.at),
    }


def version_shape(version: Version) -> dict[str, object]:
    """A version, for scripts."""
    return {
        "version": version.ver,
        "at": iso(version.at),
        "by": version.by or None,
        "state": version.held or "active",
        "since": optional_iso(version.since),
        "job": job_document(version.job),
    }
