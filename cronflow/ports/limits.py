"""Limits in MongoDB: one document per limit, with its permits and the time of its next start."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from cronflow.domain.permits import LimitState, NamedLimit, PermitRefusal, PermitRequest


class PermitKey(NamedTuple):
    """A permit: the id of its limit, its run and its fence."""

    limit: str
    run: str
    fence: int


class Waiter(NamedTuple):
    """A run that waits for a limit, and since when. A fire that is not planned yet has the id that its run will
    have.
    """

    run: str
    since: datetime


class LimitStore(Protocol):
    """Limits and their permits. Every write is one atomic step on one document, and safe to repeat."""

    async def acquire(self, requests: Sequence[PermitRequest]) -> list[PermitRefusal | None]:
        """Give each attempt a permit if `is_free`, in order. Returns for each None if it has one now, from this or an
        earlier call. The document of a key is created by its first request; that of a name must exist.
        """

    async def release(self, permits: Collection[PermitKey]) -> None:
        """Remove the permits that exist."""

    async def get(self, limits: Collection[str]) -> list[LimitState]:
        """Those that exist, by id, in no particular order."""

    async def held(self, before: datetime) -> list[LimitState]:
        """The limits with a permit that was acquired before this instant."""

    async def named(self, *, after: str = "", limit: int = 500) -> list[LimitState]:
        """A page of named limits ordered by name, starting after the name `after`."""

    async def define(self, limit: NamedLimit, by: str, now: datetime) -> None:
        """Create the limit, or change it and keep its permits. The next start is free at once."""

    async def delete(self, name: str) -> bool:
        """Delete a named limit. False if it does not exist."""

    async def waiting(self, limit: str, most: int) -> list[Waiter]:
        """The fires and runs that wait for this limit, longest first, at most `most` of either."""

    async def forget_unused(self, unused_for: timedelta) -> int:
        """Delete the documents of keys without permits that were not used for so long by the store's clock. Returns
        their number.
        """
