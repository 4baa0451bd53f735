"""Dead letters, told by batches: one event for each job and way of dying, with a count and an example."""

from __future__ import annotations

from cronflow.domain.events import RunsFailed, RunsLost
from cronflow.domain.run import Change, RunState, job_of
from cronflow.ports import Tell


class Deaths:
    """What failed for good or was lost in one batch of changes."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, RunState], list[Change]] = {}

    def ended(self, change: Change) -> None:
        """A change that has applied."""
        if change.target in (RunState.FAILED, RunState.LOST):
            self._found.setdefault((job_of(change.run), change.target), []).append(change)

    def tell(self, tell: Tell) -> None:
        """Tell of all."""
        for (job, state), changes in self._found.items():
            last = changes[-1]
            if state is RunState.LOST:
                tell(RunsLost(job, len(changes), last.run))
            else:
                error = str(last.sets.get("error") or last.sets.get("outcome") or "")
                tell(RunsFailed(job, len(changes), last.run, error))
