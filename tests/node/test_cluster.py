"""Whole nodes on virtual time: election, planning, dispatch, retries, takeover, shutdown."""

from __future__ import annotations

import asyncio
import copy
import itertools
from datetime import timedelta
from typing import Any

import pytest
from structlog.contextvars import get_contextvars

from cronflow.domain.job import Delivery, Job, Misfire, MisfirePolicy, Overlap, PythonTarget, Retry, StartGuard
from cronflow.domain.run import AttemptResult, Outcome, RunState
from cronflow.domain.schedule.kinds import Every, Once
from cronflow.testing.memory.coordination import Memory
from tests.node.cluster import a_cluster

SECOND = timedelta(seconds=1)


def a_job(name: str = "tick", every: str = "10s", **fields: object) -> Job:
    return Job(name=name, target=PythonTarget("jobs:tick"), schedule=Every(every), **fields)  # type: ignore[arg-type]


async def test_exactly_one_of_three_nodes_leads() -> None:
    async with a_cluster("a", "b", "c") as cluster:
        assert len(cluster.leaders) == 1
        await cluster.elapse(120)
        assert len(cluster.leaders) == 1
        record = cluster.backends.documents.leader
        assert record is not None
        assert record.term == 1


async def test_every_instant_that_falls_due_runs_once_and_on_time() -> None:
    async with a_cluster("a", "b", "c") as cluster:
        await cluster.service.jobs.apply([a_job()])
        first = cluster.clock.now()
        await cluster.elapse(60)
        assert [run.state for run in cluster.runs] == [RunState.SUCCEEDED] * 6
        fires = [run.fire_at for run in cluster.runs]
        assert [later - earlier for earlier, later in itertools.pairwise(fires)] == [10 * SECOND] * 5
        assert first < fires[0] <= first + 10 * SECOND
        assert all(run.lateness is not None and run.lateness < SECOND / 2 for run in cluster.runs)
        assert len(cluster.executor.starts) == 6


async def test_many_runs_at_once_are_spread_over_the_nodes() -> None:
    async with a_cluster("a", "b", "c") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job(f"job-{k}", every="5m") for k in range(30)])
        await cluster.elapse(300)
        per_node = {node.id: sum(s[2] == node.id for s in cluster.executor.starts) for node in cluster.nodes}
        assert sorted(per_node.values()) == [10, 10, 10]


async def test_more_runs_than_slots_wait_for_a_slot_and_none_is_lost() -> None:
    async with a_cluster("a", "b", slots=2) as cluster:
        await cluster.service.jobs.apply([a_job(f"job-{k}", every="5m") for k in range(40)])
        await cluster.elapse(310)
        assert {run.state for run in cluster.runs} == {RunState.SUCCEEDED}
        assert sorted(cluster.executor.runs_started) == sorted(run.id for run in cluster.runs)
        assert len(cluster.runs) == 40


async def test_a_failed_attempt_is_tried_again_after_30_60_and_120_seconds() -> None:
    async with a_cluster("a", "b") as cluster:
        cluster.executor.attempt_result = lambda _: AttemptResult(Outcome.ERROR, error="no")
        await cluster.service.jobs.apply([a_job(every="10m")])
        await cluster.elapse(600 + 240)
        times = [at for *_, at in cluster.executor.starts]
        waits = [(later - earlier).total_seconds() for earlier, later in itertools.pairwise(times)]
        # The reconciler looks every second, so a retry is never early and at most that much late.
        assert [wait for wait, due in zip(waits, (30, 60, 120), strict=True) if not due <= wait <= due + 1.25] == []
        (run,) = cluster.runs
        assert (run.state, run.attempt, run.error) == (RunState.FAILED, 4, "no")
        assert [attempt.n for attempt in run.attempts] == [1, 2, 3, 4]
        fences = [attempt.fence for attempt in run.attempts]
        assert fences == sorted(set(fences))


async def test_a_permanent_error_ends_the_run_at_once() -> None:
    async with a_cluster("a") as cluster:
        cluster.executor.attempt_result = lambda _: AttemptResult(Outcome.PERMANENT, error="no such customer")
        await cluster.service.jobs.apply([a_job(every="5m")])
        await cluster.elapse(300 + 60)
        assert len(cluster.executor.starts) == 1
        assert [run.state for run in cluster.runs] == [RunState.FAILED]


