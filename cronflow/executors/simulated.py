"""Attempts that fail before their handler starts, to test what follows: retries, delays, dead letters, alerts.

A node uses it with SIMULATE_FAILURE, and `cronflow.testing.run_job` with its `failing`. Nothing else about the run is
simulated. System jobs are never failed.
"""

from __future__ import annotations

from collections.abc import Callable

from cronflow.domain.errors import CronFlowError
from cronflow.domain.job import SystemTarget
from cronflow.domain.run import AttemptResult
from cronflow.executors.handlers import failed
from cronflow.ports import Assignment, Executor, LineSink, SelectiveExecutor


class SimulatedFailure(CronFlowError):
    """The error of an attempt that a node fails on purpose."""


def always_failing(_: Assignment) -> BaseException:
    """The failure of every attempt on a node with SIMULATE_FAILURE."""
    return SimulatedFailure("simulated failure for testing (SIMULATE_FAILURE)")


class WithSimulatedFailures:
    """Wraps the other executors. `failure_of` returns the error that an attempt fails with; None: the handler runs."""

    def __init__(self, inner: Executor, failure_of: Callable[[Assignment], BaseException | None]) -> None:
        self._inner = inner
        self._failure_of = failure_of

    async def declines(self, assignment: Assignment, node: str) -> str | None:
        """See SelectiveExecutor. A node that cannot run the job declines it all the same."""
        return await self._inner.declines(assignment, node) if isinstance(self._inner, SelectiveExecutor) else None

    async def run(self, assignment: Assignment, node: str, log: LineSink) -> AttemptResult:
        """See Executor."""
        system = isinstance(assignment.job.target, SystemTarget)
        error = None if system else self._failure_of(assignment)
        return await self._inner.run(assignment, node, log) if error is None else failed(error)
