"""The fault table of the protocol (section 9) on real processes and servers, except what `test_failures` covers.

Cut networks, stopped workers, servers that forget or step down, two primaries. Each ends with the audit: no fire
is lost or committed twice.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pymongo import MongoClient
from redis.asyncio import Redis

from cronflow.domain.job import Delivery, Job, Overlap, PythonTarget, Retry
from cronflow.domain.run import Outcome, Run, RunState
from cronflow.node.role_loop import end_tasks
from cronflow.testing.embedded import MongoServer, RedisServer
from cronflow.testing.tcp_proxy import TcpProxy
from tests.children import child_environment, python
from tests.processes.conftest import Processes, process_cluster
from tests.processes.test_failures import more_runs
from tests.processes.test_stopping import ended, running
from tests.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.chaos


async def sound(cluster: Processes, since: dict[str, datetime], timeout: float = PATIENCE_S) -> None:
    """Audit, and check in the sink that every successful run has a handler that ended."""
    found = await cluster.proof(since, timeout=timeout)
    assert (found.lost, found.doubled) == ([], [])
    # The nodes go on: a handler writes its end before it is recorded.
    succeeded = {(run.id, run.fence) for run in await cluster.runs() if run.state is RunState.SUCCEEDED}
    assert succeeded <= set(cluster.noted("end"))


def the_file_of_a_redis(folder: Path) -> Path:
    """The append-only file of Redis."""
    (file,) = folder.glob("**/*.incr.aof")
    return file


async def logs(cluster: Processes, node: str, words: str, timeout: float = PATIENCE_S) -> None:
    """Wait until a node has logged a text."""
    await eventually(lambda: words in cluster.log(node).read_text(), timeout, f"node {node} logs {words!r}")


def attempts(run: Run) -> list[Outcome]:
    return [attempt.outcome for attempt in run.attempts]


# ------------------------------------------------------------------------------------------------------- cut networks


async def test_a_leader_cut_from_redis_is_replaced_and_follows_when_it_is_back(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster, TcpProxy.to(redis_url) as link:
        cluster.start("cut", redis_url=link.url)
        assert await cluster.all_up("cut") == "cut"
        await cluster.up("other")
        since = await cluster.apply(cluster.job("tick"))
        await more_runs(cluster, "tick", 2)
        link.cut()
        assert await cluster.new_leader("cut") == "other"
        await logs(cluster, "cut", "leader stepped down")
        await more_runs(cluster, "tick", 3)
        await link.mend()
        await logs(cluster, "cut", "service back")
        assert await cluster.leader() == "other"
        await sound(cluster, since)


@pytest.mark.prove  # `cronflow chaos` and the simulation do this by chance
async def test_a_leader_cut_from_mongodb_gives_the_lead_to_one_that_reaches_it(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster, TcpProxy.to(mongo_url) as link:
        cluster.start("cut", mongo_url=link.url)
        assert await cluster.all_up("cut") == "cut"
        await cluster.up("other")
        since = await cluster.apply(cluster.job("tick"))
        await more_runs(cluster, "tick", 2)
        link.cut()
        # Its key expires while it waits for a response, or it steps down; a call can take five seconds.
        assert await cluster.new_leader("cut") == "other"
        await more_runs(cluster, "tick", 3)
        await link.mend()
        await logs(cluster, "cut", "leader stepped down")
        assert await cluster.leader() == "other"
        await sound(cluster, since)


@pytest.mark.prove  # `cronflow chaos` and the simulation do this by chance
async def test_a_worker_cut_from_redis_takes_nothing_and_ends_what_it_has(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster, TcpProxy.to(redis_url) as link:
        await cluster.up("leader")
        cluster.start("cut", "on=cut", redis_url=link.url)
        await cluster.all_up("leader", "cut")
        # Longer than the lease, the job lock and the TTL of a heartbeat.
        await cluster.apply(cluster.job("long", every=None, seconds=7.0, require={"on": "cut"}))
        first = await cluster.service.jobs.trigger("long")
        began = await running(cluster, first)
        link.cut()
        await eventually(lambda: first in dict(cluster.noted("end")), what="its handler has ended")
        done = await ended(cluster, first)
        assert (done.state, done.fence, attempts(done)) == (RunState.SUCCEEDED, began.fence, [Outcome.OK])
        second = await cluster.service.jobs.trigger("long")

        async def waits() -> bool:
            run = await cluster.service.runs.get(second)
            return run.waiting is not None and second not in dict(cluster.noted("start"))

        await eventually(waits, what="no node takes the next run")
        await link.mend()
        assert (await ended(cluster, second)).state is RunState.SUCCEEDED
        assert Counter(run for run, _ in cluster.noted("start")) == {first: 1, second: 1}


@pytest.mark.prove  # `cronflow chaos` and the simulation do this by chance
async def test_a_worker_cut_from_mongodb_is_replaced_and_what_it_tells_later_is_a_late_result(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster, TcpProxy.to(mongo_url) as link:
        await cluster.up("leader")
        cluster.start("cut", "on=worker", mongo_url=link.url)
        await cluster.all_up("leader", "cut")
        await cluster.apply(cluster.job("long", every=None, seconds=2.0, require={"on": "worker"}))
        run_id = await cluster.service.jobs.trigger("long")
        first = await running(cluster, run_id)
        link.cut()
        await eventually(lambda: cluster.noted("end"), what="its handler has ended")
        await eventually(lambda: run_id in cluster.spooled("cut"), what="the outcome is in its spool")
        cluster.start("other", "on=worker")
        second = await ended(cluster, run_id)
        assert (second.state, attempts(second)) == (RunState.SUCCEEDED, [Outcome.LOST, Outcome.OK])
        assert second.fence > first.fence
        await link.mend()

        async def kept() -> list[int]:
            return [late.fence for late in await cluster.service.runs.late(run_id)]

        assert await eventually(kept, what="its outcome is stored as a late result") == [first.fence]
        assert await cluster.service.runs.get(run_id) == second


# ----------------------------------------------------------------------------------------------------- lost workers


async def test_a_worker_stopped_beyond_its_lease_wakes_is_fenced_out_and_aborts(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster:
        await cluster.up("leader")
        cluster.start("stopped", "on=worker")
        await cluster.all_up("leader", "stopped")
        await cluster.apply(cluster.job("long", every=None, seconds=20.0, require={"on": "worker"}))
        run_id = await cluster.service.jobs.trigger("long")
        first = await running(cluster, run_id)
        cluster.signal("stopped", signal.SIGSTOP)
        cluster.start("other", "on=worker")

        async def elsewhere() -> bool:
            run = await cluster.service.runs.get(run_id)
            return run.state is RunState.RUNNING and run.fence > first.fence

        await eventually(elsewhere, what="another node runs it")
        cluster.signal("stopped", signal.SIGCONT)
        await logs(cluster, "stopped", "run superseded")
        last = await ended(cluster, run_id)
        assert (last.state, attempts(last)) == (RunState.SUCCEEDED, [Outcome.LOST, Outcome.OK])
        assert [late.fence for late in await cluster.service.runs.late(run_id)] == [first.fence]
        # The command of the first attempt was stopped.
        assert cluster.noted("end") == [(run_id, last.fence)]


async def test_at_most_once_a_run_whose_worker_was_killed_is_lost_and_not_started_again(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster:
        await cluster.up("leader")
        for name in ("killed", "other"):
            cluster.start(name, "on=worker")
        await cluster.all_up("leader", "killed", "other")
        once = cluster.job("once", every=None, seconds=2.0, require={"on": "worker"}, delivery=Delivery.AT_MOST_ONCE)
        await cluster.apply(once)
        run_id = await cluster.service.jobs.trigger("once")
        run = await running(cluster, run_id)
        assert run.node is not None
        await eventually(lambda: cluster.noted("start"), what="the handler has started")
        cluster.kill(run.node.partition("#")[0])
        lost = await ended(cluster, run_id)
        assert (lost.state, lost.outcome, lost.fence) == (RunState.LOST, Outcome.LOST, run.fence)
        assert cluster.noted("start") == [(run_id, run.fence)]
        assert await cluster.service.backends.dead_letters.count() == 1


async def test_sidekiq_4633_a_job_that_kills_three_nodes_is_poison_and_kills_no_fourth(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    """sidekiq #4633: a job that killed its process was recovered for ever, and took one process after another."""
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster:
        await cluster.up("leader")
        workers = ("a", "b", "c", "d")
        for name in workers:
            cluster.start(name, "on=worker")
        await cluster.all_up("leader", *workers)
        target = PythonTarget("tests.processes.handlers:die", {"sink": str(cluster.sink)})
        await cluster.apply(Job(name="poison", target=target, require={"on": "worker"}, retry=Retry(max=9)))
        run_id = await cluster.service.jobs.trigger("poison")
        run = await ended(cluster, run_id)
        assert (run.state, run.outcome) == (RunState.FAILED, Outcome.POISON)
        assert attempts(run) == [Outcome.LOST] * 3
        fences = [fence for _, fence in cluster.noted("start")]
        assert len(fences) == 3
        assert fences == sorted(fences)
        assert sum(cluster.children[name].poll() is None for name in workers) == 1


