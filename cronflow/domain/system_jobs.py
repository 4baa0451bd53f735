"""The system's own jobs: the daily sweep and the daily clean-up.

They are jobs like all others, planned, fenced, retried and recorded by the same code; only their names are reserved,
and what they run is CronFlow itself. The rule it protects: nobody but the leader defines them, from its settings.
"""

from __future__ import annotations

from datetime import time, timedelta

from cronflow.domain.job import SYSTEM_PREFIX, Job, SystemTarget
from cronflow.domain.schedule.kinds import Cron

SWEEP = SYSTEM_PREFIX + "sweep"
CLEANUP = SYSTEM_PREFIX + "cleanup"
LONGEST = timedelta(hours=6)


def system_jobs(sweep_at: time, cleanup_at: time) -> tuple[Job, ...]:
    """The sweep and the clean-up, each once a day at this time, UTC."""
    return (
        _job("sweep", sweep_at, "Proves daily that nothing is lost or stuck, and repairs what is"),
        _job("cleanup", cleanup_at, "Deletes daily what has outlived its retention"),
    )


def _job(name: str, at: time, description: str) -> Job:
    return Job(
        name=SYSTEM_PREFIX + name,
        target=SystemTarget(name),
        schedule=Cron(f"{at.minute} {at.hour} * * *"),
        description=description,
        timeout=LONGEST,
    )
