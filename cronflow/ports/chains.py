"""What chains of jobs need of the stores: the graph, ended runs that are yet to be answered, and joins."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from cronflow.domain.chain import RunEnd
from cronflow.domain.following import JoinRecord
from cronflow.domain.job import Job, JobRecord


class ChainStore(Protocol):
    """See `domain.following`. `Archive.delete_runs` does not delete joins; those of chains expire."""

    async def follow(self, jobs: Collection[str]) -> None:
        """Set `followed` in these jobs, tombstones included. Where it was not set, `rev` grows, so that a write that
        was computed before fails. Safe to repeat.
        """

    async def followers(self, jobs: Collection[str]) -> list[JobRecord]:
        """The jobs, except tombstones, that follow at least one of these directly, in no particular order."""

    async def following(self) -> list[Job]:
        """All jobs, except tombstones, that follow others, in no particular order."""

    async def graph_version(self) -> int:
        """A number that grows with each `graph_changed`. Read it before the graph that it is to stand for."""

    async def graph_changed(self) -> None:
        """To be called after jobs were written that follow others, or no longer do."""

    async def ended(self, limit: int) -> list[RunEnd]:
        """Ended runs that are `followed`, the earliest ends first. The cost is proportional to the limit."""

    async def answered(self, runs: Collection[str]) -> None:
        """Remove `followed` from these runs if they have ended. Safe to repeat."""

    async def marked(self, runs: Collection[str]) -> set[str]:
        """Those of these runs that have ended and are `followed`."""

    async def joins(self, ids: Collection[str]) -> list[JoinRecord]:
        """Those that exist, in no particular order."""

    async def joins_of(self, job: str, limit: int) -> list[JoinRecord]:
        """The joins of a job that wait for an end, in the order of their ids."""

    async def due_joins(self, now: datetime, limit: int) -> list[JoinRecord]:
        """Joins whose `due_at` has come, the earliest first."""

    async def write_join(self, join: JoinRecord) -> bool:
        """Write the join as `join.rev + 1` if it has the revision `join.rev` (0: it does not exist). False otherwise.
        After BackendUnavailable it may be written; reading shows whether it is.
        """

    async def forget_joins(self, written_before: datetime, limit: int) -> int:
        """Delete at most `limit` joins that were last written before this instant, by the store's clock, except those
        of jobs whose ends wait for others. Returns how many. Safe to repeat.
        """

    async def forget_joins_of(self, job: str) -> None:
        """Delete the joins of a job that was deleted. Safe to repeat."""
