"""The executor of a rehearsal: it executes nothing. A run occupies its slot for the duration of its job.

Rule: of an assignment it reads the name of the job and its timeout, never the target.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from cronflow.domain.cluster import node_name
from cronflow.domain.durations import format_duration
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.ports import Assignment, Clock, LineSink


@dataclass(slots=True)
class Execution:
    """An attempt. Without an end it still runs, or was interrupted with the rehearsal."""

    run: str
    job: str
    node: str
    began: datetime
    ended: datetime | None = None
    interrupted: bool = False


class SimulatedExecutor:
    """The Executor port. `active` are the present attempts by run. `scheduled` is called when an end was added to those
    that it waits for.
    """

    def __init__(self, clock: Clock, duration_of: Callable[[str], timedelta]) -> None:
        self.executions: list[Execution] = []
        self.active: dict[str, Execution] = {}
        self.scheduled: Callable[[], None] = lambda: None
        self._clock = clock
        self._duration_of = duration_of
        self._ends: list[tuple[datetime, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    async def run(self, assignment: Assignment, node: str, log: LineSink) -> AttemptResult:
        """Wait until the wall clock shows the end of the attempt."""
        name, timeout = assignment.job.name, assignment.job.timeout
        began, duration = self._clock.now(), self._duration_of(name)
        execution = Execution(assignment.run, name, node_name(node), began)
        self.executions.append(execution)
        self.active[assignment.run] = execution
        end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._ends, (began + min(duration, timeout), next(self._numbers), end))
        self.scheduled()
        try:
            await end
        except asyncio.CancelledError:
            execution.interrupted = True
            raise
        finally:
            execution.ended = self._clock.now()
            if self.active.get(assignment.run) is execution:
                del self.active[assignment.run]
        if duration > timeout:
            return AttemptResult(Outcome.TIMEOUT, error=f"timed out after {format_duration(timeout)}")
        return AttemptResult(Outcome.OK)

    def next_end(self) -> datetime | None:
        """When the next attempt ends."""
        while self._ends and self._ends[0][2].done():
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else None

    def end_due(self) -> bool:
        """End the attempts whose time has come. Returns whether there were any."""
        ended = False
        while (end := self.next_end()) is not None and end <= self._clock.now():
            heapq.heappop(self._ends)[2].set_result(None)
            ended = True
        return ended
