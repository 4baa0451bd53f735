"""The order in which fires and runs get free slots, when there are too few.

The planner places new fires, the reconciler retries and manual runs, each in its own rounds. Both follow `in_turn`:
each posts the best of what found no free slot, and keeps room for what the other has posted and comes first. So neither
takes every slot, and a priority holds between them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from cronflow.domain.capabilities import Needs
from cronflow.ports import Clock

MOST_POSTED = 100
POST_VALID_S = 5.0
"""A role that has stopped must not keep slots free."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A fire or a run that waits for a free slot, since `since`."""

    id: str
    priority: int
    since: datetime
    needs: Needs


class Placer(Enum):
    """A role that places runs."""

    PLANNER = "planner"
    RECONCILER = "reconciler"


class Contention:
    """What waits for a free slot. `turn` counts the placements of both roles in this term."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._posted: dict[Placer, tuple[float, Sequence[Contender]]] = {}
        self._lock = asyncio.Lock()
        self.turn = 0
        self.backfilling = False
        """Runs of a backfill exclude those of the schedule: a fire goes before one that waits, so a role must see what
        the other one has dispatched.
        """

    @asynccontextmanager
    async def placing(self) -> AsyncIterator[None]:
        """Hold this from reading the nodes to the push. While slots are short, or with `backfilling`, one role at a
        time may; otherwise both would give out the same free slot, or start two runs of a job.
        """
        if self.backfilling or any(contenders for _, contenders in self._posted.values()):
            async with self._lock:
                yield
        else:
            yield

    def against(self, placer: Placer) -> list[Contender]:
        """What the other role has posted lately."""
        now = self._clock.monotonic()
        return [
            contender
            for other, (at, contenders) in self._posted.items()
            if other is not placer and now - at < POST_VALID_S
            for contender in contenders
        ]

    def post(self, placer: Placer, contenders: Iterable[Contender], placed: int) -> None:
        """After a round: the best of what found no free slot, and the number of placements."""
        self._posted[placer] = (self._clock.monotonic(), tuple(contenders)[:MOST_POSTED])
        self.turn += placed
