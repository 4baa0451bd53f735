"""Returns runs whose handlers have not started to the leader, which places them again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from datetime import timedelta

import structlog

from cronflow.domain import transitions
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.placement import Waiting
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.ports import Assignment, Bus, Clock, Signal
from cronflow.worker.active import claimed_of
from cronflow.worker.local_queue import QueuedRun
from cronflow.worker.recorder import Recorder
from cronflow.worker.run_writer import pending_of
from cronflow.worker.spool import Finish, late_result

LIMIT_PAUSE = timedelta(milliseconds=100)

log = structlog.get_logger("cronflow.node")


class Returns:
    """`ids` gives a new id for each record, `ahead` how many runs the node accepts beyond its free slots. `done` is
    called whenever `busy` may have changed.
    """

    def __init__(
        self,
        recorder: Recorder,
        bus: Bus,
        clock: Clock,
        node: str,
        ids: Iterator[str],
        create_task: Callable[[Coroutine[object, object, None], str], asyncio.Task[None]],
        *,
        ahead: Callable[[], int],
        done: Callable[[], None],
    ) -> None:
        self._recorder = recorder
        self._bus = bus
        self._clock = clock
        self._node = node
        self._ids = ids
        self._create_task = create_task
        self._ahead = ahead
        self._done = done
        self._letting_go = 0

    @property
    def busy(self) -> bool:
        """Whether waiting runs are being returned or dropped."""
        return self._letting_go > 0

    def let_go(self, gone: Sequence[QueuedRun], why: str | None = None) -> None:
        """Return waiting runs, or only drop them if there is no reason to, and release their job locks. This is done in
        the background, because it may have to wait for the servers.
        """
        if gone:
            log.info("waiting runs dropped" if why is None else "given back", count=len(gone))
            self._letting_go += 1
            self._done()
            self._create_task(self._let_go([queued.assignment for queued in gone], why), "let go")

    async def _let_go(self, assignments: Sequence[Assignment], why: str | None) -> None:
        try:
            if why is not None:
                await self.give_back(assignments, why)
            await asyncio.gather(*(self._recorder.release(one.job_lock, self._ahead()) for one in assignments))
        finally:
            self._letting_go -= 1
            self._done()

    async def give_back(
        self, assignments: Sequence[Assignment], why: str, start_id: str = "", waiting: Waiting | None = None
    ) -> bool:
        """Return the runs, which wait for a limit with `waiting`. With a `start_id` the start of the run may be
        recorded. Returns whether all were returned: the others are no longer this node's.
        """
        attempt_result = AttemptResult(Outcome.DRAINED, error=why)
        if waiting is not None:
            # A leader that counts differently, because of its clock for example, would place it again at once.
            attempt_result = AttemptResult(Outcome.DEFERRED, error=why, delay=LIMIT_PAUSE)
        now = self._clock.now()
        finishes = []
        for assignment in assignments:
            claimed, finish_id = claimed_of(assignment, self._node, start_id), next(self._ids)
            late = late_result(claimed, attempt_result, finish_id, now)
            change = transitions.give_back(claimed, finish_id, attempt_result, now, waiting)
            finishes.append(Finish(change, late, pending=pending_of(assignment)))
        returned = await asyncio.gather(*(self._recorder.finish(finish) for finish in finishes))
        await self.notify_leader()
        return all(returned)

    async def notify_leader(self) -> None:
        try:
            await self._bus.notify(Signal.JOBS)
        except BackendUnavailable:
            # The leader finds the runs at its next poll.
            return
