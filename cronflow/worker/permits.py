"""Acquires the permits of runs before their starts are recorded, and releases them afterwards, in group commits.

Rules: a run acquires its permits one after another, in the order of `uses_of`; the first that it does not get is the
reason to give it back. A permit is released only after this attempt has changed the run in MongoDB, to an ended state
or `retrying`: no other holder of the same fence can then start or execute it. What is not released, because the change
did not apply or is still in the spool, is found by the leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cronflow.domain.concurrency import LimitUse
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.permits import Obstacle, PermitRefusal, PermitRequest, obstacle
from cronflow.node.role_loop import Outages
from cronflow.ports import Bus, Clock, LimitStore, PermitKey, Signal
from cronflow.worker.group_commit import GroupCommit


class Wanted(NamedTuple):
    """The permits that an attempt needs."""

    uses: Sequence[LimitUse]
    run: str
    fence: int
    node: str


NO_PERMITS = Wanted((), "", 0, "")


class Acquisition(NamedTuple):
    """Whether the attempt has all its permits; if not, why. Neither: the node stops, and nothing is known."""

    granted: bool
    obstacle: Obstacle | None = None


class Permits:
    """`spooled` returns how many outcomes of this node wait for MongoDB."""

    def __init__(
        self,
        limits: LimitStore,
        bus: Bus,
        clock: Clock,
        outages: Outages,
        spooled: Callable[[], int],
        linger_s: float = 0.005,
    ) -> None:
        self._limits = limits
        self._bus = bus
        self._clock = clock
        self._spooled = spooled
        self._requests: GroupCommit[Wanted, Acquisition] = GroupCommit(
            "permits", self._acquire, clock, outages, linger_s
        )
        self._releases: GroupCommit[Sequence[PermitKey], None] = GroupCommit(
            "released permits", self._release, clock, outages, linger_s
        )

    def start_roles(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        loops = {"permits": self._requests.run(), "released permits": self._releases.run()}
        return [group.create_task(loop, name=f"group commit {name}") for name, loop in loops.items()]

    async def acquire(self, wanted: Wanted) -> Acquisition:
        """Acquire all permits. Those that it got stay, although it did not get all of them: the run is given back
        first.
        """
        return await self._requests.put(wanted)

    def release(self, wanted: Wanted) -> asyncio.Future[None]:
        """Release the permits that the attempt has, in the background."""
        return self._releases.put([PermitKey(use.id, wanted.run, wanted.fence) for use in wanted.uses])

    def give_up(self) -> None:
        """The node must stop: wait no longer for MongoDB. The leader finds the permits that are left."""
        self._requests.give_up(Acquisition(granted=False))
        self._releases.give_up(None)

    async def _acquire(self, batch: Sequence[Wanted]) -> list[Acquisition]:
        """One call for the first permit of every run, one for the second, and so on."""
        answers = [Acquisition(granted=True)] * len(batch)
        for position in range(max(len(wanted.uses) for wanted in batch)):
            left = [k for k, one in enumerate(batch) if answers[k].granted and position < len(one.uses)]
            requests = [
                PermitRequest(batch[k].uses[position], batch[k].run, batch[k].fence, batch[k].node) for k in left
            ]
            refusals = await self._limits.acquire(requests)
            for k, request, refusal in zip(left, requests, refusals, strict=True):
                if refusal is not None:
                    answers[k] = Acquisition(granted=False, obstacle=self._obstacle(request, refusal))
        return answers

    def _obstacle(self, request: PermitRequest, refusal: PermitRefusal) -> Obstacle:
        found = obstacle(request.use, refusal.state, request.run, self._clock.now(), {})
        # It may have become free since, or its run has a permit of a later attempt.
        return found or Obstacle(request.use, f"{request.use} was full")

    async def _release(self, batch: Sequence[Sequence[PermitKey]]) -> list[None]:
        # An outcome in the spool is not recorded yet. The leader releases its permit after it is.
        if not self._spooled():
            await self._limits.release([permit for permits in batch for permit in permits])
            try:
                await self._bus.notify(Signal.CAPACITY)
            except BackendUnavailable:
                # The leader looks at what waits in any case, a little later.
                pass
        return [None] * len(batch)
