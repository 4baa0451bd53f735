"""The recovery after an outage: showing it, and deciding about the missed runs that wait for a person.

A decision is one compare-and-set of the plan's document, so that of two people who decide at once the second one sees
what the first one did. The leader follows it; nothing else is changed here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from cronflow.domain.backfill import BackfillRate
from cronflow.domain.catch_up import MOST_PATTERNS, TOP, CatchUpPlan, CatchUpProgress, CatchUpState, HeldSummary
from cronflow.domain.errors import Conflict, InvalidInput, NotFound, Problem
from cronflow.domain.events import Event, RecoveryApproved, RecoverySkipped
from cronflow.ports import Backends, Clock
from cronflow.usecases.audit import Auditor, Changed
from cronflow.usecases.jobs import notify_leader

TRIES = 5
Decide = Callable[[CatchUpPlan], CatchUpPlan]


class CatchUpUseCases:
    def __init__(self, backends: Backends, clock: Clock, audit: Auditor) -> None:
        self._backends = backends
        self._clock = clock
        self._audit = audit

    def now(self) -> datetime:
        """The time from which durations count."""
        return self._clock.now()

    async def show(self) -> CatchUpProgress | None:
        """The recovery that is under way, or the last one; None if there was none."""
        plan = await self._backends.catch_up.plan()
        if plan is None:
            return None
        held = await self._backends.catch_up.summary(TOP) if plan.active else HeldSummary()
        return CatchUpProgress(plan, held)

    async def approve(self, *, rate: BackfillRate | None = None, only: str = "", by: str = "") -> CatchUpProgress:
        """Let the missed runs start, those of the jobs that match the pattern `only`, or all; `rate` replaces that of
        the plan. Approving again changes nothing but the rate.

        Raises NotFound without a recovery, Conflict while it is being counted or skipped, and InvalidInput if no job
        that waits matches.
        """

        def decide(plan: CatchUpPlan) -> CatchUpPlan:
            if plan.state is CatchUpState.SKIPPING:
                raise Conflict("the missed runs are being skipped")
            plan = plan if rate is None else replace(plan, rate=rate, next_at=None)
            if plan.state is CatchUpState.DRAINING:
                return plan
            if only:
                return replace(plan, approved=_added(plan.approved, only), skipped=_without(plan.skipped, only))
            return replace(plan, state=CatchUpState.DRAINING, by=by, decided_at=self._clock.now())

        def event(runs: int) -> Event:
            return RecoveryApproved(by, runs, only, "" if rate is None else str(rate))

        return await self._decide(decide, event, only, by)

    async def skip(self, *, note: str = "", only: str = "", by: str = "") -> CatchUpProgress:
        """Record the missed runs that have not started as skipped, those of the jobs that match the pattern `only`, or
        all. Skipping again changes nothing. Raises as `approve`, and InvalidInput for a pattern when all are approved.
        """

        def decide(plan: CatchUpPlan) -> CatchUpPlan:
            if plan.state is CatchUpState.SKIPPING:
                return plan
            if only and plan.state is CatchUpState.DRAINING:
                what = "applies while the recovery waits; all of its runs are approved"
                raise InvalidInput(Problem("by_job", what, "leave it out to skip all that have not started"))
            plan = replace(plan, by=by, note=note)
            if only:
                return replace(plan, skipped=_added(plan.skipped, only), approved=_without(plan.approved, only))
            return replace(plan, state=CatchUpState.SKIPPING, skip=True, decided_at=self._clock.now())

        return await self._decide(decide, lambda runs: RecoverySkipped(by, runs, only, note), only, by)

    async def _decide(self, decide: Decide, event: Callable[[int], Event], only: str, by: str) -> CatchUpProgress:
        store = self._backends.catch_up
        for _ in range(TRIES):
            plan = await store.plan()
            if plan is None or not plan.active:
                raise NotFound("recovery")
            if plan.state is CatchUpState.COUNTING:
                raise Conflict("the leader is still counting what was missed; try again in a few seconds")
            chosen = await store.summary(TOP, among=(only,) if only else ())
            if only and not chosen.jobs:
                raise InvalidInput(
                    Problem("by_job", f"no waiting job matches {only!r}", "list them: cronflow cluster recovery show")
                )
            after = decide(plan)
            if after == plan:
                return CatchUpProgress(plan, await store.summary(TOP))
            if await store.write(after):
                changed = Changed("cluster.recovery", "cluster", _shown(plan), _shown(after))
                await self._audit.record_events(by, (changed, event(chosen.runs)))
                await notify_leader(self._backends.bus)
                return CatchUpProgress(replace(after, rev=after.rev + 1), await store.summary(TOP))
        raise Conflict("the recovery keeps changing; try again")


def _added(patterns: tuple[str, ...], pattern: str) -> tuple[str, ...]:
    if pattern in patterns:
        return patterns
    if len(patterns) == MOST_PATTERNS:
        raise InvalidInput(
            Problem("by_job", f"the recovery already has {MOST_PATTERNS} patterns", "decide on the rest together")
        )
    return (*patterns, pattern)


def _without(patterns: tuple[str, ...], pattern: str) -> tuple[str, ...]:
    return tuple(one for one in patterns if one != pattern)


def _shown(plan: CatchUpPlan) -> dict[str, object]:
    return {
        "state": plan.state.value,
        "rate": None if plan.rate is None else str(plan.rate),
        "approved": list(plan.approved),
        "skipped": list(plan.skipped),
        "note": plan.note,
    }
