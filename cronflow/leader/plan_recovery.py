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
from cronflow.ports import Clock, EventSink, JobStore, PlanStore, RunStore, discard_event

IDLE_S = 5.0

log = structlog.get_logger("cronflow.node")


class PlanRecovery:
    """The settler role."""

    def __init__(
        self,
        jobs: JobStore,
        plans: PlanStore,
        runs: RunStore,
        elector: Elector,
        clock: Clock,
        timings: Timings,
        emit: EventSink = discard_event,
    ) -> None:
        self._jobs, self._plans, self._runs = jobs, plans, runs
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
        for note in await self._plans.left_behind(tenure.term, age):
            recovered = await recover(
                self._jobs, self._plans, self._runs, note, tenure.term, self._clock.now(), self._emit
            )
            if not recovered:
                self._elector.deposed("a job was moved by a newer term")
                return IDLE_S
        return self._timings.reconcile


async def recover(
    jobs: JobStore,
    plans: PlanStore,
    runs: RunStore,
    intent: PlanIntent,
    term: int,
    now: datetime,
    emit: EventSink = discard_event,
) -> bool:
    """Finish what the note announces, in the name of a term. False when a job of it belongs to a newer one: then the
    note stays, for that term's settler.
    """
    fenced = await jobs.fence(intent.jobs, term)
    others = set(intent.jobs) - {record.name for record in fenced}
    if others and any(record.term > term for record in await jobs.get(others)):
        return False
    inserted = await insert_pending_runs(runs, fenced, term, now)
    await plans.remove([intent.id])
    log.warning("plan settled", plan=intent.id, jobs=len(intent.jobs), runs_inserted=len(inserted), term=term)
    emit(PlanRecovered(intent.id, len(intent.jobs), len(inserted)))
    return True


async def insert_pending_runs(store: RunStore, records: Sequence[JobRecord], term: int, now: datetime) -> set[str]:
    """Insert the run of each `pending_run` where it is missing. Returns the ids of those."""
    pending = {
        run_id(record.name, record.pending_run.fire): record for record in records if record.pending_run is not None
    }
    missing = pending.keys() - await store.existing(pending)
    runs = [
        run_of_pending(record, record.pending_run, term, now, check_at=now)
        for run, record in pending.items()
        if run in missing and record.pending_run is not None
    ]
    return await store.insert(runs) if runs else set()
