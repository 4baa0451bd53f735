"""The load of a soak: jobs whose instants lie on a grid, so that every instant that falls due can be counted."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.job import Job, JobRecord, Misfire, MisfirePolicy, Overlap, PythonTarget
from cronflow.domain.planning import first_fire
from cronflow.domain.schedule.kinds import Every, Once
from cronflow.usecases import UseCases

PREFIX = "soak-"
DIGITS = 7
AT_ONCE = 1000
CREATORS = 2
TRIES, RETRY_S = 5, 6.0
"""The circuit breaker of MongoDB closes after five seconds."""
CHECKED = 100
"""How many of the jobs that were written straight into the store are compared with what `apply` would store."""


@dataclass(frozen=True, slots=True)
class Load:
    """`jobs` jobs that fire every `step_s` seconds, for `seconds` seconds. The instants of job k begin `k % spread_s`
    seconds after the start, with `spread_s <= step_s`. With `once` every job fires once, at the start.
    """

    name: str
    jobs: int
    step_s: int
    seconds: int
    spread_s: int = 1
    once: bool = False

    @property
    def instants(self) -> int:
        """How many instants fall due, of all jobs."""
        return sum(self.due_at(second) for second in range(self.seconds))

    def due_at(self, second: int) -> int:
        """How many jobs fall due so many seconds after the start."""
        if (self.once and second) or second % self.step_s >= self.spread_s:
            return 0
        whole, rest = divmod(self.jobs, self.spread_s)
        return whole + (second % self.step_s < rest)

    def job(self, k: int, start: datetime) -> Job:
        """The k-th job, with arguments of its own as in a system with a job for each customer."""
        first = start + timedelta(seconds=k % self.spread_s)
        return Job(
            name=f"{PREFIX}{k:0{DIGITS}}",
            target=PythonTarget("tests.bench.jobs:serve", {"customer": k}),
            schedule=Once(first) if self.once else Every(self.step_s, anchor=first, start=first),
            overlap=Overlap.ALLOW,
            # After an interruption every instant still has a run of its own.
            misfire=Misfire(MisfirePolicy.CATCH_UP, max_catch_up=1000),
        )

    def all_jobs(self, start: datetime) -> Iterator[Job]:
        return (self.job(k, start) for k in range(self.jobs))


async def register(service: UseCases, load: Load, start: datetime) -> None:
    """Store the jobs. Applying a million of them would take minutes, so `apply` stores the first, and the others are
    copies of its record with their own definition and cursor. RuntimeError unless `apply` finds a sample unchanged.
    """
    jobs = load.all_jobs(start)
    first = next(jobs)
    await service.jobs.apply([first])
    (template,) = await service.backends.jobs.get([first.name])

    async def create() -> None:
        while batch := list(itertools.islice(jobs, AT_ONCE)):
            fires = ((job, first_fire(job, template.created_at)) for job in batch)
            records = [replace(template, job=job, next_fire=fire, due_at=fire, since=fire) for job, fire in fires]
            await _create(service, records)

    await asyncio.gather(*(create() for _ in range(CREATORS)))
    await check_stored(service, load, start)


async def _create(service: UseCases, records: Sequence[JobRecord]) -> None:
    """Try again if MongoDB takes too long. Records that exist are left alone."""
    for _ in range(TRIES):
        try:
            await service.backends.jobs.create_all(records)
            return
        except BackendUnavailable:
            await asyncio.sleep(RETRY_S)
    await service.backends.jobs.create_all(records)


async def check_stored(service: UseCases, load: Load, start: datetime) -> None:
    """RuntimeError unless `apply` finds a sample of the stored jobs unchanged."""
    sample = [load.job(k, start) for k in range(0, load.jobs, max(1, load.jobs // CHECKED))]
    results = await service.jobs.apply(sample)
    if changed := [name for name, result in results if result != "unchanged"]:
        raise RuntimeError(f"{len(changed)} jobs differ from those that apply stores, for example {changed[0]}")
