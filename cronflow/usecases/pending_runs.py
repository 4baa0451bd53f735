"""Inserts the runs of pending runs. A job's document states that its pending run exists, so any process may insert it.

Inserting one twice, or one that has been changed since, is harmless: its id exists. One that is absent was never
inserted, because the clean-up deletes no run that a job's document still names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from cronflow.domain.job import JobRecord
from cronflow.domain.planning import run_of_pending
from cronflow.domain.run import Run, job_of, run_id
from cronflow.ports import JobStore, RunStore


async def insert_pending_runs(runs: RunStore, records: Iterable[JobRecord]) -> set[str]:
    """Insert the missing runs of the records' pending runs. Returns the ids that this call inserted."""
    pending = {run.id: run for run in map(pending_run_of, records) if run is not None}
    missing = pending.keys() - await runs.existing(pending) if pending else ()
    return await runs.insert([pending[run] for run in missing]) if missing else set()


def pending_run_of(record: JobRecord) -> Run | None:
    """The run of the record's pending run, as it is to be inserted."""
    return None if record.pending_run is None else run_of_pending(record.job, record.pending_run, record.term)


async def pending_among(jobs: JobStore, ids: Collection[str]) -> list[JobRecord]:
    """The jobs whose pending run is one of these runs."""
    found = await jobs.get({job_of(run) for run in ids}) if ids else []
    return [
        record
        for record in found
        if record.pending_run is not None and run_id(record.name, record.pending_run.fire) in ids
    ]


async def find_run(jobs: JobStore, runs: RunStore, run: str) -> Run | None:
    """The run, which may have no document yet; None if it does not exist."""
    if found := await runs.get([run]):
        return found[0]
    pending = await pending_among(jobs, [run])
    # Another process may have inserted it since, and its job may have moved on.
    if found := await runs.get([run]):
        return found[0]
    return pending_run_of(pending[0]) if pending else None
