"""The settler: finishes what a plan note announced and its author did not.

For each note of an older term, or older than ten seconds: it writes the term into each job that the note names, so
that every move computed before the note can no longer land; then it inserts the run of the job's `pend` if it is
missing; then it deletes the note. The first write is what makes this safe: a move by the author either landed before
it, and then its `pend` is in the document that comes back, or it never lands.
"""

from __future__ import annotations

from datetime import timedelta

import structlog

from cronflow.domain.cluster import Tenure
from cronflow.domain.job import JobRecord
from cronflow.domain.planning import run_of_pend
from cronflow.domain.run import run_id
from cronflow.node.elector import Elector
from cronflow.node.loop import Wake
from cronflow.node.timings import Timings
from cronflow.ports import Backends, Clock

IDLE_S = 5.0

log = structlog.get_logger("cronflow.node")


class Settler:
    """The settler role."""

    def __init__(self, backends: Backends, elector: Elector, clock: Clock, timings: Timings) -> None:
        self._backends = backends
        self._elector = elector
        self._clock = clock
        self._timings = timings
        self.wake = Wake()

    async def step(self) -> float:
        """One round, every second."""
        tenure = self._elector.tenure
        if tenure is None:
            return IDLE_S
        backends = self._backends
        for note in await backends.plans.left_behind(tenure.term, timedelta(seconds=self._timings.plan_age)):
            fenced = await backends.jobs.fence(note.jobs, tenure.term)
            others = set(note.jobs) - {record.name for record in fenced}
            if others and any(record.term > tenure.term for record in await backends.jobs.get(others)):
                self._elector.deposed("a job was moved by a newer term")
                return IDLE_S
            inserted = await self._insert_pends(tenure, fenced)
            await backends.plans.remove([note.id])
            log.warning("plan settled", plan=note.id, jobs=len(note.jobs), runs_inserted=inserted, term=tenure.term)
        return self._timings.reconcile

    async def _insert_pends(self, tenure: Tenure, records: list[JobRecord]) -> int:
        now = self._clock.now()
        pending = {run_id(record.name, record.pend.fire): record for record in records if record.pend is not None}
        missing = pending.keys() - await self._backends.runs.existing(pending)
        runs = [
            run_of_pend(record, record.pend, tenure.term, now, check_at=now)
            for run, record in pending.items()
            if run in missing and record.pend is not None
        ]
        return len(await self._backends.runs.insert(runs)) if runs else 0
