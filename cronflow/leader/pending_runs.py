"""The leader's pending runs: ensures that their runs exist before the open runs of their jobs are read.

A pending run is an open run of its job, with or without a document. The planner and the reconciler share this, so a
pending run is looked up once per term.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from datetime import datetime

from cronflow.domain.job import JobRecord, PendingRun
from cronflow.ports import RunStore
from cronflow.usecases.pending_runs import insert_pending_runs

REMEMBERED = 100_000


class PendingRuns:
    def __init__(self, runs: RunStore, most: int = REMEMBERED) -> None:
        self._runs = runs
        self._inserted = InsertedRunCache(most)
        self._term = 0

    async def ensure(self, records: Iterable[JobRecord], term: int) -> None:
        """Insert those of the records' pending runs that are missing."""
        if term != self._term:
            # Another term may have written meanwhile.
            self._inserted.clear()
            self._term = term
        unsure = [
            (record, record.pending_run)
            for record in records
            if record.pending_run is not None and not self._inserted.has(record.name, record.pending_run)
        ]
        if not unsure:
            return
        await insert_pending_runs(self._runs, [record for record, _ in unsure])
        for record, pending_run in unsure:
            self._inserted.add(record.name, pending_run)

    def has_inserted(self, job: str, pending_run: PendingRun) -> bool:
        """Whether the run of this pending run is known to exist."""
        return self._inserted.has(job, pending_run)

    def inserted(self, job: str, pending_run: PendingRun) -> None:
        """The run of this pending run exists."""
        self._inserted.add(job, pending_run)


class InsertedRunCache:
    """LRU cache of pending runs already inserted in this term.

    The key has fire and fence: an edit that skips instants leaves a pending run of another fire under the old fence.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._pending_runs: OrderedDict[str, tuple[datetime, int]] = OrderedDict()

    def add(self, job: str, pending_run: PendingRun) -> None:
        self._pending_runs[job] = (pending_run.fire, pending_run.fence)
        self._pending_runs.move_to_end(job)
        if len(self._pending_runs) > self._most:
            self._pending_runs.popitem(last=False)

    def has(self, job: str, pending_run: PendingRun) -> bool:
        return self._pending_runs.get(job) == (pending_run.fire, pending_run.fence)

    def clear(self) -> None:
        self._pending_runs.clear()
