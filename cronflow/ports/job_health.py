"""Queries for the health of jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from cronflow.domain.job import JobRecord
from cronflow.domain.job_health import EndedRun


class NeverRan(NamedTuple):
    """A job that has no run, and when it was created."""

    job: str
    created_at: datetime


class JobHealthStore(Protocol):
    """Each query reads a bounded number of documents and returns them in no particular order. Deleted jobs are never
    returned; system jobs are.
    """

    async def waiting_for_node(self, since: datetime, limit: int) -> list[JobRecord]:
        """Active jobs whose next fire has waited for a node since this instant or longer."""

    async def held_back(self, limit: int) -> list[JobRecord]:
        """Active jobs whose missed fires are held back after an outage."""

    async def failing(self, since: datetime, limit: int, latest: int) -> Mapping[str, Sequence[EndedRun]]:
        """Jobs with failed or lost runs that were due since this instant, at most `limit`, with their `latest` ended
        runs, the newest first. Parts of runs, and skipped and cancelled runs, do not count.
        """

    async def paused(self, limit: int) -> list[JobRecord]:
        """Paused jobs."""

    async def never_ran(self, limit: int) -> list[NeverRan]:
        """Jobs that have no run."""
