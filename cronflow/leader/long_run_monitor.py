"""Finds the runs that take longer than usual, and emits one event for each.

Every ten seconds it reads which runs have been running for more than ten seconds, in one query. How long a job usually
takes is read once in ten minutes, and only for jobs with such a run. A new leader reads the latest of these events, so
that it emits none again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from cronflow.domain.events import RunLong
from cronflow.domain.long_runs import AT_LEAST_LONGER, LongRun, UsualDuration, seconds
from cronflow.leader.elector import Elector
from cronflow.node.role_loop import Wake
from cronflow.ports import Clock, EventSink, EventStore, RunStore
from cronflow.usecases.usual_duration import read_usual_duration

EVERY_S = 10.0
MOST_RUNNING = 10_000
USUAL_VALID_S = 600.0
READ_AT_ONCE = 100
"""Jobs whose usual duration is read in one round; the others follow in the next."""
MOST_REMEMBERED = 10_000
RECALLED = timedelta(days=1)
MOST_RECALLED = 1000


class LongRunMonitor:
    def __init__(
        self,
        runs: RunStore,
        events: EventStore,
        elector: Elector,
        clock: Clock,
        emit: EventSink,
    ) -> None:
        self._runs, self._events = runs, events
        self._elector = elector
        self._clock = clock
        self._emit = emit
        self._term = 0
        self._usual: dict[str, tuple[float, UsualDuration | None]] = {}
        self._reported: dict[str, None] = {}
        self.current: Sequence[LongRun] = ()
        """The long runs, as of the last look of this leader."""
        self.wake = Wake()

    async def step(self) -> float:
        tenure = self._elector.tenure
        if tenure is None:
            self.current = ()
            return EVERY_S
        now = self._clock.now()
        if tenure.term != self._term:
            recent = await self._events.find(kinds={"run_long"}, since=now - RECALLED, limit=MOST_RECALLED)
            self._reported = {one.event.run: None for one in recent if isinstance(one.event, RunLong)}
            self._term = tenure.term
        running = await self._runs.running(now - AT_LEAST_LONGER, MOST_RUNNING)
        await self._learn({run.job for run in running})
        long = []
        for run in running:
            _, usual = self._usual.get(run.job, (0.0, None))
            if usual is not None and now - run.started_at > usual.limit:
                long.append(LongRun(run.id, run.job, run.node, run.started_at, usual))
        self.current = long
        for one in long:
            if one.run not in self._reported:
                self._emit(RunLong(one.run, one.job, seconds(now - one.started_at), seconds(one.usual.p95)))
        # A run that is no longer running is never found again under the same id and attempt.
        self._reported = {one.run: None for one in long} | dict(list(self._reported.items())[-MOST_REMEMBERED:])
        return EVERY_S

    async def _learn(self, jobs: set[str]) -> None:
        now = self._clock.monotonic()
        unknown = [job for job in sorted(jobs) if job not in self._usual or now - self._usual[job][0] > USUAL_VALID_S]
        for job in unknown[:READ_AT_ONCE]:
            self._usual[job] = (now, await read_usual_duration(self._runs, job))
        if len(self._usual) > MOST_REMEMBERED:
            self._usual = {job: known for job, known in self._usual.items() if job in jobs}
