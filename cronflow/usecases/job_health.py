"""Reads which jobs need attention: a bounded number of documents, whatever the number of jobs and runs."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import chain

from cronflow.domain.events import RunLong
from cronflow.domain.job import SYSTEM_PREFIX, JobRecord
from cronflow.domain.job_health import (
    LATEST_RUNS,
    MOST_CONDITIONS,
    STUCK_AFTER,
    HealthReport,
    JobCondition,
    JobHealth,
    failing,
    judged_until,
    long_run,
    overdue,
    stuck_fire,
    stuck_run,
)
from cronflow.ports import Backends, Clock

DEFERRED = timedelta(seconds=5)
"""The planner defers a job by at most this."""
FAILED_SINCE = timedelta(days=30)
LONG_SINCE = timedelta(days=2)
MOST_LONG = 200
KEPT_S = 2.0

Read = Sequence[Sequence[JobCondition | None]]
"""What each bounded query found; None: a document that is no condition."""


class JobHealthReader:
    """Several requests within two seconds share one reading."""

    def __init__(self, backends: Backends, clock: Clock) -> None:
        self._backends = backends
        self._clock = clock
        self._lock = asyncio.Lock()
        self._kept: tuple[float, HealthReport] | None = None

    async def report(self) -> HealthReport:
        """All conditions."""
        async with self._lock:
            now = self._clock.monotonic()
            if self._kept is None or now - self._kept[0] > KEPT_S:
                self._kept = now, await self.read(tuple(JobHealth))
            return self._kept[1]

    async def read(self, kinds: Collection[JobHealth]) -> HealthReport:
        """The conditions of these kinds, of all jobs but system jobs, the longest first."""
        now = self._clock.now()
        readers = {
            JobHealth.STUCK: self._stuck,
            JobHealth.OVERDUE: self._overdue,
            JobHealth.FAILING: self._failing,
            JobHealth.PAUSED: self._paused,
            JobHealth.NEVER_RAN: self._never_ran,
        }
        wanted = [health for health in JobHealth if health in kinds]
        found = await asyncio.gather(*(readers[health](now) for health in wanted))
        by_health = dict(zip(wanted, found, strict=True))
        return HealthReport(
            {health: _by_job(chain.from_iterable(read)) for health, read in by_health.items()},
            {health for health, read in by_health.items() if any(len(one) >= MOST_CONDITIONS for one in read)},
        )

    async def _overdue(self, now: datetime) -> Read:
        mode = await self._backends.control.maintenance()
        until = judged_until(now, mode if mode is not None and mode.holds(now) else None)
        held, late, holder = await asyncio.gather(
            self._backends.job_health.held_back(MOST_CONDITIONS),
            self._backends.alert_conditions.behind(until, now + DEFERRED, MOST_CONDITIONS),
            self._backends.election.holder(),
        )
        return [[overdue(record, until, led=holder is not None) for record in read] for read in (late, held)]

    async def _stuck(self, now: datetime) -> Read:
        since = now - STUCK_AFTER
        records, runs, long = await asyncio.gather(
            self._backends.job_health.waiting_for_node(since, MOST_CONDITIONS),
            self._backends.alert_conditions.unplaced(since, MOST_CONDITIONS),
            self._long(now),
        )
        return [[stuck_fire(record, now) for record in records], [stuck_run(run, now) for run in runs], long]

    async def _long(self, now: datetime) -> list[JobCondition | None]:
        """The leader emits an event for each run that takes longer than usual."""
        events = await self._backends.events.find(kinds={"run_long"}, since=now - LONG_SINCE, limit=MOST_LONG)
        usual = {one.event.run: one.event.usual for one in events if isinstance(one.event, RunLong)}
        runs = await self._backends.runs.get(usual) if usual else []
        return [long_run(run, usual[run.id]) for run in runs]

    async def _failing(self, now: datetime) -> Read:
        found = await self._backends.job_health.failing(now - FAILED_SINCE, MOST_CONDITIONS, LATEST_RUNS)
        return [[failing(job, latest) for job, latest in found.items()]]

    async def _paused(self, now: datetime) -> Read:
        return [[_paused(record) for record in await self._backends.job_health.paused(MOST_CONDITIONS)]]

    async def _never_ran(self, now: datetime) -> Read:
        found = await self._backends.job_health.never_ran(MOST_CONDITIONS)
        health, reason = JobHealth.NEVER_RAN, "has no run yet"
        return [[JobCondition(job=one.job, health=health, since=one.created_at, reason=reason) for one in found]]


def _paused(record: JobRecord) -> JobCondition:
    since = record.updated_at if record.pause is None else record.pause.at
    reason = "paused" if record.pause is None or not record.pause.note else f"paused: {record.pause.note}"
    return JobCondition(job=record.name, health=JobHealth.PAUSED, since=since, reason=reason)


def _by_job(found: Iterable[JobCondition | None]) -> list[JobCondition]:
    """One for each job, that which has lasted longest."""
    ordered = sorted((one for one in found if one is not None), key=lambda one: (one.since, one.job))
    first: dict[str, JobCondition] = {}
    for one in ordered:
        if not one.job.startswith(SYSTEM_PREFIX):
            first.setdefault(one.job, one)
    return list(first.values())
