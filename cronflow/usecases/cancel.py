"""Cancelling runs: what has not started ends at once, what runs is asked to end.

The rule it protects: the document in MongoDB says that a run is cancelled (`cancel`), or is to be (`request_cancel`);
the mark in Redis and its ring only bring that to the worker sooner. So the document is written first, and a mark that
is lost costs a lease renewal. It does not wait for the end of what runs.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection

from cronflow.domain import transitions
from cronflow.domain.errors import BackendUnavailable, Conflict
from cronflow.domain.run import Run, RunState
from cronflow.ports import Clock, Queue, RunStore

TRIES = 20


class Canceller:
    """Cancels through the ports, for a person or for the leader."""

    def __init__(self, runs: RunStore, queue: Queue, clock: Clock) -> None:
        self._runs, self._queue = runs, queue
        self._clock = clock

    async def cancel(self, ids: Collection[str], reason: str, by: str = "") -> list[Run]:
        """Cancel those that are open, and return all as they then are. Repeating it is harmless.

        Raises Conflict when one of them keeps changing meanwhile.
        """
        open_ids = None
        for _ in range(TRIES):
            found = await self._runs.get(ids)
            if open_ids is None:
                open_ids = [run.id for run in found if run.is_open]
            todo = [run for run in found if run.is_open and not _is_asked(run)]
            if not todo:
                await self._mark(open_ids)
                return found
            now = self._clock.now()
            await self._runs.apply([transitions.cancel(run, reason, by, secrets.token_hex(12), now) for run in todo])
        raise Conflict("the runs keep changing while they are cancelled; try once more")

    async def _mark(self, ids: Collection[str]) -> None:
        if not ids:
            return
        try:
            await self._queue.cancel(ids)
        except BackendUnavailable:
            # The documents say so; the workers read them with the renewal of their leases.
            return


def _is_asked(run: Run) -> bool:
    return run.state is RunState.RUNNING and run.cancel_requested
