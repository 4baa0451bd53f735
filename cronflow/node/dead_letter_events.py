"""Dead letters, told by batches: one event for each job and way of dying, with a count and an example."""

from __future__ import annotations

from cronflow.domain.events import RunsFailed, RunsLost
from cronflow.domain.run import RunState, job_of
from cronflow.domain.transitions import Change
from cronflow.ports import EventSink


class DeadLetterEvents:
    """What failed for good or was lost in one batch of changes."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, RunState], list[Change]] = {}

    def ended(self, change: Change) -> None:
        """A change that has applied."""
        if change.target in (RunState.FAILED, RunState.LOST):
            self._found.setdefault((job_of(change.run), change.target), []).append(change)

    def emit(self, emit: EventSink) -> None:
        """Tell of all."""
        for (job, state), changes in self._found.items():
            last = changes[-1]
            if state is RunState.LOST:
                emit(RunsLost(job, len(changes), last.run))
            else:
                error = str(last.sets.get("error") or last.sets.get("outcome") or "")
                emit(RunsFailed(job, len(changes), last.run, error))
