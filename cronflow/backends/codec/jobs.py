"""Jobs with their pending runs, and versions of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cronflow.backends.codec.definitions import UNBOUND, definition, pinned_job
from cronflow.backends.codec.values import Document, covers_of, placement_of, plain, waiting_of
from cronflow.domain.job import JobRecord, Pause, PendingRun
from cronflow.domain.run import Kind, RunState
from cronflow.domain.schedule.calendar import Calendar
from cronflow.domain.schedule.pins import pins_of
from cronflow.domain.version import Version


def record_document(record: JobRecord) -> Document:
    """A job's document. `active` and `priority` are stored for the planner's index."""
    document: Document = {
        "_id": record.name,
        "rev": record.rev,
        "ver": record.ver,
        "term": record.term,
        "next_fire": record.next_fire,
        "due_at": record.due_at,
        "pend": None if record.pending_run is None else pending_run_document(record.pending_run),
        "active": record.active,
        "priority": record.job.priority,
        "paused": record.paused,
        "deleted_at": record.deleted_at,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "definition": definition(record.job),
        "since": record.since,
        "edited_by": record.edited_by,
    }
    if record.waiting is not None:
        document["waiting"] = plain(record.waiting)
    if record.pause is not None:
        document["pause"] = plain(record.pause)
    if pins := pins_of(record.job.schedule):
        document["calendars"] = list(pins)
    if record.job.after:
        document["follows"] = [one.job for one in record.job.after]
    if record.followed:
        document["followed"] = True
    if record.fired:
        document["fired"] = record.fired
    if record.closed is not None:
        document["closed"] = record.closed
    return document


def record(document: Mapping[str, Any], calendars: Mapping[str, Calendar] = UNBOUND) -> JobRecord:
    """`calendars` has the revisions that the document pins."""
    pending_run = document["pend"]
    return JobRecord(
        job=pinned_job(document, calendars),
        rev=document["rev"],
        ver=document["ver"],
        term=document["term"],
        next_fire=document["next_fire"],
        due_at=document["due_at"],
        pending_run=None if pending_run is None else pending_run_of(pending_run),
        paused=document["paused"],
        deleted_at=document["deleted_at"],
        created_at=document["created_at"],
        updated_at=document["updated_at"],
        # Older releases did not store `since`; the version is known to apply from the cursor on.
        since=document.get("since", document["next_fire"]),
        edited_by=document.get("edited_by", ""),
        waiting=waiting_of(document.get("waiting")),
        pause=None if (pause := document.get("pause")) is None else Pause(**pause),
        followed=document.get("followed", False),
        fired=document.get("fired", 0),
        closed=document.get("closed"),
    )


def pending_run_document(pending_run: PendingRun) -> Document:
    """`pending_run` inside a job's document."""
    document = {
        "fire": pending_run.fire,
        "state": pending_run.state.value,
        "fence": pending_run.fence,
        "job_ver": pending_run.job_ver,
        "at": pending_run.at,
        "node": pending_run.node,
        "covers": plain(pending_run.covers),
        "reason": pending_run.reason,
    }
    if pending_run.placement is not None:
        document["placement"] = plain(pending_run.placement)
    if pending_run.blocked_by is not None:
        document["blocked_by"] = pending_run.blocked_by
    if pending_run.kind is not None:
        document["kind"] = pending_run.kind.value
    if pending_run.followed:
        document["followed"] = True
    if pending_run.waited is not None:
        document["waited"] = plain(pending_run.waited)
    return document


def pending_run_of(document: Mapping[str, Any]) -> PendingRun:
    return PendingRun(
        fire=document["fire"],
        state=RunState(document["state"]),
        fence=document["fence"],
        job_ver=document["job_ver"],
        at=document["at"],
        node=document["node"],
        covers=covers_of(document["covers"]),
        reason=document["reason"],
        kind=None if (kind := document.get("kind")) is None else Kind(kind),
        placement=placement_of(document.get("placement")),
        blocked_by=document.get("blocked_by"),
        followed=document.get("followed", False),
        waited=waiting_of(document.get("waited")),
    )


def version_document(version: Version) -> Document:
    """A version of a job. The number in the id is padded, so that ids sort like versions."""
    pins = pins_of(version.job.schedule)
    ends = {name: end for name in ("closed", "until") if (end := getattr(version, name)) is not None}
    return ({"calendars": list(pins)} if pins else {}) | {
        **ends,
        "_id": f"{version.job.name}#{version.ver:010d}",
        "ver": version.ver,
        "at": version.at,
        "since": version.since,
        "paused": version.paused,
        "deleted": version.deleted,
        "by": version.by,
        "definition": definition(version.job),
    }


def version(document: Mapping[str, Any], calendars: Mapping[str, Calendar] = UNBOUND) -> Version:
    """`calendars` has the revisions that the document pins."""
    fields = {name: document[name] for name in ("ver", "at", "since", "paused", "deleted", "by")}
    fields |= {name: document.get(name) for name in ("closed", "until")}
    return Version(job=pinned_job(document, calendars), **fields)
