"""The recovery plan, and the jobs that are held for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from cronflow.domain.catch_up import HELD, CatchUpPlan, HeldJob, HeldSummary
from cronflow.domain.job import JobRecord
from cronflow.domain.placement import Waiting
from cronflow.ports.catch_up import HeldFire
from cronflow.testing.memory.documents import DocumentPort


class MemoryCatchUpStore(DocumentPort, port="catch_up"):
    async def plan(self) -> CatchUpPlan | None:
        return self.documents.catch_up

    async def write(self, plan: CatchUpPlan) -> bool:
        present = self.documents.catch_up
        if (0 if present is None else present.rev) != plan.rev:
            return False
        self.documents.catch_up = replace(plan, rev=plan.rev + 1)
        return True

    async def hold(self, fires: Mapping[str, HeldFire]) -> None:
        for name, one in fires.items():
            record = self.documents.jobs.get(name)
            if record is None or record.rev != one.rev or record.next_fire is None:
                continue
            waiting = Waiting(fire=record.next_fire, since=one.since, reason=HELD)
            self.documents.jobs[name] = replace(record, due_at=one.due_at, waiting=waiting)
            self.documents.missed[name] = one.runs

    async def held(self, limit: int, *, among: Collection[str] = (), but: Collection[str] = ()) -> list[JobRecord]:
        found = [
            record
            for record in self._held()
            if (not among or _matches(record.name, among)) and not _matches(record.name, but)
        ]
        return found[:limit]

    def _held(self) -> list[JobRecord]:
        held = [one for one in self.documents.jobs.values() if one.waiting is not None and one.waiting.reason == HELD]
        return sorted(held, key=lambda one: (-one.job.priority, one.next_fire, one.name))

    async def summary(self, top: int, *, among: Collection[str] = ()) -> HeldSummary:
        by_priority: Counter[int] = Counter()
        held = []
        for record in self._held():
            if among and not _matches(record.name, among):
                continue
            runs = self.documents.missed[record.name]
            by_priority[record.job.priority] += runs
            assert record.next_fire is not None
            held.append(HeldJob(record.name, runs, record.next_fire))
        return HeldSummary(
            jobs=len(held),
            runs=sum(one.runs for one in held),
            oldest=min((one.since for one in held), default=None),
            by_priority=dict(by_priority),
            top=tuple(sorted(held, key=lambda one: (-one.runs, one.since, one.job))[:top]),
        )


def _matches(name: str, patterns: Collection[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
