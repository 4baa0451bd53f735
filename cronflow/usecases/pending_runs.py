"""Inserts the runs of pending runs. A job's document states that its pending run exists, so any process may insert it.

Inserting one twice, or one that has been changed since, is harmless: its id exists. One that is absent was never
inserted, because the clean-up deletes no run that a job's document still names.
"""

from __future__ import annotations

from collections.abc import Iterable

from cronflow.domain.job import JobRecord
from cronflow.domain.planning import run_of_pending
from cronflow.domain.run import run_id
from cronflow.ports import RunStore


async def insert_pending_runs(runs: RunStore, records: Iterable[JobRecord]) -> set[str]:
    """Insert the missing runs of the records' pending runs. Returns the ids that this call inserted."""
    pending = {
        run_id(record.name, record.pending_run.fire): run_of_pending(record.job, record.pending_run, record.term)
        for record in records
        if record.pending_run is not None
    }
    missing = pending.keys() - await runs.existing(pending) if pending else ()
    return await runs.insert([pending[run] for run in missing]) if missing else set()
