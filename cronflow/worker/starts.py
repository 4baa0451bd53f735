"""Records the starts of attempts: before the handler where the job demands it, otherwise once it has run for a moment.

Rule: a handler whose start belongs to another attempt is stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta

from cronflow.domain import transitions
from cronflow.node.timings import Timings
from cronflow.ports import Clock
from cronflow.worker.active import Active
from cronflow.worker.recorder import Recorder
from cronflow.worker.run_writer import RunWrite, pending_of


class Starts:
    """`current` has the attempts of this node; `superseded` is called for each executing one whose run belongs to
    another attempt.
    """

    def __init__(
        self,
        recorder: Recorder,
        clock: Clock,
        timings: Timings,
        current: Mapping[tuple[str, int], Active],
        superseded: Callable[[Active], None],
        create_task: Callable[[Coroutine[object, object, None], str], asyncio.Task[None]],
    ) -> None:
        self._recorder = recorder
        self._clock = clock
        self._timings = timings
        self._current = current
        self._superseded = superseded
        self._create_task = create_task
        self._marking: asyncio.Task[None] | None = None

    def expect(self, active: Active) -> None:
        """The handler starts now: have its start recorded after `start_mark` seconds, unless it is."""
        if not active.marked and self._marking is None:
            self._marking = self._create_task(self._mark_all(), "mark starts")

    async def record(self, active: Active) -> bool | None:
        """Record the start. Returns False when the run belongs to another attempt, None when it is unknown whether the
        start is recorded, because the recorder gave up.
        """
        started_at = active.started_at or self._clock.now()
        lease = timedelta(seconds=self._timings.run_lease)
        change = transitions.start(active.claimed, active.claimed.start_id, started_at, lease)
        won = await self._recorder.start(RunWrite(change, pending_of(active.assignment)))
        active.marked, active.started_at = bool(won), started_at
        return won

    async def _mark_all(self) -> None:
        """Record the starts that are older than half of `start_mark`, until no unrecorded start is left. Most runs have
        ended by then.
        """
        try:
            while unmarked := [
                one for one in self._current.values() if one.executing and not (one.marked or one.superseded)
            ]:
                pause = self._timings.start_mark / 2
                before = self._clock.monotonic() - pause
                old = [active for active in unmarked if active.began <= before]
                await asyncio.gather(*map(self._mark, old), self._clock.sleep(pause))
        finally:
            self._marking = None

    async def _mark(self, active: Active) -> None:
        if await self.record(active) is False and active.executing:
            self._superseded(active)