async def test_a_killed_leader_is_replaced_within_its_ttl_and_nothing_is_lost() -> None:
    async with a_cluster("a", "b", "c") as cluster:
        await cluster.service.jobs.apply([a_job()])
        await cluster.elapse(25)
        (leader,) = cluster.leaders
        await cluster.kill(leader)
        await cluster.elapse(31)
        assert len(cluster.leaders) == 1
        await cluster.elapse(34)
        fires = [run.fire_at for run in cluster.runs]
        assert [later - earlier for earlier, later in itertools.pairwise(fires)] == [10 * SECOND] * 8
        assert {run.state for run in cluster.runs} == {RunState.SUCCEEDED}
        assert len(cluster.executor.starts) == len(cluster.runs)


async def test_a_resigning_leader_is_replaced_at_once() -> None:
    async with a_cluster("a", "b", "c") as cluster:
        (leader,) = cluster.leaders
        leader.stop()
        for _ in range(20):
            await cluster.clock.advance(0.01)
        assert [node for node in cluster.leaders if node is not leader]


async def test_stepdown_hands_the_lead_to_another_node() -> None:
    async with a_cluster("a", "b") as cluster:
        (leader,) = cluster.leaders
        assert leader.id.startswith(await cluster.service.cluster.stepdown())
        await cluster.elapse(0.5)
        (successor,) = cluster.leaders
        assert successor is not leader


async def test_a_flushed_redis_loses_nothing() -> None:
    async with a_cluster("a", "b", "c") as cluster:
        await cluster.service.jobs.apply([a_job(f"job-{k}") for k in range(5)])
        for _ in range(6):
            await cluster.elapse(9.9)
            cluster.backends.memory.flush()
        await cluster.elapse(40)
        # An item that was lost comes back after ten seconds; the fire in between then overlaps, and says so.
        assert {run.state for run in cluster.runs} <= {RunState.SUCCEEDED, RunState.SKIPPED}
        assert {run.reason for run in cluster.runs if run.state is RunState.SKIPPED} <= {"overlap"}
        for k in range(5):
            fires = [run.fire_at for run in cluster.runs if run.job == f"job-{k}"]
            assert [later - earlier for earlier, later in itertools.pairwise(fires)] == [10 * SECOND] * (len(fires) - 1)
            assert len(fires) == 10


def memory_of(redis: Memory) -> dict[str, Any]:
    """All that it remembers, copied."""
    return {
        name: {key: copy.copy(each) for key, each in value.items()} if isinstance(value, dict) else value
        for name, value in vars(redis).items()
        if name not in ("clock", "bells")
    }


@pytest.mark.parametrize("lost_s", [0.5, 3, 12, 29])
async def test_jepsen_2013_a_redis_that_loses_acknowledged_writes_loses_nothing(lost_s: float) -> None:
    """Redis Sentinel, Jepsen 2013, and Redis-Raft, Jepsen 1b3fbf6: what had been acknowledged was gone after a
    failover: the lead, locks and lists are those of some time ago, although another one leads by now.
    """
    async with a_cluster("a", "b", "c") as cluster:
        await cluster.service.jobs.apply([a_job(f"job-{k}", "3s", overlap=Overlap.ALLOW) for k in range(4)])
        redis = cluster.backends.memory
        for _ in range(4):
            await cluster.elapse(4)
            replica = memory_of(redis)
            await cluster.elapse(lost_s / 2)
            await cluster.service.cluster.stepdown()
            await cluster.elapse(lost_s / 2)
            vars(redis).update(replica)
            await cluster.elapse(35)
        await cluster.elapse(30)
        assert len(cluster.leaders) == 1
        ended = [run for run in cluster.runs if run.fire_at < cluster.clock.now() - 2 * SECOND]
        assert {run.state for run in ended} == {RunState.SUCCEEDED}
        for k in range(4):
            fires = [run.fire_at for run in cluster.runs if run.job == f"job-{k}"]
            assert {later - earlier for earlier, later in itertools.pairwise(fires)} == {3 * SECOND}
        assert len(cluster.executor.starts) == len(set(cluster.executor.runs_started))


