"""The counts: what ended on this node or was ended by it, added to the roll-ups once a second and told as metrics.

The rules it protects: a run costs no write of its own here, however many end; and a count is written once or not at
all. When the answer of a write is lost nobody knows whether it counted, and writing it again would count it twice: the
chart then lacks a second of one node. What ended while MongoDB was away is counted when its outcome is written.

What people cancel before it starts is ended by no node, and is not counted.
"""

from __future__ import annotations

from datetime import datetime

import structlog

from cronflow.domain import metrics
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.rollup import BucketSize, Tally, step_of
from cronflow.domain.run import ENDED, Attempt, Outcome, Run, fire_of
from cronflow.domain.transitions import Change
from cronflow.node.role_loop import NodeRole, Wake
from cronflow.ports import UNMETERED, Meter, RollupStore

EVERY_S = 1.0

log = structlog.get_logger("cronflow.node")


class RunCounter:
    """Counts in memory; `role` writes them."""

    def __init__(self, rollups: RollupStore, meter: Meter = UNMETERED) -> None:
        self._rollups = rollups
        self._meter = meter
        self._minutes: dict[datetime, Tally] = {}
        self.role = NodeRole("roll-ups", self.step, Wake())

    def changed(self, change: Change) -> None:
        """A change of a run that has applied."""
        ended_at = change.sets.get("ended_at")
        if change.target in ENDED and isinstance(ended_at, datetime):
            tally = self._tally(ended_at)
            tally.states[change.target.value] += 1
            self._meter.add(metrics.RUNS_ENDED, change.target.value)
            if isinstance(outcome := change.sets.get("outcome"), Outcome):
                tally.outcomes[outcome.value] += 1
            attempt = change.attempt
            if attempt is not None and attempt.started_at is not None:
                took = ended_at - attempt.started_at
                tally.duration[step_of(took)] += 1
                self._meter.observe(metrics.RUN_DURATION, max(0.0, took.total_seconds()))
        if change.attempt is not None:
            self._meter.add(metrics.ATTEMPTS_ENDED, change.attempt.outcome.value)
            self._lateness(change.run, change.attempt)

    def inserted(self, run: Run) -> None:
        """A run that had ended when it was made: one that was skipped."""
        if run.ended_at is not None:
            self._tally(run.ended_at).states[run.state.value] += 1
            self._meter.add(metrics.RUNS_ENDED, run.state.value)

    def _lateness(self, run: str, attempt: Attempt) -> None:
        # Of the first attempt alone, and of scheduled runs: the instant stands in their ids.
        fire = fire_of(run)
        if attempt.n == 1 and attempt.started_at is not None and fire is not None:
            self._tally(attempt.ended_at).lateness[step_of(attempt.started_at - fire)] += 1

    async def step(self) -> float:
        """Write what was counted since the last time."""
        minutes, self._minutes = self._minutes, {}
        if minutes:
            await self._rollups.add(minutes)
        return EVERY_S

    async def flush(self) -> None:
        """The last ones, because the process ends. Never raises BackendUnavailable."""
        try:
            await self.step()
        except BackendUnavailable as error:
            log.warning("counts not kept", reason=error.reason)

    def _tally(self, at: datetime) -> Tally:
        return self._minutes.setdefault(BucketSize.MINUTE.begin(at), Tally())