# -------------------------------------------------------------------------------------------------------------- Redis


async def test_two_redis_primaries_with_a_leader_each_commit_every_instant_once(
    own_redis: RedisServer, redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster:
        cluster.start("here")
        assert await cluster.all_up("here") == "here"
        since = await cluster.apply(cluster.job("tick"), cluster.job("tock", every="2s", overlap=Overlap.QUEUE))
        await more_runs(cluster, "tick", 2)
        # The other side of a split, with its own leader key, term, queues and locks.
        cluster.start("there", redis_url=own_redis.url)
        await logs(cluster, "there", "leader elected")
        await logs(cluster, "here", "leader stepped down")
        await more_runs(cluster, "tick", 4)
        await logs(cluster, "there", "leader stepped down")
        await more_runs(cluster, "tick", 4)
        await sound(cluster, since)
        terms = [run.term for run in await cluster.runs()]
        assert len(set(terms)) >= 3


async def test_a_redis_that_lost_the_tail_of_its_file_loses_nothing_of_ours(
    own_redis: RedisServer, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(own_redis.url, mongo_url, namespace, tmp_path) as cluster:
        leader = await cluster.up("a", "b", "c")
        since = await cluster.apply(cluster.job("tick"), cluster.job("long", every="2s", seconds=1.5))
        await more_runs(cluster, "tick", 2)
        file = the_file_of_a_redis(own_redis.data_dir)
        known = file.stat().st_size
        cluster.kill(leader)
        await cluster.new_leader(leader)
        await more_runs(cluster, "tick", 2)
        await asyncio.to_thread(own_redis.kill)
        with file.open("r+b") as tail:
            # Truncate in the middle of a command before the last election, so that Redis has an older term.
            tail.truncate(known - 3)
        await asyncio.to_thread(own_redis.start)
        await more_runs(cluster, "tick", 4)
        await sound(cluster, since)


async def test_a_redis_whose_clock_jumps_and_lets_everything_expire_at_once_loses_nothing(
    own_redis: RedisServer, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(own_redis.url, mongo_url, namespace, tmp_path) as cluster:
        await cluster.up("a", "b")
        since = await cluster.apply(cluster.job("tick"), cluster.job("long", every="2s", seconds=1.5))
        async with Redis.from_url(own_redis.url) as redis:
            for _ in range(4):
                await more_runs(cluster, "tick", 2)
                async for key in redis.scan_iter():
                    if await redis.pttl(key) > 0:
                        await redis.pexpire(key, 1)
        await more_runs(cluster, "tick", 2)
        await sound(cluster, since)
        starts = Counter(run for run, _ in cluster.noted("start"))
        done = {run.id for run in await cluster.runs() if run.state is RunState.SUCCEEDED}
        assert {starts[run] for run in done} == {1}


async def test_without_doorbells_everything_is_found_by_polls(
    own_redis: RedisServer, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(own_redis.url, mongo_url, namespace, tmp_path) as cluster:
        await cluster.up("a", "b")
        since = await cluster.apply(cluster.job("tick"), cluster.job("by-hand", every=None))
        async with Redis.from_url(own_redis.url) as redis:

            async def deafen() -> None:
                while True:
                    await redis.client_kill_filter(_type="pubsub")
                    await asyncio.sleep(0.02)

            deaf = asyncio.create_task(deafen())
            try:
                await more_runs(cluster, "tick", 3)
                run = await cluster.service.jobs.trigger("by-hand")
                assert (await ended(cluster, run)).state is RunState.SUCCEEDED
                await more_runs(cluster, "tick", 3)
            finally:
                await end_tasks([deaf])
        await sound(cluster, since)


# ------------------------------------------------------------------------------------------------------------ MongoDB


@pytest.mark.prove  # `cronflow chaos` and the simulation do this by chance
async def test_a_mongodb_primary_that_steps_down_and_comes_back_loses_nothing(
    redis_url: str, own_mongo: MongoServer, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(redis_url, own_mongo.url, namespace, tmp_path) as cluster:
        await cluster.up("a", "b")
        since = await cluster.apply(cluster.job("tick"), cluster.job("long", every="2s", seconds=1.0))

        def step_down() -> None:
            url = own_mongo.url.partition("?")[0] + "?directConnection=true"
            client: MongoClient[dict[str, object]]
            with MongoClient(url) as client:
                client.admin.command({"replSetStepDown": 3, "secondaryCatchUpPeriodSecs": 0, "force": True})
                assert not client.admin.command("hello")["isWritablePrimary"]

        for _ in range(3):
            await more_runs(cluster, "tick", 2)
            await asyncio.to_thread(step_down)
        await more_runs(cluster, "tick", 3)
        await sound(cluster, since)


async def test_an_editor_killed_in_the_midst_of_an_edit_leaves_a_note_that_the_leader_settles(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster:
        await cluster.up("a")
        since = await cluster.apply(cluster.job("tick"))
        await more_runs(cluster, "tick", 2)
        paused = await cluster.service.jobs.pause("tick")

        async def fell_due() -> bool:
            known = [run.fire_at for run in await cluster.runs()]
            now = await cluster.backends.store_admin.time()
            return (now - max(known)).total_seconds() > 3

        await eventually(fell_due, what="fires were due while it was paused")
        with subprocess.Popen(
            python("-m", "tests.processes.editing", redis_url, mongo_url, namespace, "tick"),
            env=child_environment(),
            stdout=subprocess.PIPE,
        ) as editor:
            assert editor.stdout is not None
            assert await asyncio.to_thread(editor.stdout.readline) == b"moved\n"
            editor.kill()
        moved = await cluster.service.jobs.get("tick")
        assert moved.ver == paused.ver + 1
        assert moved.pending_run is not None
        await more_runs(cluster, "tick", 2)

        async def settled() -> bool:
            # The leader's own intents stay until the runs of their batches exist.
            intents = await cluster.backends.plans.left_behind(1_000_000, timedelta(0))
            return not any(intent.id.startswith("edit-") for intent in intents)

        await eventually(settled, what="the intent is gone")
        await sound(cluster, since)
        jumped = [run for run in await cluster.runs() if run.state is RunState.SKIPPED]
        assert [run.fire_at for run in jumped] == [moved.pending_run.fire]
