"""Runs the system's own jobs: pieces of CronFlow itself, by name, as its builder gave them.

It protects one rule: nothing but what the node was given runs. It knows neither what the pieces do nor which servers
they use; they are coroutine functions, and an outage in one of them is a failed attempt like any other, to be retried.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Mapping

from cronflow.domain.durations import format_duration
from cronflow.domain.errors import CronFlowError
from cronflow.domain.job import SystemTarget
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.ports import Assignment, LineSink

Piece = Callable[[Assignment, LineSink], Awaitable[object]]
"""One attempt: it writes lines, and returns the result as JSON knows it."""


class SystemExecutor:
    """Runs SystemTargets."""

    def __init__(self, pieces: Mapping[str, Piece]) -> None:
        self._pieces = dict(pieces)

    async def run(self, assignment: Assignment, node: str, log: LineSink) -> AttemptResult:
        """See Executor."""
        target = assignment.job.target
        assert isinstance(target, SystemTarget)
        piece = self._pieces.get(target.name)
        if piece is None:
            # Of a newer version: a node that has it may get the next attempt.
            return AttemptResult(Outcome.ERROR, error=f"the node {node} does not know how to {target.name}")
        try:
            async with asyncio.timeout(assignment.job.timeout.total_seconds()) as limit:
                return AttemptResult(Outcome.OK, result=await piece(assignment, log))
        except TimeoutError:
            if not limit.expired():
                raise
            return AttemptResult(
                Outcome.TIMEOUT, error=f"it took longer than {format_duration(assignment.job.timeout)}"
            )
        except CronFlowError as error:
            return AttemptResult(Outcome.ERROR, error=str(error))
        except Exception as error:
            # A mistake of ours must not take the node with it, and at the next attempt another one.
            for line in traceback.format_exception(error):
                log("error", line.rstrip())
            return AttemptResult(Outcome.ERROR, error=f"{type(error).__name__}: {error}")
