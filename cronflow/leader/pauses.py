"""Ends pauses whose time is over: the leader resumes their jobs, as a person would.

The end is stored with the job, and resuming continues from that instant, so a pause ends on time although no leader was
there: the fires since then are late, and not skipped. Two leaders at the same time do no harm, because an edit compares
the job's `rev`. It costs the leader one read every five seconds.
"""

from __future__ import annotations

import structlog

from cronflow.domain.errors import Conflict
from cronflow.domain.events import JobResumed
from cronflow.leader.elector import Elector
from cronflow.leader.read_limit import ReadLimit
from cronflow.node.role_loop import Wake
from cronflow.ports import Clock, EventSink, JobStore, discard_event
from cronflow.usecases.edit import Editor

IDLE_S = 5.0
LOOK_S = 1.0
AT_ONCE = 50

log = structlog.get_logger("cronflow.node")


class PauseEnder:
    """It looks at the earliest end, and sleeps until then."""

    def __init__(
        self, jobs: JobStore, editor: Editor, elector: Elector, clock: Clock, emit: EventSink = discard_event
    ) -> None:
        self._jobs = jobs
        self._editor = editor
        self._elector = elector
        self._clock = clock
        self._emit = emit
        self._limit = ReadLimit(clock, LOOK_S)
        self.wake = Wake()

    async def step(self) -> float:
        if self._elector.tenure is None:
            self._limit.reset()
            return IDLE_S
        if wait_s := self._limit.wait_s():
            return wait_s
        now, pause_s = self._clock.now(), IDLE_S
        for record in await self._jobs.pauses(AT_ONCE):
            assert record.pause is not None
            assert record.pause.until is not None
            if record.pause.until > now:
                # They are in order.
                return max(LOOK_S, min(pause_s, (record.pause.until - now).total_seconds()))
            try:
                after = await self._editor.resume(record.name, ended=record.pause)
            except Conflict as error:
                log.warning("pause not ended yet", job=record.name, reason=str(error))
                pause_s = LOOK_S
                continue
            if not after.paused:
                self._emit(JobResumed(record.name, ""))
            # There may be more.
            pause_s = LOOK_S
        return pause_s