@pytest.mark.parametrize("hours", [1, -1])
async def test_redis_416_a_jump_of_the_clock_that_all_ttls_follow_decides_nothing(hours: int) -> None:
    """redis #416, valkey #2651: a TTL is an instant of the wall clock. When that jumped ahead every lock was free at
    once, whatever its holder did; when it went back they lasted for as much longer.
    """
    async with a_cluster("a", "b", "c") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job("long", "5m"), a_job("other", "5m", overlap=Overlap.QUEUE)])
        while len(cluster.executor.starts) < 2:
            await cluster.elapse(5)
        redis, jump = cluster.backends.memory, hours * 3600.0
        for _ in range(6):
            if redis.leader is not None:
                redis.leader = (redis.leader[0], redis.leader[1] - jump)
            redis.reports = {node: (said, until - jump, seen) for node, (said, until, seen) in redis.reports.items()}
            redis.locks = {key: (job_lock, node, until - jump) for key, (job_lock, node, until) in redis.locks.items()}
            await cluster.elapse(40)
        # Their leases are in MongoDB, and their workers live: nobody started them a second time.
        assert len(cluster.executor.starts) == 2
        cluster.executor.release.set()
        await cluster.elapse(70)
        assert len(cluster.leaders) == 1
        assert {run.state for run in cluster.runs} == {RunState.SUCCEEDED}
        assert len(cluster.runs) == 4
        assert len(cluster.executor.starts) == 4


@pytest.mark.parametrize("guard", list(StartGuard))
async def test_celery_2599_a_run_longer_than_every_time_limit_is_not_started_twice_while_its_worker_lives(
    guard: StartGuard,
) -> None:
    """celery #2599, kombu #337: a run longer than the visibility timeout was given to a second worker; hexpm #1825: a
    rescue shorter than the run; agenda #1575, #782: the lock of a job ended before the job; sidekiq #4611: a process
    that started took the runs of living ones for orphans.
    """
    async with a_cluster("leader", "b") as cluster:
        cluster.executor.release = asyncio.Event()
        cluster.start("worker", work="yes")
        await cluster.elapse(0.5)
        await cluster.service.jobs.apply([a_job("long", "1h", require={"work": "yes"}, start_guard=guard)])
        run = await cluster.service.jobs.trigger("long")
        await cluster.elapse(120)
        (leader,) = cluster.leaders
        if not leader.id.startswith("worker"):
            await cluster.kill(leader)
        cluster.start("late", work="yes")
        await cluster.elapse(400)
        assert cluster.executor.runs_started == [run]
        cluster.executor.release.set()
        await cluster.elapse(1)
        found = await cluster.service.runs.get(run)
        assert (found.state, found.attempt, found.redispatches) == (RunState.SUCCEEDED, 1, 0)


async def test_sidekiq_3196_a_run_whose_worker_was_killed_runs_again_with_a_higher_fence() -> None:
    """sidekiq #3196, #4937, #5540: recovery only when some process starts; here nobody starts."""
    async with a_cluster("a", "b", "c") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([Job(name="long", target=PythonTarget("jobs:long"))])
        await cluster.service.jobs.trigger("long")
        await cluster.elapse(3)
        ((run, fence, where, _),) = cluster.executor.starts
        await cluster.kill(next(node for node in cluster.nodes if node.id == where))
        cluster.executor.release.set()
        await cluster.elapse(60)
        (_, second) = cluster.executor.starts
        assert second[0] == run
        assert second[1] > fence
        assert second[2] != where
        (ended,) = cluster.runs
        assert (ended.state, ended.fence) == (RunState.SUCCEEDED, second[1])
        assert [attempt.outcome for attempt in ended.attempts] == [Outcome.LOST, Outcome.OK]


async def test_a_shutting_down_node_ends_what_runs_and_leaves() -> None:
    async with a_cluster("a") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job(every="5m")])
        await cluster.elapse(300)
        (node,) = cluster.nodes
        node.stop()
        await cluster.elapse(5)
        assert not cluster.tasks[node.id].done()
        cluster.executor.release.set()
        await cluster.elapse(1)
        assert cluster.tasks[node.id].done()
        assert [run.state for run in cluster.runs] == [RunState.SUCCEEDED]
        assert await cluster.service.cluster.members() == []


