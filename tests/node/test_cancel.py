"""Cancelling on virtual time: at any stage, the run ends once and its handler stops."""

from __future__ import annotations

import asyncio

import pytest

from cronflow.domain.errors import Conflict
from cronflow.domain.job import Delivery, Job, Overlap, PythonTarget, Retry, StartGuard
from cronflow.domain.run import AttemptResult, Outcome, Run, RunState
from cronflow.node.node import Node
from tests.node.cluster import Cluster, a_cluster

BY_HAND = "cancelled by ada: too slow"


def a_job(**fields: object) -> Job:
    return Job(name="long", target=PythonTarget("jobs:long"), **fields)  # type: ignore[arg-type]


async def running(cluster: Cluster, **fields: object) -> str:
    """A run that is recorded as running and does not end by itself."""
    cluster.executor.release = asyncio.Event()
    await cluster.service.jobs.apply([a_job(**fields)])
    run_id = await cluster.service.jobs.trigger("long")
    await cluster.elapse(1)
    assert (await cluster.service.runs.get(run_id)).state is RunState.RUNNING
    return run_id


async def cancelled(cluster: Cluster, run_id: str) -> Run:
    return await cluster.service.runs.cancel(run_id, "too slow", by="ada")


def worker_of(cluster: Cluster, run: Run) -> Node:
    return next(node for node in cluster.nodes if node.id == run.node)


async def test_a_running_run_is_cancelled_at_once_and_names_the_author() -> None:
    async with a_cluster("a", "b") as cluster:
        run_id = await running(cluster)
        asked = await cancelled(cluster, run_id)
        assert (asked.state, asked.cancel_requested) == (RunState.RUNNING, True)
        await cluster.clock.advance(0.1)
        run = await cluster.service.runs.get(run_id)
        assert (run.state, run.outcome, run.reason) == (RunState.CANCELLED, Outcome.CANCELLED, BY_HAND)
        assert [attempt.outcome for attempt in run.attempts] == [Outcome.CANCELLED]
        assert cluster.executor.cancelled == [run_id]
        assert cluster.backends.memory.locks == {}


async def test_a_run_that_waits_for_its_retry_is_cancelled_at_once_and_never_starts_again() -> None:
    async with a_cluster("a") as cluster:
        cluster.executor.attempt_result = lambda _: AttemptResult(Outcome.ERROR, error="no")
        await cluster.service.jobs.apply([a_job()])
        run_id = await cluster.service.jobs.trigger("long")
        await cluster.elapse(2)
        run = await cancelled(cluster, run_id)
        assert (run.state, run.reason, run.error) == (RunState.CANCELLED, BY_HAND, "no")
        await cluster.elapse(120)
        assert len(cluster.executor.starts) == 1


async def test_a_run_that_no_node_has_taken_yet_is_cancelled_and_not_taken() -> None:
    async with a_cluster("a") as cluster:
        stall = cluster.backends.faults.stall("queue.take")
        await cluster.service.jobs.apply([a_job()])
        run_id = await cluster.service.jobs.trigger("long")
        await cluster.elapse(2)
        assert (await cluster.service.runs.get(run_id)).state is RunState.DISPATCHED
        assert (await cancelled(cluster, run_id)).state is RunState.CANCELLED
        cluster.backends.faults.heal()
        assert stall.reached.is_set()
        await cluster.elapse(30)
        assert cluster.executor.starts == []


async def test_a_run_that_was_taken_a_moment_ago_and_not_recorded_is_stopped() -> None:
    async with a_cluster("a") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job()])
        run_id = await cluster.service.jobs.trigger("long")
        while not cluster.executor.starts:
            await cluster.clock.advance(0.01)
        assert (await cluster.service.runs.get(run_id)).state is RunState.DISPATCHED
        assert (await cancelled(cluster, run_id)).state is RunState.CANCELLED
        await cluster.clock.advance(0.2)
        assert cluster.executor.cancelled == [run_id]
        await cluster.elapse(60)
        assert len(cluster.executor.starts) == 1
        assert (await cluster.service.runs.get(run_id)).state is RunState.CANCELLED


async def test_cancelling_twice_is_cancelling_once() -> None:
    async with a_cluster("a") as cluster:
        run_id = await running(cluster)
        await cancelled(cluster, run_id)
        again = await cluster.service.runs.cancel(run_id, "really", by="bob")
        assert again.cancel_by == "ada"
        await cluster.clock.advance(0.1)
        assert cluster.executor.cancelled == [run_id]
        assert (await cluster.service.runs.get(run_id)).reason == BY_HAND


async def test_what_has_ended_cannot_be_cancelled_and_stays_as_it_ended() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job()])
        run_id = await cluster.service.jobs.trigger("long")
        await cluster.elapse(1)
        with pytest.raises(Conflict, match=r"has already ended: succeeded"):
            await cancelled(cluster, run_id)
        assert (await cluster.service.runs.get(run_id)).state is RunState.SUCCEEDED


