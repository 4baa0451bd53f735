"""Decides whether an attempt may begin on this node: its memory, what it can run, and the permits of the run's limits.

Whoever is not admitted uses up no attempt, except a run that has no value for a key of a limit: no node could ever
start it.
"""

from __future__ import annotations

from dataclasses import dataclass

from cronflow.domain.concurrency import uses_of
from cronflow.domain.errors import InvalidInput
from cronflow.domain.placement import MEMORY_LIMIT, Waiting
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.node.heartbeat import Heartbeat
from cronflow.ports import Assignment, Clock, Executor, SelectiveExecutor
from cronflow.worker.active import Active
from cronflow.worker.permits import Permits, Wanted
from cronflow.worker.unexpected import failed_unexpectedly


@dataclass(frozen=True, slots=True)
class NotAdmitted:
    """Why an attempt may not begin: its result, or the reason to give the run back, which may wait for a limit. With
    neither, the node stops.
    """

    result: AttemptResult | None = None
    why: str = ""
    waiting: Waiting | None = None


class Admission:
    def __init__(self, heartbeat: Heartbeat, executor: Executor, permits: Permits, clock: Clock, node: str) -> None:
        self._heartbeat = heartbeat
        self._declines = executor.declines if isinstance(executor, SelectiveExecutor) else None
        self._permits = permits
        self._clock = clock
        self._node = node

    async def refusal(self, active: Active) -> NotAdmitted | None:
        """Why the attempt may not begin, or None. It then has the permits of all its limits."""
        assignment = active.assignment
        try:
            refused = await self._refused(assignment)
        except Exception as error:
            refused = failed_unexpectedly(active, error)
        if refused is not None or not assignment.job.has_limits:
            return None if refused is None else NotAdmitted(refused)
        try:
            uses = uses_of(assignment.job, assignment.args)
        except InvalidInput as error:
            return NotAdmitted(AttemptResult(Outcome.PERMANENT, error=str(error)))
        active.permits = Wanted(uses, assignment.run, assignment.fence, self._node)
        answer = await self._permits.acquire(active.permits)
        if answer.granted:
            return None
        if answer.obstacle is None:
            return NotAdmitted()
        waiting = answer.obstacle.waiting(assignment.fire_at, self._clock.now())
        return NotAdmitted(why=answer.obstacle.reason, waiting=waiting)

    async def _refused(self, assignment: Assignment) -> AttemptResult | None:
        """Why the run is deferred or declined, or None."""
        if self._heartbeat.memory >= MEMORY_LIMIT:
            return AttemptResult(Outcome.DEFERRED, error=f"memory at {self._heartbeat.memory:.0%}")
        if self._declines is not None:
            reason = await self._declines(assignment, self._node)
            if reason is not None:
                return AttemptResult(Outcome.DECLINED, error=reason)
        return None