async def test_a_drain_that_lasts_too_long_hands_the_run_on_without_using_an_attempt() -> None:
    async with a_cluster("a") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job(every="5m")])
        await cluster.elapse(300)
        (node,) = cluster.nodes
        node.stop()
        await cluster.elapse(62)
        assert cluster.tasks[node.id].done()
        (run,) = cluster.runs
        assert (run.state, run.attempt) == (RunState.RETRYING, 0)
        cluster.start("b")
        cluster.executor.release.set()
        await cluster.elapse(35)
        (run,) = cluster.runs
        assert (run.state, run.attempt) == (RunState.SUCCEEDED, 1)


async def test_an_overlapping_fire_is_skipped_and_recorded() -> None:
    async with a_cluster("a") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job()])
        await cluster.elapse(30)
        assert [run.state for run in cluster.runs] == [RunState.RUNNING, RunState.SKIPPED, RunState.SKIPPED]
        assert {run.reason for run in cluster.runs[1:]} == {"overlap"}


async def test_queued_fires_run_one_after_another() -> None:
    async with a_cluster("a") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job(overlap=Overlap.QUEUE)])
        await cluster.elapse(30)
        assert len(cluster.executor.starts) == 1
        cluster.executor.release.set()
        await cluster.elapse(10)
        assert len(cluster.executor.starts) == 4
        assert {run.state for run in cluster.runs} == {RunState.SUCCEEDED}


async def test_fires_missed_while_nobody_led_become_one_run_that_covers_them() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job()])
        await cluster.elapse(15)
        (node,) = cluster.nodes
        await cluster.kill(node)
        await cluster.clock.advance(600)
        cluster.start("b")
        await cluster.elapse(5)
        late = [run for run in cluster.runs if run.covers is not None]
        assert len(late) == 1
        assert late[0].covers is not None
        assert late[0].covers.count is not None
        assert late[0].covers.count >= 59
        assert late[0].state is RunState.SUCCEEDED


async def test_catching_up_runs_each_missed_fire_in_order() -> None:
    async with a_cluster("a") as cluster:
        misfire = Misfire(policy=MisfirePolicy.CATCH_UP, max_catch_up=5)
        await cluster.service.jobs.apply([a_job(misfire=misfire, every="60s", overlap=Overlap.QUEUE)])
        await cluster.elapse(61)
        await cluster.kill(cluster.nodes[0])
        await cluster.clock.advance(600)
        cluster.start("b")
        await cluster.elapse(20)
        skipped = [run for run in cluster.runs if run.state is RunState.SKIPPED]
        assert [(run.reason, run.covers and run.covers.count) for run in skipped] == [("misfire", 5)]
        fires = [run.fire_at for run in cluster.runs if run.state is RunState.SUCCEEDED][1:]
        assert len(fires) == 5
        assert cluster.executor.runs_started == [run.id for run in cluster.runs if run.state is RunState.SUCCEEDED]


async def test_a_one_time_job_runs_once_and_is_done() -> None:
    async with a_cluster("a") as cluster:
        at = cluster.clock.now() + timedelta(seconds=20)
        await cluster.service.jobs.apply([Job(name="reminder", target=PythonTarget("jobs:tick"), schedule=Once(at))])
        await cluster.elapse(60)
        assert [run.fire_at for run in cluster.runs] == [at.replace(microsecond=0)]
        record = await cluster.service.jobs.get("reminder")
        assert (record.next_fire, record.active) == (None, False)


async def test_a_job_that_no_node_can_take_waits_and_does_not_hold_up_the_others() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job("picky", require={"gpu": "yes"}), a_job("easy")])
        await cluster.elapse(21)
        assert {run.job for run in cluster.runs} == {"easy"}
        cluster.start("b", gpu="yes")
        await cluster.elapse(10)
        picky = [start for start in cluster.executor.starts if start[0].startswith("picky")]
        assert picky
        assert all(start[2].startswith("b#") for start in picky)


