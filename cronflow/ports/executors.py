"""What runs a job's target."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from cronflow.domain.run import AttemptResult
from cronflow.ports.coordination import Assignment


class LineSink(Protocol):
    """Where an attempt's output goes, line by line."""

    def __call__(self, level: str, text: str) -> None:
        """Take one line; never blocks."""


class Executor(Protocol):
    """Runs one attempt of one kind of target."""

    async def run(self, assignment: Assignment, node: str, log: LineSink) -> AttemptResult:
        """Run it to its end. The timeout of the job is the executor's to keep: afterwards nothing that it started still
        runs.

        Cancelling this coroutine stops what runs, within ten seconds by force, before the cancellation goes on. A
        target that had ended well before it learnt of the cancellation has: its ending is returned instead.
        """


@runtime_checkable
class SelectiveExecutor(Protocol):
    """An executor that can tell before an attempt whether this node can run it at all."""

    async def declines(self, assignment: Assignment, node: str) -> str | None:
        """Why not, if another node perhaps could; None when it may be tried here."""
