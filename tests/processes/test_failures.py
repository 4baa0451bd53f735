"""The guarantees of the cluster on real processes and servers: kill, stop, wipe, and count lost runs."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections import Counter
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from redis.asyncio import Redis

from cronflow.domain.cluster import node_name
from cronflow.domain.job import CommandTarget, Job, Overlap, PythonTarget, Retry
from cronflow.domain.run import Outcome, Run, RunState
from cronflow.testing.embedded import MongoServer, RedisServer
from tests.processes.conftest import Processes, process_cluster
from tests.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.chaos


async def more_runs(cluster: Processes, job: str, count: int) -> None:
    """Wait until `count` more runs of the job have succeeded."""

    async def succeeded() -> int:
        return sum(run.job == job and run.state is RunState.SUCCEEDED for run in await cluster.runs())

    wanted = await succeeded() + count

    async def reached() -> bool:
        return await succeeded() >= wanted

    await eventually(reached, what=f"{count} more runs of {job}")


async def test_a_killed_leader_is_replaced_within_its_ttl_and_nothing_is_lost_or_doubled(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster:
        leader = await cluster.up("a", "b", "c")
        since = await cluster.apply(cluster.job("tick"), cluster.job("tock", every="2s"))
        await more_runs(cluster, "tick", 3)
        cluster.kill(leader)
        await cluster.new_leader(leader)
        await more_runs(cluster, "tick", 3)
        found = await cluster.proof(since)
        assert (found.lost, found.doubled) == ([], [])
        assert found.fires_due >= 6
        ended = [run for run, _ in cluster.noted("end")]
        succeeded = [run.id for run in await cluster.runs() if run.state is RunState.SUCCEEDED]
        assert set(succeeded) <= set(ended)


async def test_a_leader_that_was_paused_beyond_its_ttl_does_no_harm_when_it_wakes(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster:
        leader = await cluster.up("a", "b", "c")
        since = await cluster.apply(cluster.job("tick"))
        await more_runs(cluster, "tick", 2)
        cluster.signal(leader, signal.SIGSTOP)
        successor = await cluster.new_leader(leader)
        await more_runs(cluster, "tick", 2)
        cluster.signal(leader, signal.SIGCONT)
        await more_runs(cluster, "tick", 3)
        assert await cluster.leader() == successor
        found = await cluster.proof(since)
        assert (found.lost, found.doubled) == ([], [])
        assert "leader stepped down" in cluster.log(leader).read_text()


async def test_a_flushed_redis_loses_nothing(
    own_redis: RedisServer, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(own_redis.url, mongo_url, namespace, tmp_path) as cluster:
        await cluster.up("a", "b", "c")
        since = await cluster.apply(cluster.job("tick"), cluster.job("long", every="2s", seconds=1.5))
        async with Redis.from_url(own_redis.url) as redis:
            for _ in range(3):
                await more_runs(cluster, "tick", 2)
                await redis.flushall()
        await more_runs(cluster, "tick", 2)
        found = await cluster.proof(since)
        assert (found.lost, found.doubled) == ([], [])
        assert set(found.states) == {"succeeded"}


async def test_sidekiq_3196_a_run_whose_worker_was_killed_runs_again_with_a_higher_fence(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    """sidekiq #3196, #4937, #5540: what a killed process had taken was recovered only when some process started. Here
    no process starts.
    """
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster:
        leader = await cluster.up("a", "b", "c")
        await cluster.apply(cluster.job("long", every=None, seconds=1.0))
        run_id = await cluster.service.jobs.trigger("long")

        async def running_on() -> str | None:
            run = await cluster.service.runs.get(run_id)
            return run.node if run.state is RunState.RUNNING else None

        node = await eventually(running_on, what="the run is recorded as running")
        assert node is not None
        worker = node.partition("#")[0]
        (first,) = cluster.noted("start")
        cluster.kill(worker)
        if worker == leader:
            await cluster.new_leader(leader)

        async def ended() -> bool:
            return not (await cluster.service.runs.get(run_id)).is_open

        await eventually(ended, what="the run has ended")
        run = await cluster.service.runs.get(run_id)
        assert run.state is RunState.SUCCEEDED
        assert [attempt.outcome for attempt in run.attempts] == [Outcome.LOST, Outcome.OK]
        _, second = cluster.noted("start")
        assert second == (run_id, run.fence)
        assert second[1] > first[1]
        assert run.node is not None
        assert not run.node.startswith(f"{worker}#")


async def test_a_redis_outage_is_logged_once_and_nothing_is_lost(
    own_redis: RedisServer, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(own_redis.url, mongo_url, namespace, tmp_path) as cluster:
        await cluster.up("a", "b")
        since = await cluster.apply(cluster.job("tick"))
        await more_runs(cluster, "tick", 2)
        await asyncio.to_thread(own_redis.kill)
        await eventually(lambda: "service away" in cluster.log("a").read_text(), what="node a logs the outage of Redis")
        await asyncio.to_thread(own_redis.start)
        await eventually(lambda: "service back" in cluster.log("a").read_text(), what="node a logs that Redis is back")
        await more_runs(cluster, "tick", 2)
        found = await cluster.proof(since)
        assert (found.lost, found.doubled) == ([], [])
        assert len(re.findall("service away.*Redis", cluster.log("a").read_text())) == 1


async def test_mongodb_killed_and_restarted_loses_nothing(
    redis_url: str, own_mongo: MongoServer, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(redis_url, own_mongo.url, namespace, tmp_path) as cluster:
        await cluster.up("a", "b")
        since = await cluster.apply(cluster.job("tick"), cluster.job("long", every="2s", seconds=1.0))
        await more_runs(cluster, "tick", 3)
        await asyncio.to_thread(own_mongo.kill)
        await eventually(
            lambda: "service away" in cluster.log("a").read_text(), what="node a logs the outage of MongoDB"
        )
        await asyncio.to_thread(own_mongo.start)
        await eventually(
            lambda: "service back" in cluster.log("a").read_text(), what="node a logs that MongoDB is back"
        )
        await more_runs(cluster, "tick", 3)
        found = await cluster.proof(since)
        assert (found.lost, found.doubled) == ([], [])


async def test_a_terminated_node_finishes_its_runs_and_hands_over_leadership_at_once(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster:
        # Much longer than even a slow machine takes, so only a handover happens in time.
        cluster.limits["CRONFLOW_LEADER_TTL"] = f"{4 * PATIENCE_S:g}s"
        leader = await cluster.up("a", "b")
        since = await cluster.apply(cluster.job("tick"), cluster.job("long", every="1s", seconds=1.0))
        await more_runs(cluster, "tick", 3)
        child = cluster.children.pop(leader)
        child.terminate()
        await cluster.new_leader(leader)
        assert await asyncio.to_thread(child.wait, PATIENCE_S) == 0
        found = await cluster.proof(since)
        assert (found.lost, found.doubled) == ([], [])
        assert set(found.states) == {"succeeded"}
        done = {run.id: run.fence for run in await cluster.runs() if run.state is RunState.SUCCEEDED}
        starts = Counter(run for run, _ in cluster.noted("start"))
        assert {run: starts[run] for run in done} == dict.fromkeys(done, 1)
        assert done.items() <= set(cluster.noted("end"))


async def test_apscheduler_1116_a_handler_that_blocks_the_event_loop_loses_no_lease_and_starts_once(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    """apscheduler #1116: a job that starved the loop kept it from renewing its own lease, and was started again."""
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster:
        await cluster.up("a", "b")
        # Longer than the lease of the run, the job lock, the node TTL and the leader TTL together.
        target = PythonTarget("tests.processes.handlers:block", {"sink": str(cluster.sink), "seconds": 8.0})
        since = await cluster.apply(
            Job(name="block", target=target, retry=Retry(max=0)), cluster.job("tick", overlap=Overlap.ALLOW)
        )
        run_id = await cluster.service.jobs.trigger("block")

        async def ended() -> bool:
            return not (await cluster.service.runs.get(run_id)).is_open

        await eventually(
            lambda: any(run == run_id for run, _ in cluster.noted("start")), what="the handler has started"
        )

        async def reported_as_blocked() -> bool:
            return any(member.report.lag_s > 2 for member in await cluster.service.cluster.members())

        await eventually(reported_as_blocked, what="the node reports the blocked event loop")
        assert len(await cluster.service.cluster.members()) == 2
        await eventually(ended, what="the run has ended")
        run = await cluster.service.runs.get(run_id)
        assert (run.state, len(run.attempts), run.redispatches) == (RunState.SUCCEEDED, 1, 0)
        assert [noted for noted, _ in cluster.noted("start")].count(run_id) == 1
        found = await cluster.proof(since)
        assert (found.lost, found.doubled) == ([], [])