async def test_mongodb_away_for_a_while_costs_time_and_nothing_else() -> None:
    async with a_cluster("a", "b") as cluster:
        await cluster.service.jobs.apply([a_job()])
        await cluster.elapse(12)
        cluster.backends.faults.fail_before("MongoDB", times=100)
        await cluster.elapse(15)
        cluster.backends.faults.heal()
        await cluster.elapse(30)
        fires = [run.fire_at for run in cluster.runs]
        assert [later - earlier for earlier, later in itertools.pairwise(fires)] == [10 * SECOND] * (len(fires) - 1)
        assert len(fires) >= 5
        assert {run.state for run in cluster.runs} == {RunState.SUCCEEDED}


@pytest.mark.parametrize(
    "verb", ["jobs.move", "runs.insert", "runs.apply", "plans.write", "plans.remove", "queue.dispatch", "queue.take"]
)
async def test_a_write_whose_answer_is_lost_is_made_once_only(verb: str) -> None:
    async with a_cluster("a", "b") as cluster:
        await cluster.service.jobs.apply([a_job(overlap=Overlap.ALLOW)])
        await cluster.elapse(9)
        cluster.backends.faults.fail_after(verb)
        await cluster.elapse(76)
        fires = [run.fire_at for run in cluster.runs]
        steps = [later - earlier for earlier, later in itertools.pairwise(fires)]
        assert steps == [10 * SECOND] * (len(fires) - 1)
        ended = [run for run in cluster.runs if not run.is_open]
        assert len(ended) >= 7
        assert {run.state for run in ended} == {RunState.SUCCEEDED}
        assert len(cluster.executor.runs_started) == len(set(cluster.executor.runs_started))


async def test_a_job_applied_just_before_its_next_instant_is_not_late_for_it() -> None:
    async with a_cluster("a") as cluster:
        await cluster.clock.advance(0.9)
        await cluster.service.jobs.apply([a_job(every="1s", overlap=Overlap.ALLOW)])
        for _ in range(30):
            await cluster.clock.advance(0.01)
        late = [run.lateness for run in cluster.runs if run.lateness is not None]
        assert len(late) == 2
        assert late[1] < SECOND / 20


@pytest.mark.parametrize("guard", list(StartGuard))
@pytest.mark.parametrize("delivery", list(Delivery))
async def test_an_attempt_that_was_put_off_uses_no_attempt_and_comes_back_when_its_target_may_be_asked(
    guard: StartGuard, delivery: Delivery
) -> None:
    async with a_cluster("a") as cluster:
        down_until = cluster.clock.now() + 100 * SECOND

        def attempt_result(_: object) -> AttemptResult:
            if cluster.clock.now() < down_until:
                return AttemptResult(Outcome.DEFERRED, error="its circuit breaker is open", delay=30 * SECOND)
            return AttemptResult(Outcome.OK)

        cluster.executor.attempt_result = attempt_result
        job = Job(name="hook", target=PythonTarget("a:b"), retry=Retry(max=0), start_guard=guard, delivery=delivery)
        await cluster.service.jobs.apply([job])
        await cluster.service.jobs.trigger("hook")
        await cluster.elapse(125)
        (run,) = cluster.runs
        assert (run.state, run.attempt) == (RunState.SUCCEEDED, 1)
        assert len(cluster.executor.starts) == 5


async def test_the_log_lines_of_an_attempt_identify_it() -> None:
    async with a_cluster("a") as cluster:
        about: list[dict[str, Any]] = []

        def attempt_result(_: object) -> AttemptResult:
            about.append(dict(get_contextvars()))
            return AttemptResult(Outcome.OK)

        cluster.executor.attempt_result = attempt_result
        for name in ("one", "two"):
            await cluster.service.jobs.apply([Job(name=name, target=PythonTarget("a:b"))])
            await cluster.service.jobs.trigger(name)
        await cluster.elapse(3)
        assert sorted(about, key=lambda one: str(one["run"])) == [
            {"run": run.id, "job": run.job, "attempt": 1} for run in sorted(cluster.runs, key=lambda run: run.id)
        ]
        assert get_contextvars() == {}
