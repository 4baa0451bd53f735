"""Emits one event for each job whose code on a node differs from the stored job, and for each further change of it.

Nodes report the differences (`node.definition_watch`). Several nodes with the same code are one event, which names the
first of them. A new leader reads the latest of these events, so that it emits none again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from cronflow.domain.cluster import Member
from cronflow.domain.events import JobDefinitionDiffers
from cronflow.leader.elector import Elector
from cronflow.node.role_loop import Wake
from cronflow.ports import Clock, EventSink, EventStore

EVERY_S = 30.0
RECALLED = timedelta(days=7)
MOST_RECALLED = 1000
KIND = "job_definition_differs"


class DefinitionMonitor:
    """`members` are the nodes that are up, with their reports."""

    def __init__(
        self,
        events: EventStore,
        elector: Elector,
        clock: Clock,
        members: Callable[[], Sequence[Member]],
        emit: EventSink,
    ) -> None:
        self._events = events
        self._elector = elector
        self._clock = clock
        self._members = members
        self._emit = emit
        self._term = 0
        self._reported: set[tuple[str, str]] = set()
        self.wake = Wake()

    async def step(self) -> float:
        tenure = self._elector.tenure
        if tenure is None:
            return EVERY_S
        if tenure.term != self._term:
            since = self._clock.now() - RECALLED
            recent = await self._events.find(kinds={KIND}, since=since, limit=MOST_RECALLED)
            found = [one.event for one in recent if isinstance(one.event, JobDefinitionDiffers)]
            self._reported = {(one.job, one.digest) for one in found}
            self._term = tenure.term
        for member in sorted(self._members(), key=lambda member: member.report.name):
            for job, (keys, digest) in member.report.differing.items():
                if (job, digest) not in self._reported:
                    self._reported.add((job, digest))
                    self._emit(JobDefinitionDiffers(job, member.report.name, keys, digest))
        return EVERY_S
