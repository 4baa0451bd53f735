"""Executors: one attempt of one kind of target, from its start to its `AttemptResult`.

The rule: an attempt ends within the job's timeout and leaves nothing behind, whatever the target does; where that is
impossible (a thread) the log says so. An executor writes nothing but lines, decides nothing about retries and knows no
backend. This module has the table that chooses the executor; each of the others is imported by whoever builds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Self

from cronflow.domain.job import Target
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.ports import Assignment, Executor, LineSink, SelectiveExecutor


class Executors:
    """An executor for each type of target; itself an Executor. `async with` it: it opens those that have a lifetime."""

    def __init__(self, by_target: Mapping[type[Target], Executor]) -> None:
        self._by_target = dict(by_target)
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
        """See Choosy: no executor for its target, or what that one says."""
        target = type(assignment.job.target)
        executor = self._by_target.get(target)
        if executor is None:
            return f"the node {node} runs no {target.__name__}"
        return await executor.declines(assignment, node) if isinstance(executor, SelectiveExecutor) else None

    async def run(self, assignment: Assignment, node: str, log: LineSink) -> AttemptResult:
        """Run it by the executor of its target; where this node has none, the attempt fails for good."""
        target = type(assignment.job.target)
        executor = self._by_target.get(target)
        if executor is None:
            return AttemptResult(Outcome.PERMANENT, error=f"the node {node} runs no {target.__name__}")
        return await executor.run(assignment, node, log)
