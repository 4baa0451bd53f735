"""Renews the leases and job locks of the runs that a worker holds, from the keep-alive thread.

Rule: a lease is renewed as long as its run may still be running, whatever the main loop does, and no longer: after the
timeout, plus the time that a stop takes, the reconciler takes over. A lost fence stops the handler. A lost lock is only
a warning, because the fence decides. A run with limits is stopped before its lease expires, if it could not be renewed:
the leader may then start the run on another node, and two handlers would have one permit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import structlog

from cronflow.domain import metrics, transitions
from cronflow.domain.transitions import ClaimedRun
from cronflow.node.role_loop import NodeRole, Wake
from cronflow.node.timings import Timings
from cronflow.ports import UNMETERED, Clock, JobLock, Meter, Queue, RunStore
from cronflow.worker.group_commit import apply_each

STOP_TAKES_S = 30.0

log = structlog.get_logger("cronflow.node")


@dataclass(frozen=True, slots=True)
class Lease:
    """A run that this node holds. `until` is the monotonic time after which it cannot be running. `stop_unrenewed`: it
    has limits.
    """

    claimed: ClaimedRun
    job_lock: JobLock
    marked: bool
    until: float
    stop_unrenewed: bool = False


class Leases:
    """Three roles: leases in MongoDB, those that could not be renewed, and locks in Redis. `current` lists the held
    runs; `lost` is called for each lost fence, `unrenewed` for each run that must stop before its lease expires.
    """

    def __init__(
        self,
        runs: RunStore,
        queue: Queue,
        clock: Clock,
        timings: Timings,
        *,
        node: str,
        current: Callable[[], Sequence[Lease]],
        lost: Callable[[Lease], None],
        unrenewed: Callable[[Lease], None] = lambda _: None,
        meter: Meter = UNMETERED,
    ) -> None:
        self._runs = runs
        self._queue = queue
        self._clock = clock
        self._timings = timings
        self._node = node
        self._current = current
        self._lost = lost
        self._unrenewed = unrenewed
        self._meter = meter
        # By run and fence, the monotonic time before which the lease was renewed last.
        self._renewed_at: dict[tuple[str, int], float] = {}
        self.roles = (
            NodeRole("leases", self.renew, Wake()),
            NodeRole("unrenewed leases", self.stop_unrenewed, Wake()),
            NodeRole("locks", self.renew_locks, Wake()),
        )

    async def renew(self) -> float:
        leases = [lease for lease in self._alive() if lease.marked]
        if leases:
            length = timedelta(seconds=self._timings.run_lease)
            began = self._clock.monotonic()
            renewed = await apply_each(self._runs, [transitions.renew(lease.claimed, length) for lease in leases])
            for lease, ours in zip(leases, renewed, strict=True):
                if ours:
                    self._renewed_at[lease.claimed.run, lease.claimed.fence] = began
                else:
                    self._meter.add(metrics.REJECTIONS, "lease")
                    self._lost(lease)
        return self._timings.run_lease / 3

    async def stop_unrenewed(self) -> float:
        """Stop the runs with limits whose leases are about to expire. Asks no server."""
        now = self._clock.monotonic()
        held = {(lease.claimed.run, lease.claimed.fence): lease for lease in self._current() if lease.marked}
        self._renewed_at = {key: self._renewed_at.get(key, now) for key in held}
        for key, lease in held.items():
            if lease.stop_unrenewed and now - self._renewed_at[key] >= self._timings.unrenewed_limit:
                log.warning("run stopped", run=lease.claimed.run, reason="its lease could not be renewed")
                self._unrenewed(lease)
        return self._timings.run_lease / 45

    async def renew_locks(self) -> float:
        job_locks = [lease.job_lock for lease in self._alive()]
        if job_locks:
            for run in await self._queue.renew_locks(self._node, job_locks):
                self._meter.add(metrics.REJECTIONS, "lock")
                log.warning("job lock lost", run=run)
        return self._timings.job_lock / 3.5

    def _alive(self) -> list[Lease]:
        now = self._clock.monotonic()
        return [lease for lease in self._current() if now < lease.until]
