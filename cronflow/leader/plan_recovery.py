"""Plan recovery: finishes plan intents that their author left behind.

For each intent of an older term, or older than ten seconds, it writes its own term into each job of the intent, so that
moves computed earlier can no longer apply. Then it inserts the run of each job's `pending_run` if it is missing, and
deletes the intent. The first write makes this safe: a move by the author either applied before it, and then the
returned document has its `pending_run`, or it never applies.
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
        tenure = self._elector.tenure
        if tenure is None:
            return IDLE_S
        age = timedelta(seconds=self._timings.plan_age)
        for intent in await self._plans.left_behind(tenure.term, age):
            now = self._clock.now()
            if not await recover(self._jobs, self._plans, self._runs, intent, tenure.term, now, self._emit):
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
    """Finish an intent under this term. Returns False, and leaves the intent, when a newer term has written a job."""
    fenced = await jobs.fence(intent.jobs, term)
    others = set(intent.jobs) - {record.name for record in fenced}
    if others and any(record.term > term for record in await jobs.get(others)):
        return False
    inserted = await insert_pending_runs(runs, fenced, term, now)
    await plans.remove([intent.id])
    log.warning("plan recovered", plan=intent.id, jobs=len(intent.jobs), runs_inserted=len(inserted), term=term)
    emit(PlanRecovered(intent.id, len(intent.jobs), len(inserted)))
    return True


async def insert_pending_runs(store: RunStore, records: Sequence[JobRecord], term: int, now: datetime) -> set[str]:
    """Insert the missing runs of the records' `pending_run`s. Returns their ids."""
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
