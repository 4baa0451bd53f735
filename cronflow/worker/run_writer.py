"""Writes what a worker records about its runs, of which some may have no document yet.

A job's document states that its pending run exists, and the leader pushes a run before it inserts it. So a young run is
inserted as its change leaves it, and the change alone is tried for those that exist. If it does not apply, the run may
be absent. Then the job's document decides: if its pending run is this run under this fence, the run is inserted. The
change is tried once more in any case, because another process may have inserted the run in between. The second way
needs no clock, so a record of the spool may be of any age.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cronflow.domain.planning import ACK_WITHIN, run_of_pending
from cronflow.domain.run import Run
from cronflow.domain.transitions import Change
from cronflow.ports import Assignment, Clock, JobStore, RunStore
from cronflow.usecases.pending_runs import insert_pending_runs, pending_among, pending_run_of
from cronflow.worker.group_commit import apply_each


@dataclass(frozen=True, slots=True)
class RunWrite:
    """A change of a run. `pending` is the run as it is to be inserted, if it may have no document yet."""

    change: Change
    pending: Run | None = None


def pending_of(assignment: Assignment) -> Run | None:
    """The run of the assignment, if the leader may not have inserted it yet."""
    if assignment.pending_run is None:
        return None
    return run_of_pending(assignment.job, assignment.pending_run, assignment.term)


class RunWriter:
    def __init__(self, jobs: JobStore, runs: RunStore, clock: Clock) -> None:
        self._jobs, self._runs = jobs, runs
        self._clock = clock

    async def write(self, writes: Sequence[RunWrite]) -> list[bool]:
        """Write the changes, several of which may concern one run. Returns for each whether it was applied, now or
        earlier.
        """
        done = await self._insert_young(writes)
        await self._apply(writes, done)
        await self._try_again(writes, done)
        return done

    async def _insert_young(self, writes: Sequence[RunWrite]) -> list[bool]:
        """Insert the young runs as their first change leaves them."""
        done = [False] * len(writes)
        now = self._clock.now()
        first: dict[str, int] = {}
        for k, write in enumerate(writes):
            # An old item must not bring back a run that the clean-up has deleted. Younger ones may exist too, but an
            # insert that is refused costs far less than a change that finds nothing.
            if write.pending is not None and abs(now - write.pending.created_at) < ACK_WITHIN:
                first.setdefault(write.pending.id, k)
        if first:
            young = [(write.pending, write.change) for write in map(writes.__getitem__, first.values())]
            inserted = await self._runs.insert_changed([(run, change) for run, change in young if run is not None], now)
            for run in inserted:
                done[first[run]] = True
        return done

    async def _apply(self, writes: Sequence[RunWrite], done: list[bool]) -> None:
        left = [k for k, ready in enumerate(done) if not ready]
        if left:
            for k, won in zip(left, await apply_each(self._runs, [writes[k].change for k in left]), strict=True):
                done[k] = won

    async def _try_again(self, writes: Sequence[RunWrite], done: list[bool]) -> None:
        """Insert the absent runs that their jobs name as pending under the fence of a change, and apply the changes
        again. This includes those whose run exists or is no longer pending: another process may have inserted it after
        the change had found nothing.
        """
        lost = {write.change.run for write, ready in zip(writes, done, strict=True) if not ready}
        if not lost:
            return
        absent = lost - await self._runs.existing(lost)
        fences = {(write.change.run, write.change.fence) for write in writes}
        pending = [
            (run, record)
            for record in await pending_among(self._jobs, absent)
            if (run := pending_run_of(record)) is not None and (run.id, run.fence) in fences
        ]
        if pending:
            await insert_pending_runs(self._runs, [record for _, record in pending])
        await self._apply(writes, done)
