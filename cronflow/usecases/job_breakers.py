"""The circuit breakers of jobs: what each attempt changes, which jobs are not retried, and closing one by hand.

`domain.job_breaker` has the rules. The error rate is computed from the attempts in the job's runs, so it needs no write
per attempt, and survives the leader and Redis; only opening and closing are written. Jobs without a breaker cost
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cronflow.domain.errors import Conflict
from cronflow.domain.events import JobBreakerClosed, JobBreakerOpened
from cronflow.domain.job import Job
from cronflow.domain.job_breaker import DECIDING, BreakerState, closed, observe
from cronflow.domain.retry_decision import FAILURES
from cronflow.domain.run import Attempt, RunState
from cronflow.ports import BreakerStore, Clock, EventSink, RunQuery, RunStore, discard_event

TRIES = 5
ATTEMPTED = frozenset(RunState) - {RunState.SKIPPED, RunState.CANCELLED}
"""The states of runs whose attempts may count."""


class JobBreakers:
    def __init__(self, breakers: BreakerStore, runs: RunStore, clock: Clock, emit: EventSink = discard_event) -> None:
        self._breakers, self._runs = breakers, runs
        self._clock = clock
        self._emit = emit

    async def observe(self, job: Job, latest: Attempt) -> str | None:
        """Take the end of an attempt into account, before it is recorded. Returns why it must not be retried, or None.
        Costs a read, and another one for a failure while the breaker is closed.
        """
        breaker = job.breaker
        if breaker is None or latest.outcome not in DECIDING:
            return None
        state = await self._state(job.name)
        earlier: list[Attempt] = []
        if latest.outcome in FAILURES and not state.is_open:
            # Each of them has at least one attempt, unless it has not started.
            runs = await self._runs.find(RunQuery(job=job.name, states=ATTEMPTED, limit=breaker.window))
            earlier = [attempt for run in runs for attempt in run.attempts]
        changed = observe(breaker, state, earlier, latest, self._clock.now())
        if changed != state and await self._breakers.replace(state, changed):
            if changed.is_open and not state.is_open:
                self._emit(JobBreakerOpened(job.name, changed.failed, changed.attempts))
            elif state.is_open and not changed.is_open:
                self._emit(JobBreakerClosed(job.name, "a run succeeded"))
        return changed.reason if changed.is_open else None

    async def stopped(self, jobs: Iterable[Job]) -> Mapping[str, str]:
        """Why failing runs are not retried, by job whose breaker is open."""
        return {name: state.reason for name, state in (await self.open(jobs)).items()}

    async def open(self, jobs: Iterable[Job]) -> Mapping[str, BreakerState]:
        """The open breakers of these jobs, by job."""
        names = {job.name for job in jobs if job.breaker is not None}
        found = await self._breakers.get(names) if names else {}
        return {name: state for name, state in found.items() if state.is_open}

    async def close(self, job: str) -> BreakerState | None:
        """Close the breaker of a job. Returns the state before, or None if it was closed. Raises Conflict."""
        for _ in range(TRIES):
            state = await self._state(job)
            if not state.is_open:
                return None
            if await self._breakers.replace(state, closed(state, self._clock.now())):
                return state
        raise Conflict(f"the circuit breaker of job {job!r} keeps changing; try again")

    async def _state(self, job: str) -> BreakerState:
        return (await self._breakers.get([job])).get(job) or BreakerState(job=job)
