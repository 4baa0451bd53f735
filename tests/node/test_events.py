"""The events of a cluster, on virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from cronflow.domain.cluster import node_name
from cronflow.domain.events import (
    ClockInSync,
    ClockOutOfSync,
    Event,
    FenceRejected,
    JobChanged,
    JobCreated,
    JobDeleted,
    JobPaused,
    JobResumed,
    LeaderElected,
    LeaderSteppedDown,
    NodeDrained,
    NodeDraining,
    NodeJoined,
    NodeLeft,
    NodeLost,
    NodeUndrained,
    PlanRecovered,
    RedisStateRestored,
    RunCancelled,
    RunsFailed,
    RunsLost,
    RunsReassigned,
    ServiceLost,
    ServiceRecovered,
    SpoolDrained,
    SpoolStarted,
    StepdownRequested,
)
from cronflow.domain.job import Delivery, Overlap, PlanIntent, Retry
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.domain.schedule.kinds import Every
from cronflow.usecases import UseCases
from tests.contracts.builders import a_job
from tests.node.cluster import Cluster, a_cluster


async def events_of(cluster: Cluster, *kinds: type[Event]) -> list[Event]:
    """The recorded events of these kinds, the oldest first."""
    found = await cluster.backends.events.find(limit=1000)
    return [happened.event for happened in reversed(found) if isinstance(happened.event, kinds)]


async def test_nodes_join_lead_resign_and_leave() -> None:
    async with a_cluster("a", "b") as cluster:
        assert {event.node for event in await events_of(cluster, NodeJoined)} == {"a", "b"}  # type: ignore[attr-defined]
        (leader,) = cluster.leaders
        name = leader.id.partition("#")[0]
        assert await events_of(cluster, LeaderElected) == [LeaderElected(name, 1)]
        leader.stop()
        await cluster.elapse(30)
        other = "b" if name == "a" else "a"
        first, second = await events_of(cluster, LeaderElected)
        assert isinstance(second, LeaderElected)
        assert (first, second.node, second.term, second.after) == (LeaderElected(name, 1), other, 2, name)
        assert datetime.fromisoformat(second.renewed) < cluster.clock.now()
        assert await events_of(cluster, LeaderSteppedDown, NodeLeft, NodeLost) == [
            LeaderSteppedDown(name, 1, "shutting down"),
            NodeLeft(name),
        ]


async def test_a_killed_leader_is_reported_lost_once_by_its_successor() -> None:
    async with a_cluster("a", "b", "c") as cluster:
        (leader,) = cluster.leaders
        await cluster.kill(leader)
        await cluster.elapse(120)
        assert await events_of(cluster, NodeLost) == [NodeLost(leader.id.partition("#")[0], 0)]


async def test_a_node_that_was_killed_and_has_rejoined_is_reported_lost_in_the_next_round() -> None:
    async with a_cluster("a", "b") as cluster:
        (leader,) = cluster.leaders
        name = leader.id.partition("#")[0]
        worker = next(node for node in cluster.nodes if node is not leader)
        again = worker.id.partition("#")[0]
        await cluster.kill(worker)
        cluster.start(again)
        # 15 s until the name is free, and a look every 5 s, one of them for a goodbye that is late.
        await cluster.elapse(15 + 2 + 2 * 5)
        assert await events_of(cluster, NodeLost) == [NodeLost(again, 0)]
        await cluster.elapse(60)
        assert await events_of(cluster, NodeLost) == [NodeLost(again, 0)]
        assert await events_of(cluster, LeaderElected) == [LeaderElected(name, 1)]


async def test_a_lost_node_is_reported_once_across_leaders() -> None:
    async with a_cluster("a", "b", "c") as cluster:
        (leader,) = cluster.leaders
        worker = next(node for node in cluster.nodes if node is not leader)
        lost = NodeLost(worker.id.partition("#")[0], 0)
        await cluster.kill(worker)
        await cluster.elapse(15 + 10 + 6)
        assert await events_of(cluster, NodeLost) == [lost]
        await cluster.service.cluster.stepdown()
        await cluster.elapse(60)
        assert leader not in cluster.leaders
        assert await events_of(cluster, NodeLost) == [lost]


async def test_a_node_that_left_rejoined_and_was_killed_is_reported_lost() -> None:
    async with a_cluster("a", "b") as cluster:
        (leader,) = cluster.leaders
        worker = next(node for node in cluster.nodes if node is not leader)
        name = worker.id.partition("#")[0]
        worker.stop()
        await cluster.elapse(3)
        again = cluster.start(name)
        await cluster.elapse(6)
        await cluster.kill(again)
        await cluster.elapse(35)
        assert await events_of(cluster, NodeLeft, NodeLost) == [NodeLeft(name), NodeLost(name, 0)]


@pytest.mark.parametrize("seconds", range(5))
async def test_a_node_whose_leave_event_is_late_is_not_lost_although_its_name_is_reused(seconds: int) -> None:
    async with a_cluster("a", "b") as cluster:
        (leader,) = cluster.leaders
        worker = next(node for node in cluster.nodes if node is not leader)
        name = worker.id.partition("#")[0]
        cluster.start(name)
        # The leader's next look is at another moment of the gap each time.
        await cluster.elapse(seconds)
        cluster.backends.faults.stall("events.append")
        worker.stop()
        await cluster.elapse(4.5)
        cluster.backends.faults.heal()
        await cluster.elapse(30)
        assert await events_of(cluster, NodeLeft, NodeLost) == [NodeLeft(name)]


async def test_a_node_is_lost_with_what_it_had_taken_since_its_last_heartbeat_too() -> None:
    async with a_cluster("a", "b") as cluster:
        (leader,) = cluster.leaders
        leader._heartbeat.draining = True
        worker = next(node for node in cluster.nodes if node is not leader)
        await cluster.elapse(6)
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job("report", schedule=None)])
        await cluster.service.jobs.trigger("report")
        while not cluster.executor.starts:
            await cluster.elapse(0.1)
            assert cluster.clock.monotonic() < 60
        await cluster.kill(worker)
        await cluster.elapse(30)
        assert await events_of(cluster, NodeLost) == [NodeLost(worker.id.partition("#")[0], 1)]


async def test_a_flushed_redis_is_reported_and_no_node_counts_as_lost() -> None:
    async with a_cluster("a") as cluster:
        cluster.backends.memory.flush()
        await cluster.elapse(20)
        assert await events_of(cluster, RedisStateRestored) == [RedisStateRestored(1)]
        cluster.start("b")
        await cluster.elapse(20)
        cluster.backends.memory.flush()
        await cluster.elapse(60)
        assert await events_of(cluster, NodeLost) == []


async def test_a_run_of_a_killed_worker_is_reported_reassigned_and_its_late_outcome_rejected() -> None:
    async with a_cluster("a", "b") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job("report", schedule=None)])
        run = await cluster.service.jobs.trigger("report")
        await cluster.elapse(3)
        (start,) = cluster.executor.starts
        node = next(node for node in cluster.nodes if node.id == start[2])
        await cluster.kill(node)
        await cluster.elapse(120)
        (moved,) = await events_of(cluster, RunsReassigned)
        assert isinstance(moved, RunsReassigned)
        other = next(one for one in cluster.nodes if one.id != node.id)
        before, now = node_name(node.id), node_name(other.id)
        assert moved.moves == f"{run} {before} {now}"
        assert (moved.count, moved.run) == (1, run)
        assert moved.text.endswith(f": {run} from {before} to {now}")


async def test_a_run_that_must_not_start_twice_is_reported_lost_when_its_worker_is_killed() -> None:
    async with a_cluster("a", "b") as cluster:
        cluster.executor.release = asyncio.Event()
        once = a_job("pay", schedule=None, delivery=Delivery.AT_MOST_ONCE, retry=Retry(max=0))
        await cluster.service.jobs.apply([once])
        run = await cluster.service.jobs.trigger("pay")
        await cluster.elapse(3)
        (start,) = cluster.executor.starts
        await cluster.kill(next(node for node in cluster.nodes if node.id == start[2]))
        await cluster.elapse(120)
        assert await events_of(cluster, RunsLost) == [RunsLost("pay", 1, run)]


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.ERROR])
async def test_an_outcome_of_a_fenced_out_attempt_is_reported_and_no_end_of_its_run(outcome: Outcome) -> None:
    async with a_cluster("a") as cluster:
        cluster.executor.release = asyncio.Event()
        cluster.executor.attempt_result = lambda _: AttemptResult(outcome)
        await cluster.service.jobs.apply([a_job("report", schedule=None, retry=Retry(max=0))])
        run = await cluster.service.jobs.trigger("report")
        await cluster.elapse(3)
        store = cluster.backends.documents.runs
        fence = store[run].fence
        store[run] = replace(store[run], fence=fence + 1)
        cluster.executor.release.set()
        await cluster.elapse(3)
        assert await events_of(cluster, FenceRejected) == [FenceRejected(run, fence, outcome)]
        assert await events_of(cluster, RunsFailed) == []


async def test_failures_of_one_job_are_one_event_with_a_count() -> None:
    async with a_cluster("a", slots=50) as cluster:
        cluster.executor.attempt_result = lambda _: AttemptResult(Outcome.ERROR, error="no rows")
        await cluster.service.jobs.apply([a_job("report", schedule=None, retry=Retry(max=0), overlap=Overlap.ALLOW)])
        for _ in range(20):
            await cluster.service.jobs.trigger("report")
        await cluster.elapse(5)
        found = await events_of(cluster, RunsFailed)
        assert sum(event.count for event in found) == 20  # type: ignore[attr-defined]
        assert len(found) <= 3
        assert found[0].text.endswith("no rows")


async def test_an_outage_of_mongodb_is_reported_with_the_spool(tmp_path: Path) -> None:
    async with a_cluster("a", spools=tmp_path) as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job("report", schedule=None)])
        await cluster.service.jobs.trigger("report")
        await cluster.elapse(3)
        cluster.backends.faults.fail_before("MongoDB", 1_000_000)
        await cluster.elapse(2)
        cluster.executor.release.set()
        await cluster.elapse(2)
        cluster.backends.faults.heal()
        await cluster.elapse(5)
        found = await events_of(cluster, ServiceLost, ServiceRecovered, SpoolStarted, SpoolDrained)
        assert [type(event) for event in found if not isinstance(event, ServiceRecovered)] == [
            ServiceLost,
            SpoolStarted,
            SpoolDrained,
        ]
        assert isinstance(next(event for event in found if isinstance(event, ServiceRecovered)), ServiceRecovered)


async def test_a_wrong_clock_is_reported() -> None:
    async with a_cluster("a") as cluster:
        cluster.start("b", skew=timedelta(seconds=30))
        await cluster.elapse(15)
        found = await events_of(cluster, ClockOutOfSync)
        assert [event.node for event in found] == ["b"]  # type: ignore[attr-defined]
        cluster.nodes[1]._clock._local.skew = timedelta(0)  # type: ignore[attr-defined]
        await cluster.elapse(600)
        assert await events_of(cluster, ClockInSync) == [ClockInSync("b")]


async def test_draining_is_reported_from_beginning_to_end() -> None:
    async with a_cluster("a", "b") as cluster:
        await cluster.service.cluster.drain("b")
        await cluster.elapse(10)
        await cluster.service.cluster.undrain("b")
        await cluster.elapse(10)
        assert await events_of(cluster, NodeDraining, NodeDrained, NodeUndrained) == [
            NodeDraining("b"),
            NodeDrained("b"),
            NodeUndrained("b"),
        ]


async def test_a_recovered_plan_is_reported() -> None:
    async with a_cluster("a") as cluster:
        await cluster.backends.plans.write(PlanIntent(id="0-1", term=0, jobs=("report",)))
        await cluster.elapse(15)
        assert await events_of(cluster, PlanRecovered) == [PlanRecovered("0-1", 1, 0)]


async def test_changes_by_people_are_reported_with_their_names() -> None:
    async with a_cluster("a") as cluster:
        heard: list[Event] = []
        service = UseCases(cluster.backends, cluster.clock, heard.append)
        job = a_job("report", schedule=Every("1h"))
        await service.jobs.apply([job], by="eva")
        await service.jobs.apply([job], by="eva")
        await service.jobs.apply([a_job("report", schedule=Every("2h"))], by="eva")
        await service.jobs.pause("report", by="max")
        await service.jobs.resume("report", by="max")
        run = await service.jobs.trigger("report")
        await service.runs.cancel(run, "wrong day", by="max")
        await service.jobs.delete("report", by="eva")
        await service.cluster.stepdown(by="eva")
        assert heard == [
            JobCreated("report", "eva"),
            JobChanged("report", "eva"),
            JobPaused("report", "max"),
            JobResumed("report", "max"),
            RunCancelled(run, "max", "wrong day"),
            JobDeleted("report", "eva"),
            StepdownRequested("a", "eva"),
        ]
