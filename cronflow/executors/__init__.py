"""Executors run one attempt of one kind of target and return its `AttemptResult`.

An attempt ends within the job's timeout and leaves nothing running, whatever the target does. Where that is impossible
(a thread), the log has an error. An executor only writes log lines; it does not decide about retries or use a backend.
This module chooses the executor by target, and runs system jobs; bootstrap imports the other executors.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Self

from cronflow.domain.durations import format_duration
from cronflow.domain.errors import CronFlowError
from cronflow.domain.job import SystemTarget, Target
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.ports import Assignment, Executor, LineSink, SelectiveExecutor


class Executors:
    """An Executor that delegates by type of target. As an async context manager it opens executors with a lifetime."""

    def __init__(self, by_target: Mapping[type[Target], Executor]) -> None:
        self._by_target = dict(by_target)
        self._declines = {
            target: executor.declines
            for target, executor in by_target.items()
            if isinstance(executor, SelectiveExecutor)
        }
        self._lifetimes = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opened:
            for executor in self._by_target.values():
                if isinstance(executor, AbstractAsyncContextManager):
                    await opened.enter_async_context(executor)
            self._lifetimes = opened.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._lifetimes.__aexit__(kind, error, trace)

    async def declines(self, assignment: Assignment, node: str) -> str | None:
        """See SelectiveExecutor: this node has no executor for the target, or its executor declines."""
        target = type(assignment.job.target)
        if target not in self._by_target:
            return f"node {node} has no executor for {target.__name__}"
        declines = self._declines.get(target)
        return None if declines is None else await declines(assignment, node)

    async def run(self, assignment: Assignment, node: str, log: LineSink) -> AttemptResult:
        """See Executor. Without an executor for the target, the attempt fails permanently."""
        target = type(assignment.job.target)
        executor = self._by_target.get(target)
        if executor is None:
            return AttemptResult(Outcome.PERMANENT, error=f"node {node} has no executor for {target.__name__}")
        return await executor.run(assignment, node, log)


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
