"""Late inserts: the runs that were pushed to their nodes before they were inserted.

Workers insert most short runs as they ended. After two seconds the leader inserts the others, as their jobs' documents
state, and only then removes the intents of their batches. If this process dies, plan recovery finds the intents.

Inserting is safe at any time and in any term. So a node that no longer leads inserts what is left at once.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

import structlog

from cronflow.domain.job import Job, PendingRun
from cronflow.domain.planning import run_of_pending
from cronflow.leader.elector import Elector
from cronflow.leader.pending_runs import PendingRuns
from cronflow.node.role_loop import SHORTEST_ROUND_S, Wake
from cronflow.ports import Clock, PlanStore, RunStore

INSERT_AFTER_S = 2.0
"""Longer than nodes queue runs ahead, about a second; far less than the age at which plan recovery takes an intent."""
GATHER_S = 0.25
MOST_DEFERRED = 20_000
AT_ONCE = 500
FORGET_AFTER_S = 60.0
IDLE_S = 5.0

log = structlog.get_logger("cronflow.node")


class Pushed(NamedTuple):
    """A run that may have no document yet: its id, its job, and the pending run that it comes from."""

    run: str
    job: Job
    pending_run: PendingRun


@dataclass(frozen=True, slots=True)
class Batch:
    """Runs that were pushed together, the intent that announces them, and the term in which they were planned. `at` is
    the monotonic time of the push, or of their instant if that is later.
    """

    intent: str
    term: int
    runs: Sequence[Pushed]
    at: float


class LateInserts:
    def __init__(
        self,
        plans: PlanStore,
        runs: RunStore,
        pending_runs: PendingRuns,
        elector: Elector,
        clock: Clock,
        most: int = MOST_DEFERRED,
    ) -> None:
        self._plans, self._runs = plans, runs
        self._pending_runs = pending_runs
        self._elector = elector
        self._clock = clock
        self._most = most
        self._batches: deque[Batch] = deque()
        self._deferred = 0
        self._closed = False
        self._inserting = asyncio.Lock()
        self.wake = Wake()

    @property
    def capacity(self) -> int:
        """How many more runs may be inserted late."""
        return 0 if self._closed else self._most - self._deferred

    def defer(self, intent: str, term: int, runs: Sequence[Pushed], early: timedelta = timedelta(0)) -> None:
        """Insert these runs later, and then remove the intent. Call this before they are pushed. `early` is how long
        they wait for their instant.
        """
        batch = Batch(intent, term, runs, self._clock.monotonic() + early.total_seconds())
        place = len(self._batches)
        while place and self._batches[place - 1].at > batch.at:
            place -= 1
        self._batches.insert(place, batch)
        self._deferred += len(runs)
        self.wake.set()

    async def step(self) -> float:
        """Insert the runs of the batches that are old enough."""
        async with self._inserting:
            while self._batches:
                # Together with those that are due soon.
                left = INSERT_AFTER_S + GATHER_S - (self._clock.monotonic() - self._batches[0].at)
                if left > 0 and not self._at_once:
                    return max(left, SHORTEST_ROUND_S)
                await self._insert_oldest()
        return IDLE_S

    async def close(self) -> None:
        """Insert what is left, and accept no more. The node is about to resign."""
        self._closed = True
        await self.step()

    @property
    def _at_once(self) -> bool:
        return self._closed or self._elector.tenure is None

    async def _insert_oldest(self) -> None:
        """Insert the oldest batches, a few hundred runs, in one call each of the stores. A younger run is left to its
        worker, for which changing a run costs more than inserting it.
        """
        now = self._clock.monotonic()
        chosen = [self._batches[0]]
        size = len(chosen[0].runs)
        for batch in itertools.islice(self._batches, 1, None):
            size += len(batch.runs)
            if size > AT_ONCE or (now - batch.at < INSERT_AFTER_S and not self._at_once):
                break
            chosen.append(batch)
        await self._insert(chosen)
        for _ in chosen:
            self._deferred -= len(self._batches.popleft().runs)

    async def _insert(self, batches: Sequence[Batch]) -> None:
        if self._clock.monotonic() - batches[0].at > FORGET_AFTER_S:
            # MongoDB was away for long. Plan recovery reads the jobs as they are now.
            log.info("late inserts left to plan recovery", batches=len(batches))
            return
        unsure = {
            one.run: (one, batch.term)
            for batch in batches
            for one in batch.runs
            if not self._pending_runs.has_inserted(one.job.name, one.pending_run)
        }
        missing = unsure.keys() - await self._runs.existing(unsure) if unsure else ()
        if missing:
            absent = map(unsure.__getitem__, missing)
            await self._runs.insert([run_of_pending(one.job, one.pending_run, term) for one, term in absent])
        for one, _ in unsure.values():
            self._pending_runs.inserted(one.job.name, one.pending_run)
        await self._plans.remove([batch.intent for batch in batches])
