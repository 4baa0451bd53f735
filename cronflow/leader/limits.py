"""Limits at the leader: which due runs may be dispatched, and which permits nobody will release.

`LimitGate` saves dispatches in vain and protects nothing: the worker's permit decides. It counts the permits that are
held, and the runs that this leader has dispatched and that hold none yet. A new leader does not know the latter; their
workers then give runs back.

`PermitRecovery` removes the permits of attempts that have ended or can never start. It may run on two leaders at once,
and removes what lands after it in its next round.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

import structlog

from cronflow.domain.concurrency import LimitUse, OnFull, name_of
from cronflow.domain.errors import Conflict
from cronflow.domain.events import PermitsRecovered
from cronflow.domain.permits import UNUSED_FOR, LimitState, Obstacle, has_permit, is_stale, obstacle
from cronflow.domain.run import RunState
from cronflow.leader.elector import Elector
from cronflow.node.role_loop import Wake
from cronflow.node.timings import Timings
from cronflow.ports import Clock, EventSink, LimitStore, PermitKey, RunStore, discard_event
from cronflow.usecases.runs import Canceller

IDLE_S = 5.0
NOT_WRITTEN_FOR_S = 2.0
"""How long the dispatch of a run may not be written: it is reserved before. It never is if the run has been cancelled
meanwhile, or if the write failed.
"""
WAIT_VALID_S = 6.0
"""Longer than a waiting fire or run is left alone. What is cancelled meanwhile holds others up for so long."""
YOUNG = timedelta(seconds=2)
FORGET_EVERY_S = 3600.0
REPLACED = "replaced"

log = structlog.get_logger("cronflow.node")

Rank = tuple[int, datetime]
"""A priority, and since when it waits."""


class Reserved(NamedTuple):
    """A dispatch under a limit whose permit is not acquired yet; `at` is monotonic."""

    fence: int
    at: float


class Queued(NamedTuple):
    """A fire or run that waits for a limit; `at` is when it was last looked at, monotonic."""

    rank: Rank
    placer: object
    at: float


@dataclass(slots=True)
class LimitView:
    """The limits as one round of one role has read them. `placer` is that role."""

    gate: LimitGate
    placer: object
    states: Mapping[str, LimitState]
    now: datetime
    replaced: dict[str, list[str]] = field(default_factory=dict)

    def obstacle(self, uses: Sequence[LimitUse], run: str, rank: Rank) -> Obstacle | None:
        """Why the run may not be dispatched now, or None. Remembers that it waits."""
        for use in uses:
            chosen = self.replaced.get(use.id, [])
            coming = self.gate.coming(use.id, run, rank, self.placer)
            found = obstacle(use, self.states.get(use.id), run, self.now, coming, len(chosen))
            if found is not None:
                self.gate.wait(use.id, run, rank, self.placer)
                if found.on_full is OnFull.REPLACE and found.replaceable is not None:
                    self.replaced.setdefault(use.id, []).append(found.replaceable)
                return found
        return None

    def reserve(self, uses: Iterable[LimitUse], run: str, fence: int) -> None:
        """The run is dispatched."""
        for use in uses:
            self.gate.reserve(use.id, run, fence)


class LimitGate:
    def __init__(self, limits: LimitStore, runs: RunStore, canceller: Canceller, clock: Clock) -> None:
        self._limits, self._runs = limits, runs
        self._canceller = canceller
        self._clock = clock
        self._term = 0
        self._reserved: dict[str, dict[str, Reserved]] = {}
        self._queued: dict[str, dict[str, Queued]] = {}

    async def read(self, uses: Iterable[LimitUse], term: int, placer: object) -> LimitView:
        """Read the limits. Costs nothing without any, and a second read where dispatched runs hold no permit yet."""
        if term != self._term:
            self._reserved.clear()
            self._queued.clear()
            self._term = term
        ids = {use.id for use in uses}
        states = {state.id: state for state in await self._limits.get(ids)} if ids else {}
        await self._forget_started(ids, states)
        return LimitView(self, placer, states, self._clock.now())

    async def _forget_started(self, ids: Collection[str], states: Mapping[str, LimitState]) -> None:
        """Forget the reservations of runs that have acquired their permit since, or will not."""
        unknown: set[str] = set()
        for limit in ids & self._reserved.keys():
            state = states.get(limit)
            for run, (fence, _) in list(self._reserved[limit].items()):
                if state is not None and has_permit(state, run, fence):
                    self._unreserve(limit, run)
                else:
                    unknown.add(run)
        if not unknown:
            return
        standings = await self._runs.standings(unknown)
        now = self._clock.monotonic()
        for limit in ids & self._reserved.keys():
            for run, (fence, at) in list(self._reserved[limit].items()):
                standing = standings.get(run)
                if standing is None or standing.fence < fence:
                    gone = run in unknown and now - at > NOT_WRITTEN_FOR_S
                else:
                    gone = standing.fence > fence or standing.state is not RunState.DISPATCHED
                if gone:
                    self._unreserve(limit, run)

    def _unreserve(self, limit: str, run: str) -> None:
        del self._reserved[limit][run]
        if not self._reserved[limit]:
            del self._reserved[limit]

    def reserve(self, limit: str, run: str, fence: int) -> None:
        self._reserved.setdefault(limit, {})[run] = Reserved(fence, self._clock.monotonic())
        self._queued.get(limit, {}).pop(run, None)

    def wait(self, limit: str, run: str, rank: Rank, placer: object) -> None:
        self._queued.setdefault(limit, {})[run] = Queued(rank, placer, self._clock.monotonic())

    def coming(self, limit: str, run: str, rank: Rank, placer: object) -> dict[str, int]:
        """The runs, with their fences, that come before this one: those that are dispatched, and those that wait for
        the other role and have a higher priority, or the same and are older. The latter wait for a run that is
        dispatched itself, so they do not come before it when it is dispatched again.
        """
        found = {other: reserved.fence for other, reserved in self._reserved.get(limit, {}).items()}
        if run in found:
            return found
        after = self._clock.monotonic() - WAIT_VALID_S
        for other, queued in self._queued.get(limit, {}).items():
            if queued.placer is not placer and queued.at > after and other != run and _before(queued.rank, rank):
                found.setdefault(other, 0)
        return found

    def waiting(self) -> dict[str, int]:
        """How many fires and runs wait, by the id of the limit. May be read from any thread."""
        after = self._clock.monotonic() - WAIT_VALID_S
        return {
            limit: sum(one.at > after for one in list(queued.values())) for limit, queued in list(self._queued.items())
        }

    async def replace(self, view: LimitView) -> None:
        """Cancel the runs that others are to replace. Repeated in each round: a run that was dispatched a moment ago
        may have started since.
        """
        runs = [run for chosen in view.replaced.values() for run in chosen]
        if runs:
            try:
                await self._canceller.cancel(runs, REPLACED)
            except Conflict as error:
                log.warning("not replaced yet", reason=str(error))


def _before(one: Rank, other: Rank) -> bool:
    return (-one[0], one[1]) < (-other[0], other[1])


class PermitRecovery:
    """The role. It also reads the named limits for metrics, and forgets keys that were not used for a day."""

    def __init__(
        self,
        limits: LimitStore,
        runs: RunStore,
        elector: Elector,
        gate: LimitGate,
        clock: Clock,
        timings: Timings,
        emit: EventSink = discard_event,
    ) -> None:
        self._limits, self._runs = limits, runs
        self._elector = elector
        self._gate = gate
        self._clock = clock
        self._timings = timings
        self._emit = emit
        self._forgot_at = clock.monotonic()
        self._holders: dict[str, int] = {}
        self.wake = Wake()

    async def step(self) -> float:
        if self._elector.tenure is None:
            self._holders = {}
            return IDLE_S
        now = self._clock.now()
        # Read before the runs. A permit may be acquired in between, but what is stale then stays so.
        held = await self._limits.held(now)
        self._holders = {name: len(state.permits) for state in held if (name := name_of(state.id)) is not None}
        old = [(state.id, one) for state in held for one in state.permits if one.since < now - YOUNG]
        standings = await self._runs.standings({one.run for _, one in old}) if old else {}
        stale = [
            PermitKey(limit, one.run, one.fence) for limit, one in old if is_stale(one, standings.get(one.run), now)
        ]
        if stale:
            await self._limits.release(stale)
            log.warning("permits recovered", permits=len(stale), run=stale[0].run)
            self._emit(PermitsRecovered(len(stale), stale[0].run))
        if self._clock.monotonic() - self._forgot_at >= FORGET_EVERY_S:
            self._forgot_at = self._clock.monotonic()
            await self._limits.forget_unused(UNUSED_FOR)
        return self._timings.reconcile

    def figures(self) -> tuple[Mapping[str, int], Mapping[str, int]] | None:
        """How many runs hold a permit and how many wait, by the name of the limit; None if another node leads."""
        if self._elector.tenure is None:
            return None
        waiting = {name: count for limit, count in self._gate.waiting().items() if (name := name_of(limit)) is not None}
        return self._holders, waiting
