"""Retries, errors that end at once, and replays, on whole nodes and virtual time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import timedelta

import pytest

from cronflow.domain.job import Job, PythonTarget, Retry
from cronflow.domain.run import AttemptResult, Kind, Outcome, RunState
from tests.node.cluster import Cluster, a_cluster

NO = AttemptResult(Outcome.ERROR, error="no")


def a_job(retry: Retry | None = None, **fields: object) -> Job:
    return Job(name="shop", target=PythonTarget("jobs:shop"), retry=retry or Retry(), **fields)  # type: ignore[arg-type]


def waits(cluster: Cluster) -> list[float]:
    """Seconds from each start to the next; the attempts themselves take no time."""
    starts = [at for *_, at in cluster.executor.starts]
    return [(later - earlier).total_seconds() for earlier, later in itertools.pairwise(starts)]


def overdue(found: Sequence[float], expected: Sequence[float]) -> list[float]:
    """The reconciler looks every second, so a retry is never early and at most that much late."""
    return [wait for wait, due in zip(found, expected, strict=True) if not due <= wait <= due + 1.25]


async def run_all(cluster: Cluster, job: Job, seconds: float) -> str:
    await cluster.service.jobs.apply([job])
    run = await cluster.service.jobs.trigger(job.name)
    await cluster.elapse(seconds)
    return run


@pytest.mark.parametrize(
    ("retry", "expected"),
    [
        (Retry(), [30, 60, 120]),
        (Retry(max=4, initial="10s", multiplier=1.5), [10, 15, 22.5, 33.75]),
        (Retry(max=5, initial="10s", multiplier=1.5), [10, 15, 22.5, 33.75, 50.625]),
        (Retry(max=2, initial="60s", multiplier=3.0), [60, 180]),
        (Retry(max=3, initial="20s", multiplier=1.0), [20, 20, 20]),
        (Retry(delays=["5s", "30s", "10s"]), [5, 30, 10]),
        (Retry(max=3, initial="30s", cap="45s"), [30, 45, 45]),
        (Retry(max=0), []),
    ],
)
async def test_a_failing_run_is_tried_again_after_the_delays_of_its_job(retry: Retry, expected: list[float]) -> None:
    async with a_cluster("a", "b") as cluster:
        cluster.executor.attempt_result = lambda _: NO
        run = await run_all(cluster, a_job(retry), sum(expected) + 2 * len(expected) + 5)
        assert overdue(waits(cluster), expected) == []
        ended = await cluster.service.runs.get(run)
        assert (ended.state, ended.attempt, ended.is_dead) == (RunState.FAILED, len(expected) + 1, True)
        assert [attempt.outcome for attempt in ended.attempts] == [Outcome.ERROR] * (len(expected) + 1)


async def test_a_permanent_error_is_a_dead_letter_at_once() -> None:
    async with a_cluster("a") as cluster:
        cluster.executor.attempt_result = lambda _: AttemptResult(Outcome.PERMANENT, error="no such customer")
        run = await run_all(cluster, a_job(), 200)
        assert len(cluster.executor.starts) == 1
        ended = await cluster.service.runs.get(run)
        assert (ended.state, ended.outcome, ended.is_dead) == (RunState.FAILED, Outcome.PERMANENT, True)
        assert await cluster.service.backends.dead_letters.count() == 1


async def test_a_run_that_succeeds_in_the_end_is_no_dead_letter() -> None:
    async with a_cluster("a") as cluster:
        cluster.executor.attempt_result = lambda assignment: (
            AttemptResult(Outcome.OK) if assignment.attempt == 3 else NO
        )
        run = await run_all(cluster, a_job(), 100)
        ended = await cluster.service.runs.get(run)
        assert (ended.state, ended.attempt) == (RunState.SUCCEEDED, 3)
        assert await cluster.service.backends.dead_letters.count() == 0


async def test_the_delay_that_a_job_asks_for_goes_before_its_back_off_and_uses_up_a_retry() -> None:
    async with a_cluster("a") as cluster:
        own: Sequence[timedelta | None] = (timedelta(seconds=7), None, timedelta(seconds=3))
        cluster.executor.attempt_result = lambda assignment: AttemptResult(
            Outcome.ERROR, error="later", delay=dict(enumerate(own, start=1)).get(assignment.attempt)
        )
        run = await run_all(cluster, a_job(), 90)
        assert overdue(waits(cluster), (7, 60, 3)) == []
        assert (await cluster.service.runs.get(run)).state is RunState.FAILED


async def test_a_replay_runs_on_a_node_and_resolves_the_dead_letter_whatever_its_outcome() -> None:
    async with a_cluster("a", "b") as cluster:
        cluster.executor.attempt_result = lambda _: AttemptResult(Outcome.PERMANENT, error="no")
        run = await run_all(cluster, a_job(), 5)
        await cluster.service.runs.replay(run)
        await cluster.elapse(5)
        failed = await cluster.service.runs.get(f"{run}~r1")
        assert (failed.kind, failed.state, failed.is_dead) == (Kind.REPLAY, RunState.FAILED, True)
        cluster.executor.attempt_result = lambda _: AttemptResult(Outcome.OK)
        again = await cluster.service.runs.replay(failed.id)
        await cluster.elapse(5)
        assert (await cluster.service.runs.get(again)).state is RunState.SUCCEEDED
        assert cluster.executor.runs_started == [run, f"{run}~r1", f"{run}~r2"]
        assert await cluster.service.backends.dead_letters.count() == 0
        assert (await cluster.service.runs.get(run)).state is RunState.FAILED
