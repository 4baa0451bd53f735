"""Waits until a cluster has recovered from faults, and says what is missing if it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime

from cronflow.chaos.cluster import ChaosCluster
from cronflow.domain.cluster import Backlog
from cronflow.domain.errors import BackendUnavailable, CronFlowError
from cronflow.domain.run import ENDED, RunState, run_id
from cronflow.ports import RunQuery

OPEN = [state for state in RunState if state not in ENDED]
MOST_JOBS = 5_000
POLL_S = 0.25
WHOLE_WITHIN_S, HANDLED_WITHIN_S, ENDED_WITHIN_S = 120.0, 240.0, 240.0


class Recovery:
    """Each method waits for one thing, and raises CronFlowError if it does not come in time."""

    def __init__(self, cluster: ChaosCluster) -> None:
        self._cluster = cluster

    async def whole(self) -> None:
        """All nodes are up and one leads."""
        await self._until("the cluster is whole", self._broken, WHOLE_WITHIN_S)

    async def handled(self, until: datetime) -> None:
        """Every run that was due before `until` is planned and has ended."""
        await self._until("every run that was due has ended", lambda: self._unhandled(until), HANDLED_WITHIN_S)

    async def ended(self) -> None:
        """No run is open."""
        await self._until("no run is open", lambda: self._open(None), ENDED_WITHIN_S)

    async def recorded(self) -> None:
        """No outcome is left in a spool."""
        await self._until("every outcome is recorded", self._spooled, ENDED_WITHIN_S)

    async def _until(self, what: str, missing: Callable[[], Awaitable[str]], seconds: float) -> None:
        """Wait until nothing is missing. While a server is away, something is."""
        last = ""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    try:
                        last = await missing()
                        if not last:
                            return
                    except BackendUnavailable as error:
                        last = str(error)
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            logs = self._cluster.folder / "logs"
            raise CronFlowError(f"not within {seconds:g} s: {what} ({last}); see the logs in {logs}") from None

    async def _broken(self) -> str:
        return "" if await self._cluster.is_whole() else "a node is down, or none leads"

    async def _unhandled(self, until: datetime) -> str:
        jobs = await self._cluster.service.backends.jobs.find(limit=MOST_JOBS)
        for job in jobs:
            if job.active and job.next_fire is not None and job.next_fire < until:
                return f"{job.name} has been due since {job.next_fire:%H:%M:%SZ}"
        pending = [
            run_id(job.name, job.pending_run.fire)
            for job in jobs
            if job.pending_run is not None and job.pending_run.fire < until
        ]
        # The run of the last move may have no document for about two seconds.
        stored = await self._cluster.service.backends.runs.existing(pending)
        if left := set(pending) - set(stored):
            return f"{min(left)} is not stored"
        return await self._open(until)

    async def _open(self, until: datetime | None) -> str:
        query = RunQuery(states=OPEN, until=until, limit=1)
        found = await self._cluster.service.backends.runs.find(query)
        return f"{found[0].id} is {found[0].state.value}" if found else ""

    async def _spooled(self) -> str:
        for member in await self._cluster.service.cluster.members():
            if member.report.spool != Backlog():
                return f"{member.report.name} has some in its spool"
        return ""
