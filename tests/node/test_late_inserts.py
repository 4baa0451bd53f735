"""Runs that are pushed before they have a document, on virtual time, whatever happens in between."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cronflow.domain.cluster import NodeReport
from cronflow.domain.events import PlanRecovered
from cronflow.domain.job import Delivery, Job, Overlap, PythonTarget, Retry, StartGuard
from cronflow.domain.run import AttemptResult, Outcome, Run, RunState, run_id
from cronflow.domain.schedule.kinds import Every, Once
from cronflow.node.heartbeat import Heartbeat
from tests.node.cluster import Cluster, a_cluster, planner_of

STEP_S = 0.05
SECOND = timedelta(seconds=1)
ONCE = Once(datetime(2026, 11, 21, 12, 0, 3, tzinfo=UTC))


def a_job(name: str = "tick", **fields: object) -> Job:
    return Job(name=name, target=PythonTarget("jobs:tick"), **({"schedule": ONCE} | fields))  # type: ignore[arg-type]


def document(cluster: Cluster, run: str) -> Run | None:
    return cluster.backends.documents.runs.get(run)


async def pushed(cluster: Cluster, job: Job) -> str:
    """Apply the job, and wait until its first run is in a list. No node takes it."""
    cluster.backends.faults.stall("queue.take")
    await cluster.service.jobs.apply([job])
    for _ in range(round(4 / STEP_S)):
        await cluster.clock.advance(STEP_S)
        if any(cluster.backends.memory.lists.values()):
            break
    record = cluster.backends.documents.jobs[job.name]
    assert record.pending_run is not None
    return run_id(job.name, record.pending_run.fire)


async def in_flight(cluster: Cluster, job: Job) -> str:
    """The same, and its run has no document."""
    run = await pushed(cluster, job)
    assert document(cluster, run) is None
    assert len(cluster.backends.documents.plans) == 1
    return run


async def executing(cluster: Cluster, job: Job) -> str:
    """A run whose handler has started a moment ago, and that has no document."""
    cluster.executor.release = asyncio.Event()
    run = await in_flight(cluster, job)
    cluster.backends.faults.heal()
    for _ in range(10):
        await asyncio.sleep(0)
    assert cluster.executor.runs_started == [run]
    assert document(cluster, run) is None
    return run


def the_end(cluster: Cluster, run: str) -> tuple[RunState, int]:
    """Its state, and how often its handler has started."""
    found = document(cluster, run)
    assert found is not None
    return found.state, cluster.executor.runs_started.count(run)


async def test_a_short_run_is_inserted_as_it_ended_and_nothing_else_is_written_of_it() -> None:
    async with a_cluster("a") as cluster:
        run = await in_flight(cluster, a_job())
        calls = cluster.backends.faults.calls
        changed = calls["runs.apply"]
        cluster.backends.faults.heal()
        await cluster.elapse(0.5)
        assert the_end(cluster, run) == (RunState.SUCCEEDED, 1)
        assert len(cluster.backends.documents.plans) == 1
        await cluster.elapse(2)
        assert (calls["runs.apply"] - changed, calls["runs.insert_changed"]) == (0, 1)
        assert len(cluster.backends.documents.plans) == 0


async def test_a_run_that_its_worker_has_not_recorded_is_inserted_after_two_seconds() -> None:
    async with a_cluster("a") as cluster:
        run = await in_flight(cluster, a_job())
        await cluster.elapse(2.5)
        found = document(cluster, run)
        assert found is not None
        assert found.dispatched_at is not None
        assert (found.state, found.created_at) == (RunState.DISPATCHED, found.dispatched_at)
        assert found.check_at == found.dispatched_at + 10 * SECOND
        assert len(cluster.backends.documents.plans) == 0
        cluster.backends.faults.heal()
        await cluster.elapse(1)
        assert the_end(cluster, run) == (RunState.SUCCEEDED, 1)


@pytest.mark.parametrize(
    "fields", [{"start_guard": StartGuard.MONGO}, {"delivery": Delivery.AT_MOST_ONCE, "retry": Retry(max=0)}]
)
async def test_a_run_whose_start_must_be_recorded_is_inserted_before_it_is_pushed(fields: dict[str, object]) -> None:
    async with a_cluster("a") as cluster:
        run = await pushed(cluster, a_job("tick", **fields))
        assert document(cluster, run) is not None
        assert len(cluster.backends.documents.plans) == 0


async def test_a_run_for_a_node_of_an_older_release_is_inserted_before_it_is_pushed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report = Heartbeat.report

    def of_08(self: Heartbeat) -> NodeReport:
        return replace(report(self), inserts_runs=False)

    monkeypatch.setattr(Heartbeat, "report", of_08)
    async with a_cluster("a") as cluster:
        assert document(cluster, await pushed(cluster, a_job())) is not None


async def test_runs_beyond_the_limit_are_inserted_before_they_are_pushed() -> None:
    async with a_cluster("a") as cluster:
        planner_of(cluster.nodes[0])._late_inserts._most = 0
        assert document(cluster, await pushed(cluster, a_job())) is not None


@pytest.mark.parametrize("leader_too", [True, False])
async def test_the_worker_is_killed_while_the_run_has_no_document(leader_too: bool) -> None:
    async with a_cluster("a", "b") as cluster:
        run = await executing(cluster, a_job())
        node = next(node for node in cluster.nodes if node.id == cluster.executor.starts[0][2])
        await cluster.kill(node)
        if leader_too:
            for leader in cluster.leaders:
                await cluster.kill(leader)
            cluster.start("c")
        assert cluster.executor.release is not None
        cluster.executor.release.set()
        await cluster.elapse(120)
        assert the_end(cluster, run) == (RunState.SUCCEEDED, 2)
        assert len(cluster.backends.documents.plans) == 0


async def test_the_leader_is_killed_while_the_run_has_no_document() -> None:
    async with a_cluster("a", "b") as cluster:
        run = await in_flight(cluster, a_job())
        (leader,) = cluster.leaders
        await cluster.kill(leader)
        cluster.backends.faults.heal()
        await cluster.elapse(120)
        assert the_end(cluster, run) == (RunState.SUCCEEDED, 1)


async def test_a_doubled_item_starts_its_run_once() -> None:
    async with a_cluster("a", "b") as cluster:
        run = await in_flight(cluster, a_job())
        lists = cluster.backends.memory.lists
        (items,) = [items for items in lists.values() if items]
        for node in cluster.nodes:
            lists[node.id] = [*items, *items]
        cluster.backends.faults.heal()
        await cluster.elapse(8)
        assert the_end(cluster, run) == (RunState.SUCCEEDED, 1)


async def test_a_person_sees_a_run_that_has_no_document_yet() -> None:
    async with a_cluster("a") as cluster:
        run = await in_flight(cluster, a_job())
        shown = await cluster.service.runs.get(run)
        assert (shown.state, shown.job) == (RunState.DISPATCHED, "tick")
        assert (await cluster.service.explain.why_run(run)).run == run
        assert document(cluster, run) is None


async def test_a_person_cancels_a_run_that_has_no_document_yet() -> None:
    async with a_cluster("a") as cluster:
        run = await in_flight(cluster, a_job())
        assert (await cluster.service.runs.cancel(run, "no")).state is RunState.CANCELLED
        cluster.backends.faults.heal()
        await cluster.elapse(8)
        assert the_end(cluster, run) == (RunState.CANCELLED, 0)


async def test_a_person_cancels_a_run_that_executes_and_has_no_document_yet() -> None:
    async with a_cluster("a") as cluster:
        run = await executing(cluster, a_job())
        assert (await cluster.service.runs.cancel(run, "no")).state is RunState.CANCELLED
        await cluster.elapse(3)
        assert the_end(cluster, run) == (RunState.CANCELLED, 1)
        assert cluster.executor.cancelled == [run]


async def test_a_pause_cancels_a_run_that_has_no_document_yet() -> None:
    async with a_cluster("a") as cluster:
        run = await in_flight(cluster, a_job())
        pausing = asyncio.create_task(cluster.service.jobs.pause("tick"))
        await cluster.elapse(2)
        await pausing
        cluster.backends.faults.heal()
        await cluster.elapse(30)
        assert the_end(cluster, run)[0] is RunState.CANCELLED


async def test_an_edit_requeues_a_run_that_has_no_document_yet() -> None:
    async with a_cluster("a") as cluster:
        run = await in_flight(cluster, a_job())
        edit = asyncio.create_task(cluster.service.jobs.apply([a_job(timeout=60 * SECOND)]))
        await cluster.elapse(4)
        assert edit.done()
        cluster.backends.faults.heal()
        await cluster.elapse(3)
        assert the_end(cluster, run) == (RunState.SUCCEEDED, 1)
        found = document(cluster, run)
        assert found is not None
        assert found.job_ver == 2


@pytest.mark.parametrize(
    ("overlap", "states"),
    [
        (Overlap.FORBID, [RunState.DISPATCHED, RunState.SKIPPED]),
        (Overlap.QUEUE, [RunState.DISPATCHED]),
        (Overlap.REPLACE, [RunState.CANCELLED]),
    ],
)
async def test_a_run_without_a_document_is_open_when_the_next_fire_is_decided(
    overlap: Overlap, states: list[RunState]
) -> None:
    async with a_cluster("a") as cluster:
        await in_flight(cluster, a_job(schedule=Every("1s"), overlap=overlap))
        # The next instant comes before the leader inserts the run because of its age.
        await cluster.elapse(1.1)
        assert [run.state for run in cluster.runs][: len(states)] == states
        open_runs = [run for run in cluster.runs if run.is_open]
        assert len(open_runs) <= 1


async def test_a_manual_run_waits_for_one_that_has_no_document_yet() -> None:
    async with a_cluster("a") as cluster:
        run = await executing(cluster, a_job())
        manual = await cluster.service.jobs.trigger("tick")
        await cluster.elapse(0.1)
        (waiting,) = [one for one in cluster.runs if one.id == manual]
        assert (waiting.state, waiting.waiting and waiting.waiting.blocked_by) == (RunState.RETRYING, run)


async def test_an_outcome_that_was_spooled_before_its_run_had_a_document_is_recorded(tmp_path: Path) -> None:
    async with a_cluster("a", spools=tmp_path) as cluster:
        run = await executing(cluster, a_job())
        cluster.backends.faults.fail_before("MongoDB", 100_000)
        assert cluster.executor.release is not None
        cluster.executor.release.set()
        await cluster.elapse(3)
        assert document(cluster, run) is None
        cluster.backends.faults.heal()
        await cluster.elapse(5)
        assert the_end(cluster, run) == (RunState.SUCCEEDED, 1)


async def test_an_attempt_that_failed_before_its_run_had_a_document_is_retried() -> None:
    async with a_cluster("a") as cluster:
        results = iter([AttemptResult(Outcome.ERROR, error="no"), AttemptResult(Outcome.OK)])
        cluster.executor.attempt_result = lambda _: next(results)
        run = await in_flight(cluster, a_job(retry=Retry(max=1)))
        cluster.backends.faults.heal()
        await cluster.clock.advance(STEP_S)
        found = document(cluster, run)
        assert found is not None
        assert (found.state, found.attempt, found.error) == (RunState.RETRYING, 1, "no")
        await cluster.elapse(120)
        assert the_end(cluster, run) == (RunState.SUCCEEDED, 2)


async def test_a_redis_that_forgets_the_item_loses_no_run() -> None:
    async with a_cluster("a") as cluster:
        run = await in_flight(cluster, a_job())
        cluster.backends.memory.lists.clear()
        cluster.backends.faults.heal()
        await cluster.elapse(9)
        assert the_end(cluster, run) == (RunState.DISPATCHED, 0)
        await cluster.elapse(5)
        assert the_end(cluster, run) == (RunState.SUCCEEDED, 1)


async def test_a_leader_that_stops_inserts_its_runs_before_it_resigns() -> None:
    async with a_cluster("a") as cluster:
        run = await in_flight(cluster, a_job())
        # The list has the next one, but the node ends before the key is released.
        resigning = cluster.backends.faults.stall("election.resign")
        (node,) = cluster.nodes
        node.stop()
        await cluster.elapse(0.1)
        assert resigning.reached.is_set()
        assert document(cluster, run) is not None
        assert len(cluster.backends.documents.plans) == 0
        cluster.backends.faults.heal()
        await cluster.elapse(2)


async def test_a_leader_that_steps_down_inserts_its_runs_at_once() -> None:
    async with a_cluster("a", "b") as cluster:
        run = await in_flight(cluster, a_job())
        await cluster.service.cluster.stepdown()
        await cluster.elapse(0.5)
        assert document(cluster, run) is not None
        assert len(cluster.backends.documents.plans) == 0
        events = [recorded.event for recorded in cluster.backends.documents.events.values()]
        assert not [event for event in events if isinstance(event, PlanRecovered)]
        cluster.backends.faults.heal()
        await cluster.elapse(15)
