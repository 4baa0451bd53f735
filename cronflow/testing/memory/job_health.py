"""The health of jobs, over the documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from cronflow.domain.catch_up import HELD
from cronflow.domain.job import JobRecord
from cronflow.domain.job_health import EndedRun, lacks_node
from cronflow.domain.run import DEAD, Kind, Run, RunState
from cronflow.ports import NeverRan
from cronflow.testing.memory.documents import DocumentPort


class MemoryJobHealthStore(DocumentPort, port="job_health"):
    async def waiting_for_node(self, since: datetime, limit: int) -> list[JobRecord]:
        return [
            record
            for record in self.documents.jobs.values()
            if record.active and record.waiting and record.waiting.since <= since and lacks_node(record.waiting)
        ][:limit]

    async def held_back(self, limit: int) -> list[JobRecord]:
        return [
            record
            for record in self.documents.jobs.values()
            if record.active and record.waiting and record.waiting.reason == HELD
        ][:limit]

    async def failing(self, since: datetime, limit: int, latest: int) -> Mapping[str, Sequence[EndedRun]]:
        ended = self.documents.runs.page(
            lambda run: (run.fire_at, run.id),
            lambda run: run.state in {*DEAD, RunState.SUCCEEDED} and run.kind is not Kind.PART,
            newest=True,
        )
        failed = [run.job for run in ended if run.state in DEAD and run.fire_at >= since]
        present = [job for job in dict.fromkeys(failed) if job in self.documents.jobs and not self._gone(job)]
        return {job: [_ended(run) for run in ended if run.job == job][:latest] for job in present[:limit]}

    async def paused(self, limit: int) -> list[JobRecord]:
        return [one for one in self.documents.jobs.values() if one.paused and one.deleted_at is None][:limit]

    async def never_ran(self, limit: int) -> list[NeverRan]:
        ran = {run.job for run in self.documents.runs.values()}
        return [
            NeverRan(one.name, one.created_at)
            for one in self.documents.jobs.values()
            if one.pending_run is None and one.deleted_at is None and one.name not in ran
        ][:limit]

    def _gone(self, job: str) -> bool:
        return self.documents.jobs[job].deleted_at is not None


def _ended(run: Run) -> EndedRun:
    return EndedRun(run.id, run.state, run.fire_at, run.ended_at, run.error)
