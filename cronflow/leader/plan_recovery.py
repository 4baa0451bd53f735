"""The settler: finishes what a plan note announced and its author did not.

For each note of an older term, or older than ten seconds: it writes the term into each job that the note names, so
that every move computed before the note can no longer land; then it inserts the run of the job's `pending_run` if it is
missing; then it deletes the note. The first write is what makes this safe: a move by the author either landed before
it, and then its `pending_run` is in the document that comes back, or it never lands.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog

from cronflow.domain.events import PlanRecovered
from cronflow.domain.job import JobRecord, PlanIntent
from cronflow.domain.planning import run_of_pending
from cronflow.domain.run import run_id
from cronflow.leader.elector import Elector
from cronflow.node.role_loop import Wake
from cronflow.node.timings import Timings
from cronflow.ports import Backends, Clock, EventSink, discard_event

IDLE_S = 5.0

log = structlog.get_logger("cronflow.node")


class PlanRecovery:
    """The settler role."""

    def __init__(
        self, backends: Backends, elector: Elector, clock: Clock, timings: Timings, emit: EventSink = discard_event
    ) -> None:
        self._backends = backends
        self._elector = elector
        self._clock = clock
        self._timings = timings
        self._emit = emit
        self.wake = Wake()

    async def step(self) -> float:
        """One round, every second."""
        tenure = self._elector.tenure
        if tenure is None:
            return IDLE_S
        age = timedelta(seconds=self._timings.plan_age)
        for note in await self._backends.plans.left_behind(tenure.term, age):
            if not await settle(self._backends, note, tenure.term, self._clock.now(), self._emit):
                self._elector.deposed("a job was moved by a newer term")
                return IDLE_S
        return self._timings.reconcile


async def settle(
    backends: Backends, note: PlanIntent, term: int, now: datetime, emit: EventSink = discard_event
) -> bool:
    """Finish what the note announces, in the name of a term. False when a job of it belongs to a newer one: then the
    note stays, for that term's settler.
    """
    fenced = await backends.jobs.fence(note.jobs, term)
    others = set(note.jobs) - {record.name for record in fenced}
    if others and any(record.term > term for record in await backends.jobs.get(others)):
        return False
    inserted = await insert_pending_runs(backends, fenced, term, now)
    await backends.plans.remove([note.id])
    log.warning("plan settled", plan=note.id, jobs=len(note.jobs), runs_inserted=len(inserted), term=term)
    emit(PlanRecovered(note.id, len(note.jobs), len(inserted)))
    return True


async def insert_pending_runs(backends: Backends, records: Sequence[JobRecord], term: int, now: datetime) -> set[str]:
    """Insert the run of each `pending_run` where it is missing. Returns the ids of those."""
    pending = {
        run_id(record.name, record.pending_run.fire): record for record in records if record.pending_run is not None
    }
    missing = pending.keys() - await backends.runs.existing(pending)
    runs = [
        run_of_pending(record, record.pending_run, term, now, check_at=now)
        for run, record in pending.items()
        if run in missing and record.pending_run is not None
    ]
    return await backends.runs.insert(runs) if runs else set()
