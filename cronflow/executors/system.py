"""Runs the jobs of CronFlow itself, which keep its records in order."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Mapping

from cronflow.domain.durations import format_duration
from cronflow.domain.errors import CronFlowError
from cronflow.domain.job import SystemTarget
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.ports import Assignment, LineSink

SystemFunction = Callable[[Assignment, LineSink], Awaitable[object]]
"""Runs one attempt: writes log lines and returns a JSON result."""


class SystemExecutor:
    """Runs SystemTargets with the functions that bootstrap provides. An outage fails the attempt, which is retried."""

    def __init__(self, functions: Mapping[str, SystemFunction]) -> None:
        self._functions = dict(functions)

    async def run(self, assignment: Assignment, node: str, log: LineSink) -> AttemptResult:
        """See Executor."""
        target = assignment.job.target
        assert isinstance(target, SystemTarget)
        function = self._functions.get(target.name)
        if function is None:
            # The job comes from a newer version; the next attempt may go to a node that has it.
            return AttemptResult(Outcome.ERROR, error=f"node {node} has no system job {target.name}")
        try:
            async with asyncio.timeout(assignment.job.timeout.total_seconds()) as limit:
                return AttemptResult(Outcome.OK, result=await function(assignment, log))
        except TimeoutError:
            if not limit.expired():
                raise
            return AttemptResult(Outcome.TIMEOUT, error=f"timed out after {format_duration(assignment.job.timeout)}")
        except CronFlowError as error:
            return AttemptResult(Outcome.ERROR, error=str(error))
        except Exception as error:
            # A bug in CronFlow must not stop this node, and the next one at the next attempt.
            for line in traceback.format_exception(error):
                log("error", line.rstrip())
            return AttemptResult(Outcome.ERROR, error=f"{type(error).__name__}: {error}")
