"""What people do while a cluster is broken: they edit jobs, pause them and resume them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from random import Random

from cronflow.domain.errors import BackendUnavailable, Conflict
from cronflow.domain.job import Job, JobRecord, PythonTarget
from cronflow.testing.history.history import Ack
from cronflow.usecases import UseCases

AGAIN_S = 0.5
BETWEEN_S = (5.0, 15.0)
PAUSED_S = (2.0, 20.0)
SECONDS = (0.2, 0.4, 0.6)


class Editors:
    """`acks` are the changes that the cluster has acknowledged."""

    def __init__(self, service: UseCases, jobs: Sequence[Job], rng: Random) -> None:
        self._service, self._jobs, self._rng = service, jobs, rng
        self.acks: list[Ack] = []

    async def work(self) -> None:
        """Edit and pause jobs until the task is cancelled. A job that was paused stays so if it is cancelled then."""
        while True:
            await asyncio.sleep(self._rng.uniform(*BETWEEN_S))
            job = self._rng.choice(self._jobs)
            if self._rng.random() < 0.5:
                await self._edit(job)
            elif await self._done(self._service.jobs.pause(job.name)):
                await asyncio.sleep(self._rng.uniform(*PAUSED_S))
                while not await self._done(self._service.jobs.resume(job.name)):
                    await asyncio.sleep(AGAIN_S)

    async def pause_all(self) -> None:
        """Pause every job. Raises BackendUnavailable."""
        for job in self._jobs:
            self._acknowledged(await self._service.jobs.pause(job.name))

    async def resume_all(self) -> None:
        """Resume every job. Raises BackendUnavailable."""
        for job in self._jobs:
            self._acknowledged(await self._service.jobs.resume(job.name))

    async def _edit(self, job: Job) -> None:
        """Change how long a job takes."""
        assert isinstance(job.target, PythonTarget)
        target = replace(job.target, args={**job.target.args, "seconds": self._rng.choice(SECONDS)})

        async def edited() -> JobRecord:
            await self._service.jobs.apply([replace(job, target=target)])
            return await self._service.jobs.get(job.name)

        await self._done(edited())

    async def _done(self, change: Awaitable[JobRecord]) -> bool:
        """Whether the change was acknowledged. One that fails may have been made or not."""
        try:
            self._acknowledged(await change)
        except (BackendUnavailable, Conflict):
            return False
        return True

    def _acknowledged(self, record: JobRecord) -> None:
        self.acks.append(Ack(record.name, record.ver, datetime.now(UTC)))
