"""Running a job's target."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from cronflow.domain.run import AttemptResult
from cronflow.ports.coordination import Assignment


class LineSink(Protocol):
    """Accepts an attempt's output, line by line."""

    def __call__(self, level: str, text: str) -> None:
        """Never blocks."""


class Executor(Protocol):
    """Runs one attempt of one kind of target."""

    async def run(self, assignment: Assignment, node: str, log: LineSink) -> AttemptResult:
        """Run the target to its end. The executor enforces the job's timeout and stops everything it started.

        Cancelling this coroutine stops the target, by force within ten seconds, before the cancellation propagates. If
        the target succeeds before it notices the cancellation, its result is returned instead.
        """


@runtime_checkable
class SelectiveExecutor(Protocol):
    """An executor that can decline an attempt that this node cannot run."""

    async def declines(self, assignment: Assignment, node: str) -> str | None:
        """The reason to decline, if another node might be able to run it. None to run it here."""
