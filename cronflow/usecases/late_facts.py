"""Reads what was recorded around a run that started late, for `domain.late_start`. Every query is bounded."""

from __future__ import annotations

from datetime import datetime

from cronflow.domain.events import RecordedEvent, cursor_of
from cronflow.domain.job import Job, Overlap
from cronflow.domain.late_start import LateFacts
from cronflow.domain.run import Kind, Run
from cronflow.ports import Backends, EventStore, RunQuery

LEADERS = frozenset({"leader_elected", "leader_stepped_down"})
MAINTENANCE = frozenset({"maintenance_started", "maintenance_ended"})
MOST_EVENTS = 200
MOST_RUNS = 20


async def read_late_facts(backends: Backends, run: Run, job: Job, now: datetime) -> LateFacts:
    """The elections, the maintenance and the holder of the job's lock between the instant of the run and its start."""
    due = run.created_at if run.kind is Kind.MANUAL else run.fire_at
    return LateFacts(
        events=await _events(backends.events, due),
        lock=await _lock(backends, run, now) if job.overlap is not Overlap.ALLOW else None,
        limited=job.has_limits,
    )


async def _events(events: EventStore, due: datetime) -> list[RecordedEvent]:
    """The last ones before the instant, which are the state at it, and those after it."""
    at = cursor_of(due)
    before = [
        *await events.find(kinds=LEADERS, before=at, limit=2),
        *await events.find(kinds=MAINTENANCE, before=at, limit=1),
    ]
    after = await events.find(kinds=LEADERS | MAINTENANCE, after=at, limit=MOST_EVENTS)
    return sorted([*before, *after], key=lambda one: one.id)


async def _lock(backends: Backends, run: Run, now: datetime) -> tuple[str, datetime] | None:
    """The last run of the job that ended between the dispatch of this one and its start, and was running before."""
    start = next((one.started_at for one in run.attempts if one.started_at is not None), run.started_at)
    sent = run.dispatched_at
    if sent is None or start is None or start <= sent:
        return None
    found = [
        (other.id, other.ended_at)
        for other in await backends.runs.find(RunQuery(job=run.job, until=start, limit=MOST_RUNS))
        if other.id != run.id
        and other.started_at is not None
        and other.ended_at is not None
        and other.started_at < sent < other.ended_at <= start
    ]
    return max(found, key=lambda one: one[1], default=None)
