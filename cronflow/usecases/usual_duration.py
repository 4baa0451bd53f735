"""Reads how long a job usually runs."""

from __future__ import annotations

from cronflow.domain.long_runs import MOST_COMPARED, UsualDuration, usual_duration
from cronflow.domain.run import RunState
from cronflow.ports import RunQuery, RunStore


async def read_usual_duration(runs: RunStore, job: str) -> UsualDuration | None:
    """From the job's latest successful runs; None if they are too few."""
    found = await runs.find(RunQuery(job=job, states={RunState.SUCCEEDED}, limit=MOST_COMPARED))
    return usual_duration([run.duration for run in found if run.duration is not None])
