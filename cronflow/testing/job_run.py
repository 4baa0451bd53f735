"""Runs a job of an App in this process, with all its attempts, as a node would.

The executor, the retry rules and the transitions are the real ones, on the memory backend. The clock is virtual: a
delay between two attempts is computed and skipped, never waited for. While the handler runs, the clock stands still;
timeouts are real. There is no schedule, no leader and no other run: limits, overlap and circuit breakers do not apply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count

from cronflow.app import App
from cronflow.documents.values import got, instant
from cronflow.domain import transitions
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import Job, PendingRun, Retry
from cronflow.domain.planning import run_of_pending
from cronflow.domain.recovery import Dispatch
from cronflow.domain.run import PROGRESS, Attempt, Run, RunState
from cronflow.domain.split import RunOn, Shard
from cronflow.executors.prints import capturing_prints
from cronflow.executors.python import PythonExecutor, PythonTargets
from cronflow.executors.simulated import WithSimulatedFailures
from cronflow.ports import Assignment
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import memory_backends
from cronflow.worker.active import claimed_of

NODE = "test#1"
TERM = VERSION = 1
LEASE = timedelta(minutes=1)

Failure = type[BaseException] | BaseException | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """What became of a run.

    `state` is succeeded, failed or skipped. `result` is what the function returned, as JSON. `error` is that of the
    last attempt, with its traceback, and `reason` why a failed attempt was not retried, if not for their number.
    `delays` are the seconds before each retry. `log` has the lines of all attempts with their level, such as
    `info building report`, and `progress` those of `ctx.progress`, such as `12/40`.
    """

    job: str
    state: RunState
    result: object
    error: str | None
    reason: str | None
    attempts: Sequence[Attempt]
    delays: list[float]
    log: list[str] = field(repr=False)
    progress: list[str] = field(repr=False)

    @property
    def succeeded(self) -> bool:
        return self.state is RunState.SUCCEEDED

    def __repr__(self) -> str:
        number = len(self.attempts)
        text = f"{self.job} {self.state} after {number} attempt{'' if number == 1 else 's'}"
        why = self.error or self.reason
        return f"<JobResult {text}: {why.splitlines()[0]}>" if why else f"<JobResult {text}>"


async def run_job(
    app: App,
    job: str,
    *,
    args: Mapping[str, object] | None = None,
    at: datetime | str | None = None,
    failing: Sequence[Failure] = (),
    shard: int = 0,
    clock: FakeClock | None = None,
) -> JobResult:
    """Run a job of the app to its end, with its retries.

    `args` are added to those of the job. `at` is the instant of the run, such as `2026-11-24T02:00Z`, by default what
    the clock shows. `failing` has the exceptions that the first attempts fail with, before the handler is called; None
    calls it. `shard` is which part runs, of a job with `shards`. A `clock` that you pass shows the end of the run
    afterwards. Raises InvalidInput if the app has no such job.
    """
    clock = clock or FakeClock()
    if at is not None:
        clock.step(_instant(at) - clock.now())
    found = next(one for one in app.jobs_with(Retry()) if one.name == app[job].name)
    part = _part(found, shard)
    # Nothing is split here; the part is all there is.
    found = replace(found, shards=None, run_on=RunOn.ONE_NODE)
    pending = iter(failing)
    async with PythonExecutor(PythonTargets([app])) as python:
        executor = WithSimulatedFailures(python, lambda _: _error(next(pending, None)))
        with capturing_prints():
            return await _Simulation(found, args or {}, part, executor, clock).run()


def run_job_sync(
    app: App,
    job: str,
    *,
    args: Mapping[str, object] | None = None,
    at: datetime | str | None = None,
    failing: Sequence[Failure] = (),
    shard: int = 0,
    clock: FakeClock | None = None,
) -> JobResult:
    """`run_job` for code without asyncio."""
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        raise InvalidInput("run_job_sync was called in a running event loop; write `await run_job(…)`")
    return asyncio.run(run_job(app, job, args=args, at=at, failing=failing, shard=shard, clock=clock))


class _Simulation:
    """One run, its worker and its leader."""

    def __init__(
        self,
        job: Job,
        args: Mapping[str, object],
        shard: Shard | None,
        executor: WithSimulatedFailures,
        clock: FakeClock,
    ) -> None:
        self._job, self._args, self._shard = job, args, shard
        self._executor = executor
        self._clock = clock
        self._runs = memory_backends(clock).runs
        self._numbers = count(1)
        self._log: list[str] = []
        self._progress: list[str] = []
        self._delays: list[float] = []

    async def run(self) -> JobResult:
        fire, fence = self._clock.now().replace(microsecond=0), next(self._numbers)
        pending = PendingRun(
            fire=fire, state=RunState.DISPATCHED, fence=fence, job_ver=VERSION, at=self._clock.now(), node=NODE
        )
        run = run_of_pending(self._job, pending, TERM)
        await self._runs.insert([run])
        while run.is_open:
            change = self._retry(run) if run.state is RunState.RETRYING else await self._attempt(run)
            assert await self._runs.apply([change]), change
            (run,) = await self._runs.get([run.id])
        return JobResult(
            job=self._job.name,
            state=run.state,
            result=run.result,
            error=run.error,
            reason=run.reason,
            attempts=run.attempts,
            delays=self._delays,
            log=self._log,
            progress=self._progress,
        )

    async def _attempt(self, run: Run) -> transitions.Change:
        assignment = Assignment(
            run=run.id,
            fence=run.fence,
            term=TERM,
            attempt=run.attempt,
            fire_at=run.fire_at,
            job=self._job,
            args=self._args,
            shard=self._shard,
        )
        started = self._clock.now()
        claimed = claimed_of(assignment, NODE, str(next(self._numbers)))
        await self._runs.apply([transitions.start(claimed, claimed.start_id, started, LEASE)])
        result = await self._executor.run(assignment, NODE, self._line)
        return transitions.finish(claimed, result, str(next(self._numbers)), started, self._clock.now())

    def _retry(self, run: Run) -> transitions.Change:
        """Skip the delay, and dispatch the run again as the leader does."""
        assert run.check_at is not None
        delay = run.check_at - self._clock.now()
        self._clock.step(delay)
        self._delays.append(delay.total_seconds())
        verdict = Dispatch(transitions.Transition.DISPATCH_RETRY)
        return transitions.dispatch(
            run, verdict, fence=next(self._numbers), term=TERM, node=NODE, job_ver=VERSION, at=self._clock.now()
        )

    def _line(self, level: str, text: str) -> None:
        if level == PROGRESS:
            self._progress.append(text)
        else:
            self._log.append(f"{level} {text}")


def _part(job: Job, shard: int) -> Shard | None:
    total = job.shards or 1
    if not 0 <= shard < total:
        what = f"{job.name} has no shard {shard}; it has {total}, from 0" if job.shards else f"{job.name} has no shards"
        raise InvalidInput(Problem("shard", what))
    return Shard(shard, total) if job.split is not None else None


def _error(failure: Failure) -> BaseException | None:
    if isinstance(failure, type) and issubclass(failure, BaseException):
        return failure("simulated failure")
    if failure is None or isinstance(failure, BaseException):
        return failure
    raise InvalidInput(Problem("failing", f"expected exceptions, got {got(failure)}", "write [ConnectionError, None]"))


def _instant(at: datetime | str) -> datetime:
    try:
        return instant(at)
    except InvalidInput as error:
        raise InvalidInput([Problem("at", one.what, one.remedy) for one in error.problems]) from None
