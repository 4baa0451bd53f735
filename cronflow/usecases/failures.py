"""Reads the runs that failed or were lost, and groups them by reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from cronflow.domain.failures import Failure, group
from cronflow.domain.run import DEAD, Run
from cronflow.ports import RunQuery, RunStore

PAGE = 500
MOST_REPORTED = 20_000


async def failures_between(
    runs: RunStore,
    since: datetime,
    until: datetime | None = None,
    job: str | None = None,
    concerns: Callable[[str], bool] = lambda _job: True,
) -> tuple[Sequence[Failure], bool]:
    """Failures of runs that were due within this time by reason, most frequent first; those of one job, or of the jobs
    that `concerns` accepts. The flag is true if some runs were not looked at.
    """
    failed: list[Run] = []
    while len(failed) < MOST_REPORTED:
        before = (failed[-1].fire_at, failed[-1].id) if failed else None
        query = RunQuery(job=job, states=DEAD, since=since, until=until, before=before, limit=PAGE)
        page = await runs.find(query)
        failed += page
        if len(page) < PAGE:
            return group(run for run in failed if concerns(run.job)), False
    return group(run for run in failed if concerns(run.job)), True