async def test_a_run_that_ends_well_before_it_hears_of_its_cancellation_has_succeeded() -> None:
    async with a_cluster("a") as cluster:
        run_id = await running(cluster)
        stall = cluster.backends.faults.stall("queue.cancelled")
        await cancelled(cluster, run_id)
        await cluster.clock.advance(0.1)
        assert stall.reached.is_set()
        assert cluster.executor.release is not None
        cluster.executor.release.set()
        await cluster.clock.advance(0.1)
        stall.release()
        await cluster.elapse(30)
        run = await cluster.service.runs.get(run_id)
        assert (run.state, run.outcome, run.cancel_requested) == (RunState.SUCCEEDED, Outcome.OK, True)


async def test_a_failure_of_a_run_that_is_to_be_cancelled_is_not_tried_again() -> None:
    async with a_cluster("a") as cluster:
        cluster.executor.attempt_result = lambda _: AttemptResult(Outcome.ERROR, error="no")
        run_id = await running(cluster)
        stall = cluster.backends.faults.stall("queue.cancelled")
        await cancelled(cluster, run_id)
        assert cluster.executor.release is not None
        cluster.executor.release.set()
        await cluster.clock.advance(0.1)
        assert (await cluster.service.runs.get(run_id)).state is RunState.RETRYING
        stall.release()
        await cluster.elapse(32)
        run = await cluster.service.runs.get(run_id)
        assert (run.state, run.reason) == (RunState.CANCELLED, BY_HAND)
        assert len(cluster.executor.starts) == 1


async def test_a_lost_signal_costs_two_seconds() -> None:
    async with a_cluster("a") as cluster:
        run_id = await running(cluster)
        cluster.backends.memory.signals.clear()
        await cancelled(cluster, run_id)
        await cluster.elapse(2.25)
        assert (await cluster.service.runs.get(run_id)).state is RunState.CANCELLED


async def test_a_mark_that_redis_lost_costs_a_lease_renewal() -> None:
    async with a_cluster("a") as cluster:
        run_id = await running(cluster)
        cluster.backends.faults.fail_before("queue.cancel")
        await cancelled(cluster, run_id)
        await cluster.elapse(15.5)
        assert (await cluster.service.runs.get(run_id)).state is RunState.CANCELLED


async def test_a_mark_without_a_cancellation_stops_nothing() -> None:
    async with a_cluster("a") as cluster:
        run_id = await running(cluster)
        await cluster.backends.queue.cancel([run_id])
        await cluster.elapse(20)
        assert (await cluster.service.runs.get(run_id)).state is RunState.RUNNING


@pytest.mark.parametrize("delivery", list(Delivery))
async def test_a_run_whose_worker_dies_after_its_cancellation_was_asked_ends_as_cancelled(delivery: Delivery) -> None:
    async with a_cluster("a", "b") as cluster:
        run_id = await running(cluster, delivery=delivery, retry=Retry(max=0))
        stall = cluster.backends.faults.stall("queue.cancelled")
        run = await cancelled(cluster, run_id)
        await cluster.kill(worker_of(cluster, run))
        stall.release()
        await cluster.elapse(90)
        run = await cluster.service.runs.get(run_id)
        assert (run.state, run.outcome, run.reason) == (RunState.CANCELLED, Outcome.CANCELLED, BY_HAND)
        assert [attempt.outcome for attempt in run.attempts] == [Outcome.LOST]
        assert len(cluster.executor.starts) == 1


async def test_a_run_whose_start_waits_for_its_record_is_cancelled_too() -> None:
    async with a_cluster("a") as cluster:
        run_id = await running(cluster, start_guard=StartGuard.MONGO)
        await cancelled(cluster, run_id)
        await cluster.clock.advance(0.1)
        assert (await cluster.service.runs.get(run_id)).state is RunState.CANCELLED


async def test_a_cancelled_run_unblocks_the_next_of_its_job() -> None:
    async with a_cluster("a") as cluster:
        first = await running(cluster, overlap=Overlap.QUEUE)
        second = await cluster.service.jobs.trigger("long")
        await cluster.elapse(3)
        assert (await cluster.service.runs.get(second)).state is RunState.RETRYING
        await cancelled(cluster, first)
        await cluster.elapse(3)
        assert (await cluster.service.runs.get(second)).state is RunState.RUNNING


async def test_several_are_cancelled_together_and_ended_ones_are_left_alone() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job(overlap=Overlap.ALLOW)])
        done = await cluster.service.jobs.trigger("long")
        await cluster.elapse(1)
        cluster.executor.release = asyncio.Event()
        runs = [await cluster.service.jobs.trigger("long") for _ in range(3)]
        await cluster.elapse(1)
        found = await cluster.service.runs.cancel_all([done, *runs], "too many")
        assert {run.id for run in found} == {done, *runs}
        await cluster.clock.advance(0.1)
        states = {run.id: run.state for run in cluster.runs}
        assert states == {done: RunState.SUCCEEDED, **dict.fromkeys(runs, RunState.CANCELLED)}
