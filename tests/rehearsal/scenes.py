"""Jobs and rehearsals for the tests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from cronflow.domain.job import CommandTarget, Job
from cronflow.domain.schedule.kinds import Cron, Every, Schedule
from cronflow.rehearsal.performance import perform
from cronflow.rehearsal.report import Rehearsal, RunForecast, report
from cronflow.rehearsal.scenario import RehearsedJob, Scenario

MIDNIGHT = datetime(2027, 1, 10, tzinfo=UTC)
HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
BERLIN = "Europe/Berlin"


def a_job(name: str, schedule: Schedule | None = None, **rest: Any) -> Job:
    rest.setdefault("target", CommandTarget("true"))
    return Job(name=name, schedule=schedule, **rest)


def hourly(name: str, **rest: Any) -> Job:
    return a_job(name, Cron("0 * * * *"), **rest)


def every(minutes: int, name: str = "sync", **rest: Any) -> Job:
    return a_job(name, Every(timedelta(minutes=minutes)), **rest)


def rehearsed(
    *jobs: Job,
    first: datetime = MIDNIGHT,
    length: timedelta = 4 * HOUR,
    changes: Sequence[Job] = (),
    **scenario: Any,
) -> Rehearsal:
    """Rehearse these jobs, which run for a second each unless `durations` or `duration` says otherwise."""
    made = Scenario(first=first, until=first + length, **scenario)
    return report(perform([RehearsedJob(job) for job in jobs], made, changes))


def runs_of(rehearsal: Rehearsal, job: str) -> list[RunForecast]:
    return [run for run in rehearsal.runs if run.job == job]


def fires_of(rehearsal: Rehearsal, job: str) -> list[str]:
    """The instants of its runs, such as `27T01:30`."""
    return [f"{run.fire_at:%dT%H:%M}" for run in runs_of(rehearsal, job)]
