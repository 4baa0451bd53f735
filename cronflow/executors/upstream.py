"""Inserts what upstream runs left into a target just before an attempt.

Results are read when the attempt begins, so they are never copied into other documents. Values are inserted after the
secrets and are not searched for references, so a result cannot reveal a secret.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Self

from cronflow.domain.errors import BackendUnavailable, InvalidInput
from cronflow.domain.run import AttemptResult, Outcome, Run
from cronflow.domain.upstream_values import refers_to_upstream, with_upstream_values
from cronflow.executors.by_target import Executors
from cronflow.ports import Assignment, LineSink, ResultStore, RunStore

READ_AGAIN_IN = timedelta(seconds=10)


class WithUpstreamValues:
    """Wraps the other executors."""

    def __init__(self, inner: Executors, runs: RunStore, results: ResultStore) -> None:
        self._inner = inner
        self._runs, self._results = runs, results

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._inner.__aexit__(kind, error, trace)

    async def declines(self, assignment: Assignment, node: str) -> str | None:
        """See SelectiveExecutor."""
        return await self._inner.declines(assignment, node)

    async def run(self, assignment: Assignment, node: str, log: LineSink) -> AttemptResult:
        """See Executor. A value that is missing fails the attempt permanently. While runs cannot be read, the attempt
        is deferred.
        """
        if not refers_to_upstream(assignment.job.target):
            return await self._inner.run(assignment, node, log)
        try:
            runs = await self._upstream(assignment)
        except BackendUnavailable as error:
            return AttemptResult(Outcome.DEFERRED, error=f"cannot read the upstream runs: {error}", delay=READ_AGAIN_IN)
        try:
            target = with_upstream_values(assignment.job, assignment.args, runs)
        except InvalidInput as error:
            return AttemptResult(Outcome.PERMANENT, error=str(error))
        return await self._inner.run(replace(assignment, job=replace(assignment.job, target=target)), node, log)

    async def _upstream(self, assignment: Assignment) -> dict[str, Run]:
        """The upstream runs by job, with their whole results."""
        of = () if assignment.chain is None else assignment.chain.of
        found = await self._runs.get([one.run for one in of]) if of else []
        large = [run.finish_id for run in found if run.result_size is not None and run.finish_id is not None]
        results = await self._results.get(large) if large else {}
        return {
            run.job: replace(run, result=results[run.finish_id]) if run.finish_id in results else run for run in found
        }
