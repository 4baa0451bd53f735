"""Chooses the executor of an attempt by the kind of its target."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Self

from cronflow.domain.job import Target
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