async def test_what_a_killed_node_ran_is_gone_before_it_runs_again(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster:
        await cluster.up("a", "b")
        pids = tmp_path / "pids"
        # The shell and its child in the same group; both ignore SIGTERM.
        line = f"trap '' TERM; (echo $$ >>{pids}; while :; do sleep 0.1; done) & while :; do sleep 0.1; done"
        await cluster.apply(Job(name="long", target=CommandTarget(line), timeout=timedelta(minutes=5)))
        run = await cluster.service.jobs.trigger("long")

        async def running() -> Run | None:
            found = await cluster.service.runs.get(run)
            return found if found.state is RunState.RUNNING and pids.exists() and pids.read_text().strip() else None

        first = await eventually(running, what="the run has started")
        group = int(pids.read_text().split()[0])
        assert in_group(group) >= 2
        assert first is not None
        assert first.node is not None
        cluster.kill(node_name(first.node))
        await eventually(lambda: in_group(group) == 0, what="the process group of the command has ended")
        await eventually(lambda: len(pids.read_text().split()) == 2, what="the second attempt has started")
        assert in_group(group) == 0
        assert in_group(int(pids.read_text().split()[1])) >= 2
        await cluster.service.runs.cancel(run)


def in_group(group: int) -> int:
    """The number of running processes in the group."""
    found = 0
    for process in psutil.process_iter():
        try:
            found += os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
        except (ProcessLookupError, psutil.NoSuchProcess):
            pass  # It has just ended.
    return found


async def test_a_node_stores_what_its_python_jobs_print_as_lines_of_their_runs(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster:
        await cluster.up("a")
        target = PythonTarget("tests.processes.handlers:prints", {"text": "forty-two rows"})
        await cluster.apply(Job(name="prints", target=target))
        run = await cluster.service.jobs.trigger("prints")

        async def ended() -> bool:
            return not (await cluster.service.runs.get(run)).is_open

        await eventually(ended, what="the run ended")
        assert [(line.level, line.text) for line in await cluster.backends.logs.read(run)] == [
            ("info", "forty-two rows")
        ]
        assert "forty-two rows" not in cluster.log("a").read_text()
