"""Plan recovery: finishes plan intents that their author left behind.

For each intent of an older term, or older than ten seconds, it writes its own term into each job of the intent, so that
moves computed earlier can no longer apply. Then it inserts the run of each job's `pending_run` if it is missing, and
deletes the intent. The first write makes this safe: a move by the author either applied before it, and then the
returned document has its `pending_run`, or it never applies.
"""

from __future__ import annotations

from datetime import timedelta

import structlog

from cronflow.domain.events import PlanRecovered
from cronflow.domain.job import PlanIntent
from cronflow.leader.elector import Elector
from cronflow.node.role_loop import Wake
from cronflow.node.timings import Timings
from cronflow.ports import EventSink, JobStore, PlanStore, RunStore, discard_event
from cronflow.usecases.pending_runs import insert_pending_runs

IDLE_S = 5.0

log = structlog.get_logger("cronflow.node")


class PlanRecovery:
    def __init__(
        self,
        jobs: JobStore,
        plans: PlanStore,
        runs: RunStore,
        elector: Elector,
        timings: Timings,
        emit: EventSink = discard_event,
    ) -> None:
        self._jobs, self._plans, self._runs = jobs, plans, runs
        self._elector = elector
        self._timings = timings
        self._emit = emit
        self.wake = Wake()

    async def step(self) -> float:
        tenure = self._elector.tenure
        if tenure is None:
            return IDLE_S
        age = timedelta(seconds=self._timings.plan_age)
        for intent in await self._plans.left_behind(tenure.term, age):
            if not await recover(self._jobs, self._plans, self._runs, intent, tenure.term, self._emit):
                self._elector.deposed("a job was moved by a newer term")
                return IDLE_S
        return self._timings.reconcile


async def recover(
    jobs: JobStore,
    plans: PlanStore,
    runs: RunStore,
    intent: PlanIntent,
    term: int,
    emit: EventSink = discard_event,
) -> bool:
    """Finish an intent under this term. Returns False, and leaves the intent, when a newer term has written a job."""
    fenced = await jobs.fence(intent.jobs, term)
    others = set(intent.jobs) - {record.name for record in fenced}
    if others and any(record.term > term for record in await jobs.get(others)):
        return False
    inserted = await insert_pending_runs(runs, fenced)
    await plans.remove([intent.id])
    log.warning("plan recovered", plan=intent.id, jobs=len(intent.jobs), runs_inserted=len(inserted), term=term)
    emit(PlanRecovered(intent.id, len(intent.jobs), len(inserted)))
    return True
