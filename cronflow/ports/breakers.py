"""The circuit breakers of jobs in MongoDB, one document for each job whose breaker has ever opened."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from cronflow.domain.job_breaker import BreakerState


class BreakerStore(Protocol):
    """States of circuit breakers. They are not part of the jobs' documents, so that no write of a state changes `rev`,
    and no node of an older version that edits a job removes its state.
    """

    async def get(self, jobs: Collection[str]) -> dict[str, BreakerState]:
        """Those that are stored, by job."""

    async def replace(self, seen: BreakerState, state: BreakerState) -> bool:
        """Store the state if the present one is `seen`, that is, if it opened, may be probed, and counts from the same
        instants. A job without a stored state has `BreakerState(job=…)`. Returns whether this call stored it.
        """

    async def remove(self, jobs: Collection[str]) -> None:
        """Delete those that exist."""
