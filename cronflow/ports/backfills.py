"""The store of backfills, in MongoDB."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from cronflow.domain.backfill import Backfill, BackfillState
from cronflow.domain.run import RunState


class WatchedBackfill(NamedTuple):
    """A backfill that the leader works off, with its next instants."""

    backfill: Backfill
    upcoming: Sequence[datetime]


class BackfillStore(Protocol):
    """Backfills and their instants. Every write but `create` is a compare-and-set."""

    async def create(self, backfill: Backfill, instants: Sequence[datetime]) -> bool:
        """Insert. False if the id exists."""

    async def get(self, id: str) -> Backfill | None: ...  # noqa: A002

    async def find(
        self, *, job: str | None = None, before: tuple[datetime, str] | None = None, limit: int = 100
    ) -> list[Backfill]:
        """The newest first. `before` is the (created_at, id) of the last one of the previous page."""

    async def watched(self, page: int) -> list[WatchedBackfill]:
        """Those that the leader looks at, oldest first, each with its next `page` instants."""

    async def advance(self, id: str, inserted: int, to: int, due_at: datetime) -> bool:  # noqa: A002
        """Move the cursor from `inserted` to `to` if the backfill is still running there."""

    async def cancel(self, id: str, by: str, reason: str, at: datetime) -> bool:  # noqa: A002
        """Cancel a running backfill; the leader still looks at it. False if it is not running."""

    async def close(self, id: str, state: BackfillState, at: datetime) -> bool:  # noqa: A002
        """The leader looks at it no more: a running one is done, at `at`, or a cancelled one has no run left to cancel.
        False if it was closed before, or `state` does not follow.
        """

    async def counts(self, ids: Collection[str]) -> Mapping[str, Mapping[RunState, int]]:
        """By backfill, the number of its runs in each state."""

    async def forget(self, ended_before: datetime) -> int:
        """Delete those that were closed, ended before this instant and have no runs: then their ids may be used again.
        Returns how many.
        """
