"""Shards and broadcast on virtual time: each part once, one parent that sums up, through dead leaders and nodes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cronflow.domain import splitting
from cronflow.domain.cluster import node_name
from cronflow.domain.errors import Conflict
from cronflow.domain.events import RunSplit, RunSummedUp
from cronflow.domain.job import Delivery, Job, Overlap, PythonTarget, Retry
from cronflow.domain.run import AttemptResult, Kind, Outcome, Run, RunState
from cronflow.domain.schedule.kinds import Every
from cronflow.domain.split import RunOn
from cronflow.ports import Assignment
from tests.node.cluster import Cluster, a_cluster

NO_RETRY = Retry(max=0)


def a_job(every: str | None = None, **fields: Any) -> Job:
    schedule = None if every is None else Every(every)
    return Job(name="report", target=PythonTarget("jobs:report"), schedule=schedule, **fields)


def sharded(every: str | None = None, **fields: Any) -> Job:
    return a_job(every, **{"shards": 4, **fields})


def broadcast(every: str | None = None, **fields: Any) -> Job:
    return a_job(every, run_on=RunOn.EVERY_NODE, **fields)


async def begin(cluster: Cluster, job: Job) -> str:
    """Apply the job and run it. Returns the run."""
    await cluster.service.jobs.apply([job])
    return await cluster.service.jobs.trigger(job.name)


def parents(cluster: Cluster) -> list[Run]:
    return [run for run in cluster.runs if run.split is not None]


def parts(cluster: Cluster, parent: str | None = None) -> list[Run]:
    return [run for run in cluster.runs if run.kind is Kind.PART and parent in (None, run.parent)]


def states(runs: list[Run]) -> list[str]:
    return [run.state.value for run in runs]


def the_run(cluster: Cluster, run: str) -> Run:
    return next(one for one in cluster.runs if one.id == run)


def fail(cluster: Cluster, fails: Callable[[Assignment], bool]) -> None:
    cluster.executor.attempt_result = lambda assignment: (
        AttemptResult(Outcome.ERROR, error="disk full") if fails(assignment) else AttemptResult(Outcome.OK)
    )


def shard_of(assignment: Assignment) -> int:
    assert assignment.shard is not None
    return assignment.shard.index


async def finish(cluster: Cluster, work: Any, seconds: float = 2) -> Any:
    """Await something that waits for virtual time."""
    task = asyncio.ensure_future(work)
    await cluster.elapse(seconds)
    return await task


# -------------------------------------------------------------------------------------------------------------- shards


async def test_a_fire_runs_once_per_shard_and_succeeds_when_all_have() -> None:
    async with a_cluster("a", "b") as cluster:
        await cluster.service.jobs.apply([sharded("20s")])
        seen: list[tuple[str, int, int]] = []

        def note(assignment: Assignment) -> AttemptResult:
            assert assignment.shard is not None
            seen.append((assignment.run, assignment.shard.index, assignment.shard.total))
            return AttemptResult(Outcome.OK)

        cluster.executor.attempt_result = note
        await cluster.elapse(22)
        parent, *_ = parents(cluster)
        await cluster.service.jobs.pause("report")
        assert (parent.kind, parent.state, parent.outcome, parent.node) == (
            Kind.INTERVAL,
            RunState.SUCCEEDED,
            Outcome.OK,
            None,
        )
        assert parent.result == {"succeeded": [0, 1, 2, 3]}
        assert sorted(seen) == [(f"{parent.id}~s{n}", n, 4) for n in range(4)]
        assert Counter(states(parts(cluster))) == {"succeeded": 4}
        assert {run.fire_at for run in parts(cluster)} == {parent.fire_at}
        found = [one.event for one in await cluster.backends.events.find(kinds=["run_split", "run_summed_up"])]
        assert sorted(found, key=str) == [RunSplit(parent.id, 4), RunSummedUp(parent.id, "succeeded", 4, 0)]


async def test_the_parts_run_at_once_although_runs_of_the_job_exclude_each_other() -> None:
    async with a_cluster("a", "b", slots=2) as cluster:
        held = cluster.executor.release = asyncio.Event()
        run = await begin(cluster, sharded(overlap=Overlap.FORBID))
        await cluster.elapse(3)
        assert states(parts(cluster)) == ["running"] * 4
        assert the_run(cluster, run).state is RunState.RETRYING
        held.set()
        await cluster.elapse(2)
        assert the_run(cluster, run).state is RunState.SUCCEEDED


async def test_a_part_is_retried_alone_and_one_that_fails_for_good_fails_its_parent() -> None:
    async with a_cluster("a") as cluster:
        fail(cluster, lambda one: shard_of(one) == 1 or (shard_of(one) == 2 and one.attempt == 1))
        run = await begin(cluster, sharded(retry=Retry(delays=["5s"])))
        await cluster.elapse(10)
        parent = the_run(cluster, run)
        assert [(part.state.value, part.attempt) for part in parts(cluster)] == [
            ("succeeded", 1),
            ("failed", 2),
            ("succeeded", 2),
            ("succeeded", 1),
        ]
        assert (parent.state, parent.result) == (RunState.FAILED, {"succeeded": [0, 2, 3], "failed": [1]})
        expected = f"1 of 4 parts did not succeed: 1 failed (for example {run}~s1: disk full)"
        assert parent.error == expected
        # The parent alone is a dead letter, and is reported once.
        assert await cluster.backends.dead_letters.newest(10) == [run]
        failures = [one.event.text for one in await cluster.backends.events.find(kinds=["runs_failed"])]
        assert failures == [f"1 run of report failed ({run}): {expected}"]


async def test_a_replay_repeats_the_parts_that_did_not_succeed() -> None:
    async with a_cluster("a") as cluster:
        fail(cluster, lambda one: shard_of(one) in (1, 3))
        run = await begin(cluster, sharded(retry=NO_RETRY))
        await cluster.elapse(3)
        fail(cluster, lambda one: shard_of(one) == 3)
        # The job may have another number of shards by now.
        await finish(cluster, cluster.service.jobs.apply([sharded(retry=NO_RETRY, shards=9)]))
        with pytest.raises(Conflict, match="is a part of"):
            await cluster.service.runs.replay(f"{run}~s1")
        replay = await cluster.service.runs.replay(run)
        await cluster.elapse(3)
        assert [(part.id, part.shard and part.shard.total) for part in parts(cluster, replay)] == [
            (f"{replay}~s1", 4),
            (f"{replay}~s3", 4),
        ]
        assert the_run(cluster, replay).result == {"succeeded": [1], "failed": [3]}
        fail(cluster, lambda _: False)
        again = await cluster.service.runs.replay(replay)
        await cluster.elapse(3)
        assert the_run(cluster, again).result == {"succeeded": [3]}
        assert await cluster.backends.dead_letters.newest(10) == []


async def test_runs_of_a_job_that_exclude_each_other_begin_one_after_the_other() -> None:
    async with a_cluster("a") as cluster:
        held = cluster.executor.release = asyncio.Event()
        first = await begin(cluster, sharded())
        await cluster.elapse(2)
        second = await cluster.service.jobs.trigger("report")
        await cluster.elapse(3)
        assert parts(cluster, second) == []
        waiting = the_run(cluster, second).waiting
        assert waiting is not None
        assert (waiting.reason, waiting.blocked_by) == ("another run of this job is open", first)
        held.set()
        cluster.executor.release = None
        await cluster.elapse(4)
        assert states(parents(cluster)) == ["succeeded"] * 2


async def test_runs_that_may_overlap_begin_at_once() -> None:
    async with a_cluster("a") as cluster:
        cluster.executor.release = asyncio.Event()
        await begin(cluster, sharded(overlap=Overlap.ALLOW))
        await cluster.elapse(2)
        await cluster.service.jobs.trigger("report")
        await cluster.elapse(2)
        assert states(parts(cluster)) == ["running"] * 8
        cluster.executor.release.set()


async def test_a_fire_that_overlaps_an_open_parent_is_skipped_and_one_that_queues_waits() -> None:
    for overlap, expected in ((Overlap.FORBID, ["skipped", "retrying"]), (Overlap.QUEUE, ["retrying"])):
        async with a_cluster("a") as cluster:
            await cluster.service.jobs.apply([sharded("10s", overlap=overlap)])
            cluster.executor.release = asyncio.Event()
            await cluster.elapse(22)
            runs = [run for run in cluster.runs if run.kind is Kind.INTERVAL]
            assert sorted(set(states(runs))) == sorted(expected)
            assert len(parents(cluster)) == 1
            cluster.executor.release.set()
            cluster.executor.release = None
            await cluster.elapse(12)
            assert "succeeded" in states(parents(cluster))


async def test_replace_cancels_the_open_parent_with_its_parts() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([sharded("10s", overlap=Overlap.REPLACE)])
        cluster.executor.release = asyncio.Event()
        await cluster.elapse(16)
        first, *_ = parents(cluster)
        await cluster.elapse(8)
        assert the_run(cluster, first.id).state is RunState.CANCELLED
        assert states(parts(cluster, first.id)) == ["cancelled"] * 4
        assert len(parents(cluster)) >= 2
        cluster.executor.release.set()


async def test_cancelling_a_parent_cancels_its_parts_and_it_ends_when_they_have() -> None:
    async with a_cluster("a", slots=2) as cluster:
        cluster.executor.release = asyncio.Event()
        run = await begin(cluster, sharded())
        await cluster.elapse(3)
        assert Counter(states(parts(cluster))) == {"running": 2, "retrying": 2}
        assert (await cluster.service.runs.cancel(run, "wrong data", by="ada")).state is RunState.RETRYING
        await cluster.elapse(3)
        parent = the_run(cluster, run)
        assert (parent.state, parent.reason) == (RunState.CANCELLED, "cancelled by ada: wrong data")
        assert states(parts(cluster)) == ["cancelled"] * 4
        assert len(cluster.executor.starts) == 2


async def test_cancelling_a_parent_that_has_not_begun_ends_it_at_once_and_it_never_has_parts() -> None:
    async with a_cluster("a") as cluster:
        cluster.executor.release = asyncio.Event()
        await begin(cluster, sharded())
        await cluster.elapse(2)
        second = await cluster.service.jobs.trigger("report")
        await cluster.elapse(2)
        assert (await cluster.service.runs.cancel(second)).state is RunState.CANCELLED
        cluster.executor.release.set()
        await cluster.elapse(3)
        assert parts(cluster, second) == []


async def test_a_pause_cancels_the_parts_that_have_not_started_and_the_parent_sums_up() -> None:
    async with a_cluster("a", slots=2) as cluster:
        cluster.executor.release = asyncio.Event()
        run = await begin(cluster, sharded())
        await cluster.elapse(3)
        await finish(cluster, cluster.service.jobs.pause("report"))
        cluster.executor.release.set()
        await cluster.elapse(3)
        parent = the_run(cluster, run)
        assert (parent.state, parent.result) == (RunState.FAILED, {"succeeded": [0, 1], "cancelled": [2, 3]}) or (
            Counter(states(parts(cluster))) == {"succeeded": 2, "cancelled": 2}
        )
        assert parent.state is RunState.FAILED


async def test_maintenance_holds_a_parent_and_the_parts_that_have_not_started() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.cluster.begin_maintenance(by="ada")
        await cluster.elapse(2)
        run = await begin(cluster, sharded())
        await cluster.elapse(3)
        assert parts(cluster) == []
        waiting = the_run(cluster, run).waiting
        assert waiting is not None
        assert "maintenance" in waiting.reason
        await cluster.service.cluster.end_maintenance(by="ada")
        await cluster.elapse(5)
        assert the_run(cluster, run).state is RunState.SUCCEEDED


async def test_a_backfill_of_a_split_job_has_a_parent_per_instant() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([sharded("1h")])
        now = cluster.clock.now()
        await cluster.service.backfills.request("report", now - timedelta(hours=2), now, by="ada")
        await cluster.elapse(15)
        found = [run for run in parents(cluster) if run.kind is Kind.BACKFILL]
        assert len(found) >= 2
        assert set(states(found)) == {"succeeded"}
        assert {run.priority for run in parts(cluster)} == {-1}


# ----------------------------------------------------------------------------------------------------------- broadcast


async def test_a_broadcast_runs_once_on_every_node_that_can_run_it() -> None:
    async with a_cluster() as cluster:
        for name in ("a", "b", "c"):
            cluster.start(name, disk="hdd" if name == "c" else "ssd")
        await cluster.elapse(6)
        run = await begin(cluster, broadcast(require={"disk": "ssd"}))
        await cluster.elapse(3)
        assert the_run(cluster, run).result == {"succeeded": ["a", "b"]}
        assert sorted((one, node.partition("#")[0]) for one, _, node, _ in cluster.executor.starts) == [
            (f"{run}~n-a", "a"),
            (f"{run}~n-b", "b"),
        ]


async def test_a_broadcast_without_a_node_waits_and_says_why() -> None:
    async with a_cluster("a") as cluster:
        run = await begin(cluster, broadcast(require={"disk": "ssd"}))
        await cluster.elapse(3)
        waiting = the_run(cluster, run).waiting
        assert waiting is not None
        assert waiting.reason == "no node can run this job"
        assert "no label disk" in str(waiting)
        cluster.start("b", disk="ssd")
        await cluster.elapse(5)
        assert the_run(cluster, run).result == {"succeeded": ["b"]}


async def test_a_part_waits_for_its_busy_node_and_goes_to_no_other() -> None:
    async with a_cluster() as cluster:
        for node in ("a", "b"):
            cluster.start(node, slots=1, on=node)
        await cluster.elapse(6)
        held = cluster.executor.release = asyncio.Event()
        await begin(cluster, Job(name="other", target=PythonTarget("jobs:other"), require={"on": "a"}))
        await cluster.elapse(2)
        run = await begin(cluster, broadcast())
        await cluster.elapse(3)
        assert states(parts(cluster)) == ["retrying", "running"]
        held.set()
        await cluster.elapse(3)
        assert the_run(cluster, run).result == {"succeeded": ["a", "b"]}
        nodes = {one: node.partition("#")[0] for one, _, node, _ in cluster.executor.starts}
        assert (nodes[f"{run}~n-a"], nodes[f"{run}~n-b"]) == ("a", "b")


async def test_a_part_whose_node_is_gone_fails_after_a_minute_and_a_restarted_node_runs_it() -> None:
    async with a_cluster("a", "b", "c") as cluster:
        cluster.executor.release = asyncio.Event()
        run = await begin(cluster, broadcast())
        await cluster.elapse(3)
        leader = cluster.leaders[0]
        first, second = [node for node in cluster.nodes if node is not leader]
        for node in (first, second):
            await cluster.kill(node)
        cluster.start(node_name(first.id))
        await cluster.elapse(90)
        cluster.executor.release.set()
        await cluster.elapse(60)
        parent = the_run(cluster, run)
        assert parent.state is RunState.FAILED
        failed = the_run(cluster, f"{run}~n-{node_name(second.id)}")
        assert (failed.state, failed.outcome) == (RunState.FAILED, Outcome.LOST)
        assert failed.error == f"node {node_name(second.id)} has no heartbeat, for 1m"
        assert the_run(cluster, f"{run}~n-{node_name(first.id)}").state is RunState.SUCCEEDED
        # Only the node that was lost is repeated, also by name.
        cluster.start(node_name(second.id))
        await cluster.elapse(16)
        replay = await cluster.service.runs.replay(run)
        await cluster.elapse(4)
        assert the_run(cluster, replay).result == {"succeeded": [node_name(second.id)]}


async def test_a_broadcast_waits_for_nodes_that_a_wiped_redis_has_forgotten() -> None:
    async with a_cluster("a") as cluster:
        # Their heartbeats come one after the other.
        for node in ("b", "c"):
            await cluster.elapse(1.5)
            cluster.start(node)
        await cluster.elapse(7)
        cluster.backends.memory.flush()
        run = await begin(cluster, broadcast())
        await cluster.elapse(20)
        assert the_run(cluster, run).result == {"succeeded": ["a", "b", "c"]}


# ------------------------------------------------------------------------------------------------------------- failures


STEPS = [
    ("runs.apply", False),
    ("runs.apply", True),
    ("runs.existing", False),
    ("runs.insert", False),
    ("runs.insert", True),
    ("runs.part_counts", False),
    ("runs.standings", False),
]


@pytest.mark.parametrize(("verb", "acted"), STEPS)
async def test_a_leader_killed_at_any_step_leaves_one_parent_and_each_part_once(verb: str, acted: bool) -> None:
    # The nodes of a broadcast are chosen by the write that the first two steps stall.
    job = broadcast() if verb == "runs.apply" else sharded()
    async with a_cluster("a", "b", "c") as cluster:
        run = await begin(cluster, job)
        stall = cluster.backends.faults.stall(verb, acted=acted)
        await cluster.elapse(3)
        assert stall.reached.is_set()
        leader = cluster.leaders[0]
        await cluster.kill(leader)
        cluster.start(node_name(leader.id))
        cluster.backends.faults.heal()
        await cluster.elapse(50)
        assert the_run(cluster, run).state is RunState.SUCCEEDED
        assert states(parts(cluster, run)) == ["succeeded"] * (4 if job.shards else 3)
        assert states(parents(cluster)) == ["succeeded"]


async def test_a_leader_that_was_deposed_changes_no_parent_that_another_has_begun() -> None:
    async with a_cluster("a", "b", "c") as cluster:
        run = await begin(cluster, broadcast())
        stall = cluster.backends.faults.stall("runs.apply")
        await cluster.elapse(2)
        assert stall.reached.is_set()
        waiting = the_run(cluster, run)
        assert waiting.split is not None
        late = splitting.begin(
            waiting, replace(waiting.split, nodes=("a",)), fence=1, term=1, job_ver=1, at=cluster.clock.now()
        )
        cluster.backends.faults.heal()
        await cluster.elapse(0.25)
        assert await cluster.backends.runs.apply([late]) == set()
        await cluster.elapse(3)
        assert the_run(cluster, run).result == {"succeeded": ["a", "b", "c"]}


@pytest.mark.parametrize("inserted", range(5))
async def test_what_a_leader_left_of_the_parts_is_completed_by_the_next(inserted: int) -> None:
    async with a_cluster("a", "b") as cluster:
        held = cluster.executor.release = asyncio.Event()
        run = await begin(cluster, sharded())
        await cluster.elapse(0.5)
        assert len(parts(cluster, run)) == 4
        documents = cluster.backends.documents.runs
        await cluster.kill(cluster.leaders[0])
        for part in parts(cluster, run)[inserted:]:
            documents.delete([part.id])
        held.set()
        await cluster.elapse(60)
        assert the_run(cluster, run).result == {"succeeded": [0, 1, 2, 3]}


async def test_a_killed_worker_and_a_wiped_redis_cost_an_attempt_and_no_part() -> None:
    async with a_cluster("a", "b", "c", slots=2) as cluster:
        held = cluster.executor.release = asyncio.Event()
        run = await begin(cluster, sharded())
        await cluster.elapse(3)
        worker = next(node for node in cluster.nodes if node not in cluster.leaders)
        await cluster.kill(worker)
        cluster.backends.memory.flush()
        await cluster.elapse(90)
        held.set()
        await cluster.elapse(5)
        parent = the_run(cluster, run)
        assert (parent.state, parent.result) == (RunState.SUCCEEDED, {"succeeded": [0, 1, 2, 3]})


async def test_at_most_once_a_part_that_was_lost_is_not_repeated() -> None:
    async with a_cluster("a", "b", slots=2) as cluster:
        held = cluster.executor.release = asyncio.Event()
        run = await begin(cluster, sharded(delivery=Delivery.AT_MOST_ONCE, retry=NO_RETRY))
        await cluster.elapse(3)
        await cluster.kill(next(node for node in cluster.nodes if node not in cluster.leaders))
        held.set()
        await cluster.elapse(120)
        starts = Counter(cluster.executor.runs_started)
        assert set(starts.values()) == {1}
        assert Counter(states(parts(cluster))) == {"succeeded": 2, "lost": 2}
        assert the_run(cluster, run).state is RunState.FAILED
