"""Chains: marks of followed runs, and joins."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from operator import attrgetter

from cronflow.domain.chain import RunEnd
from cronflow.domain.following import JoinRecord
from cronflow.domain.job import Job, JobRecord
from cronflow.testing.memory.documents import DocumentPort


class MemoryChainStore(DocumentPort, port="chains"):
    async def follow(self, jobs: Collection[str]) -> None:
        for name in jobs:
            self.documents.jobs.replace_if(
                name,
                lambda record: not record.followed,
                lambda record: replace(record, followed=True, rev=record.rev + 1),
            )

    async def followers(self, jobs: Collection[str]) -> list[JobRecord]:
        wanted = set(jobs)
        return [record for record in self._following() if wanted & {one.job for one in record.job.after}]

    async def following(self) -> list[Job]:
        return [record.job for record in self._following()]

    def _following(self) -> list[JobRecord]:
        return [record for record in self.documents.jobs.values() if record.deleted_at is None and record.job.after]

    async def graph_version(self) -> int:
        return self.documents.graph_version

    async def graph_changed(self) -> None:
        self.documents.graph_version += 1

    async def ended(self, limit: int) -> list[RunEnd]:
        ends = [
            RunEnd(run.id, run.job, run.state, run.fire_at, run.ended_at, run.chain)
            for run in self.documents.runs.values()
            if run.followed and not run.is_open and run.ended_at is not None
        ]
        return sorted(ends, key=attrgetter("ended_at", "run"))[:limit]

    async def answered(self, runs: Collection[str]) -> None:
        for name in runs:
            self.documents.runs.replace_if(name, lambda run: not run.is_open, lambda run: replace(run, followed=False))

    async def marked(self, runs: Collection[str]) -> set[str]:
        return {run.id for run in self.documents.runs.pick(runs) if run.followed and not run.is_open}

    async def joins(self, ids: Collection[str]) -> list[JoinRecord]:
        return [join for join, _ in self.documents.joins.pick(ids)]

    async def joins_of(self, job: str, limit: int) -> list[JoinRecord]:
        found = [join for join, _ in self.documents.joins.values() if join.job == job and join.waits]
        return sorted(found, key=attrgetter("id"))[:limit]

    async def due_joins(self, now: datetime, limit: int) -> list[JoinRecord]:
        found = [join for join, _ in self.documents.joins.values() if join.due_at and join.due_at <= now]
        return sorted(found, key=attrgetter("due_at"))[:limit]

    async def write_join(self, join: JoinRecord) -> bool:
        written = replace(join, rev=join.rev + 1), self.clock.now()
        if not join.rev:
            return self.documents.joins.insert(join.id, written)
        return self.documents.joins.replace_if(join.id, lambda pair: pair[0].rev == join.rev, lambda _: written)

    async def forget_joins(self, written_before: datetime, limit: int) -> int:
        old = [
            join.id
            for join, at in self.documents.joins.values()
            if at < written_before and (join.chain is not None or not join.waits)
        ][:limit]
        self.documents.joins.delete(old)
        return len(old)

    async def forget_joins_of(self, job: str) -> None:
        self.documents.joins.delete_where(lambda pair: pair[0].job == job)
