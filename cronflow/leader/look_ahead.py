"""Look-ahead: plans runs up to two seconds before their instant, on nodes that hold them until then.

Rule: only a run that would fire as matters stand is planned early, into capacity that no due job needs. Skips, overlap,
placement rules and missing nodes are decided at the instant, so a job that does not fit is left alone until then.

A run that waits for its instant uses no slot, although its node lists it as taken. So the leader counts those that it
has placed. A new leader does not know them, and takes nodes for fuller than they are for at most two seconds.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from datetime import datetime, timedelta

from cronflow.domain.capabilities import needs_of
from cronflow.domain.cluster import Tenure
from cronflow.domain.job import JobRecord, PendingRun
from cronflow.domain.placement import Fleet, NoNode
from cronflow.domain.placement_rules import has_rules
from cronflow.domain.planning import cursor_after, decide_early
from cronflow.domain.run import RunState
from cronflow.ports import Move

LEAST_AT_ONCE = 100


class LookAhead:
    """`seconds` is how early a run may be planned, 0 for not at all; `most_at_once` limits one round."""

    def __init__(self, seconds: float = 0.0, most_at_once: int = 2000) -> None:
        self.window = timedelta(seconds=seconds)
        self._most_at_once = most_at_once
        self._waiting: Counter[str] = Counter()
        self._instants: list[tuple[datetime, str]] = []
        self.limit = most_at_once if seconds else 0
        self.more = False

    def next_look(self, due_at: datetime, now: datetime) -> datetime:
        """When to look again at a job that was looked at now: as soon as it may be planned early, or else when it is
        due.
        """
        early = due_at - self.window
        return early if early > now else due_at

    def among(self, records: Sequence[JobRecord], now: datetime) -> list[JobRecord]:
        """The jobs whose next fire may be planned early."""
        if not self.window:
            return []
        until = now + self.window
        return [
            record
            for record in records
            if record.due_at is not None
            and now < record.due_at <= until
            and record.next_fire is not None
            and record.next_fire > now
        ]

    def decide_all(
        self, tenure: Tenure, early: Sequence[JobRecord], having_open_runs: Container[str], fleet: Fleet, now: datetime
    ) -> list[tuple[JobRecord, Move]]:
        """The jobs that are planned early, with their moves. `having_open_runs` contains the names of jobs."""
        full = len(early) >= self.limit
        self.limit = min(self._most_at_once, fleet.early_capacity + LEAST_AT_ONCE)
        found = []
        for record in sorted(early, key=_by_instant):
            if fleet.early_capacity <= 0:
                break
            move = self._decide(tenure, record, record.name in having_open_runs, fleet, now)
            if move is not None:
                found.append((record, move))
        # Some of this window were not read yet.
        self.more = full and bool(found) and fleet.early_capacity > 0
        return found

    def _decide(
        self, tenure: Tenure, record: JobRecord, has_open_run: bool, fleet: Fleet, now: datetime
    ) -> Move | None:
        decision = decide_early(record, now, now + self.window, has_open_run)
        if decision is None or has_rules(record.job):
            return None
        placed = fleet.place(needs_of(record.job), early=True)
        if isinstance(placed, NoNode):
            return None
        self.placed(placed.node, decision.fire)
        pending_run = PendingRun(
            fire=decision.fire,
            state=RunState.DISPATCHED,
            fence=tenure.fences.next(now),
            job_ver=record.ver,
            at=now,
            node=placed.node,
            placement=placed,
            followed=record.followed,
        )
        return Move(
            job=record.name,
            rev=record.rev,
            next_fire=cursor_after(record, decision),
            pending_run=pending_run,
            priority=record.job.priority,
            counts=record.runs_left is not None,
        )

    def placed(self, node: str, instant: datetime) -> None:
        """Count a run that waits on this node until its instant."""
        self._waiting[node] += 1
        heapq.heappush(self._instants, (instant, node))

    def waiting(self, now: datetime) -> Mapping[str, int]:
        """How many runs wait for their instant, by node."""
        while self._instants and self._instants[0][0] <= now:
            _, node = heapq.heappop(self._instants)
            self._waiting[node] -= 1
            if not self._waiting[node]:
                del self._waiting[node]
        return self._waiting


def _by_instant(record: JobRecord) -> tuple[datetime | None, int]:
    return record.due_at, -record.job.priority
