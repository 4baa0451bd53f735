"""The leases: what a worker holds, renewed from the lifeline.

The rule it protects: a lease is renewed while its run may still be running, whatever the main loop does, and not a
moment longer: beyond its timeout, and what a stop takes, a run is left to the reconciler. A lost fence stops the
handler; a lost lock is only a warning, because the fence decides.
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
    """A run that this node holds. `until` is the monotonic time beyond which it cannot be running any more."""

    claimed: ClaimedRun
    job_lock: JobLock
    marked: bool
    until: float


class Leases:
    """Two roles: the leases in MongoDB and the locks in Redis. `current` lists what is held, `lost` is told of a lost
    fence.
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
        meter: Meter = UNMETERED,
    ) -> None:
        self._runs = runs
        self._queue = queue
        self._clock = clock
        self._timings = timings
        self._node = node
        self._current = current
        self._lost = lost
        self._meter = meter
        self.roles = (NodeRole("leases", self.renew, Wake()), NodeRole("locks", self.renew_locks, Wake()))

    async def renew(self) -> float:
        """Renew the leases of what runs; tell of those that are no longer ours."""
        leases = [lease for lease in self._alive() if lease.marked]
        if leases:
            length = timedelta(seconds=self._timings.run_lease)
            renewed = await apply_each(self._runs, [transitions.renew(lease.claimed, length) for lease in leases])
            for lease, ours in zip(leases, renewed, strict=True):
                if not ours:
                    self._meter.add(metrics.REJECTIONS, "lease")
                    self._lost(lease)
        return self._timings.run_lease / 3

    async def renew_locks(self) -> float:
        """Renew the job locks."""
        job_locks = [lease.job_lock for lease in self._alive()]
        if job_locks:
            for run in await self._queue.renew_locks(self._node, job_locks):
                self._meter.add(metrics.REJECTIONS, "lock")
                log.warning("job lock lost", run=run)
        return self._timings.job_lock / 3.5

    def _alive(self) -> list[Lease]:
        now = self._clock.monotonic()
        return [lease for lease in self._current() if now < lease.until]
