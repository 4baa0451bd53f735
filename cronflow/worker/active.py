"""A run on this node, from the moment that its attempt begins until its outcome is recorded."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cronflow.domain.run import MANUAL, AttemptResult, NodeTimes, fire_of
from cronflow.domain.transitions import ClaimedRun
from cronflow.ports import Assignment, JobLock
from cronflow.worker.attempt_log import AttemptLog
from cronflow.worker.leases import Lease
from cronflow.worker.permits import NO_PERMITS, Wanted


@dataclass(slots=True, eq=False)
class Active:
    """A run on this node. `began`, `until`, `start_by`, `taken` and `slot` are monotonic times: the handler starts by
    `start_by` or not at all, and cannot be running after `until`; the node took the run at `taken`, and had a slot for
    it at `slot`. `times` are recorded with the attempt.
    """

    assignment: Assignment
    claimed: ClaimedRun
    job_lock: JobLock
    log: AttemptLog = field(repr=False)
    began: float
    until: float
    start_by: float
    taken: float
    slot: float
    times: NodeTimes | None = None
    started_at: datetime | None = None
    marked: bool = False
    superseded: bool = False
    recorded: bool = False
    stop: AttemptResult | None = None
    task: asyncio.Task[None] | None = None
    executing: bool = False
    permits: Wanted = NO_PERMITS

    def lease(self) -> Lease:
        marked = self.marked and not self.superseded
        return Lease(self.claimed, self.job_lock, marked, self.until, stop_unrenewed=bool(self.permits.uses))

    def times_at(self, now: datetime, monotonic: float, late: timedelta) -> NodeTimes | None:
        """The times of an attempt that starts now, if it is the first one of its run and starts late."""
        # Only these kinds of runs have a lateness.
        scheduled = fire_of(self.claimed.run) is not None or MANUAL in self.claimed.run
        if self.assignment.attempt != 1 or not scheduled or now - self.assignment.fire_at < late:
            return None
        taken, slot, began = (now - timedelta(seconds=monotonic - at) for at in (self.taken, self.slot, self.began))
        return NodeTimes(taken, slot, began)

    def stop_result(self) -> AttemptResult | None:
        """The result of the attempt if it was stopped. A method, because another task sets `stop` between two calls."""
        return self.stop


def claimed_of(assignment: Assignment, node: str, start_id: str) -> ClaimedRun:
    return ClaimedRun(
        run=assignment.run,
        fence=assignment.fence,
        node=node,
        attempt=assignment.attempt,
        retry=assignment.job.retry,
        delivery=assignment.job.delivery,
        start_id=start_id,
        retry_until=assignment.job.retry.until(assignment.requested_at or assignment.fire_at),
    )


def key_of(assignment: Assignment) -> tuple[str, int]:
    """The run and its fence, which name a dispatch."""
    return assignment.run, assignment.fence
