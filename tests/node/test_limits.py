"""Limits on virtual time: no more runs execute than a limit allows, whatever dies, and what waits starts at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from cronflow.domain.concurrency import KeyedConcurrency, KeyedRate, OnFull, Rate, named_id
from cronflow.domain.errors import InvalidInput
from cronflow.domain.job import Job, Overlap, PythonTarget, Retry, StartGuard
from cronflow.domain.permits import NamedLimit, Permit
from cronflow.domain.run import AttemptResult, Outcome, Run, RunState
from cronflow.domain.schedule.kinds import Every
from cronflow.ports import Assignment, LineSink
from tests.node.cluster import Cluster, Recording, a_cluster

DATABASE = named_id("database")


def a_job(name: str = "load", every: str | None = None, **fields: object) -> Job:
    """A job whose runs may overlap, and share the limit `database`."""
    own: dict[str, object] = {"overlap": Overlap.ALLOW, "concurrency": ("database",), "retry": Retry(max=0)}
    schedule = None if every is None else Every(every)
    args = fields.pop("args", {})
    return Job(name=name, target=PythonTarget("jobs:load", args), schedule=schedule, **{**own, **fields})  # type: ignore[arg-type]


@dataclass
class Counting(Recording):
    """Counts the handlers that run at once, by the first part of their job's name; each takes a second."""

    now_running: Counter[str] = field(default_factory=Counter)
    most: Counter[str] = field(default_factory=Counter)

    async def run(self, assignment: Assignment, node: str, log: LineSink) -> AttemptResult:
        """As configured, and for a second."""
        key = str(assignment.args.get("region", "all"))
        self.now_running[key] += 1
        self.most[key] = max(self.most[key], self.now_running[key])
        try:
            result = await super().run(assignment, node, log)
            await self.clock.sleep(1.0)
            return result
        finally:
            self.now_running[key] -= 1


def counting(cluster: Cluster, *, held: bool = False) -> Counting:
    executor = Counting(cluster.clock, release=asyncio.Event() if held else None)
    cluster.executor = executor
    return executor


async def limited(cluster: Cluster, limit: int = 2, **fields: object) -> None:
    """Define the limit `database`, and a job that names it."""
    await cluster.service.limits.define(NamedLimit(name="database", limit=limit))
    await cluster.service.jobs.apply([a_job(**fields)])  # type: ignore[arg-type]


async def trigger(cluster: Cluster, count: int, job: str = "load", **args: object) -> list[str]:
    return [await cluster.service.jobs.trigger(job, args or None) for _ in range(count)]


def state_of(cluster: Cluster, run: str) -> Run:
    return cluster.backends.documents.runs[run]


def permits(cluster: Cluster, limit: str = DATABASE) -> list[str]:
    return [one.run for one in cluster.backends.documents.limits[limit].permits]


def succeeded(cluster: Cluster) -> int:
    return sum(run.state is RunState.SUCCEEDED for run in cluster.runs)


# ---------------------------------------------------------------------------------------------------------------- holds


async def test_no_more_runs_execute_than_a_limit_allows_on_any_number_of_nodes_and_all_run() -> None:
    async with a_cluster() as cluster:
        executor = counting(cluster)
        cluster.start("a")
        cluster.start("b")
        await cluster.elapse(1)
        await limited(cluster)
        await trigger(cluster, 12)
        await cluster.elapse(10)
        assert succeeded(cluster) == 12
        assert executor.most == {"all": 2}
        assert permits(cluster) == []
        # The start of each was recorded before its handler ran.
        assert {run.start_id is None for run in cluster.runs} == {False}


async def test_keys_are_counted_apart_and_share_one_limit_across_jobs() -> None:
    async with a_cluster() as cluster:
        executor = counting(cluster)
        cluster.start("a")
        await cluster.elapse(1)
        keyed = (KeyedConcurrency("{args.region}", 1),)
        await cluster.service.jobs.apply([a_job("one", concurrency=keyed), a_job("two", concurrency=keyed)])
        for region in ("eu", "us"):
            await trigger(cluster, 2, "one", region=region)
            await trigger(cluster, 2, "two", region=region)
        await cluster.elapse(8)
        assert succeeded(cluster) == 8
        assert executor.most == {"eu": 1, "us": 1}
        # The keys were in use at the same time.
        starts = [at for *_, at in executor.starts[:2]]
        assert starts[1] - starts[0] < timedelta(seconds=1)


async def test_a_job_with_limits_records_its_start_first() -> None:
    job = a_job(start_guard=StartGuard.REDIS)
    assert job.start_guard is StartGuard.MONGO


async def test_a_run_that_lacks_a_part_of_its_key_fails_for_good_and_says_why() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job(concurrency=(KeyedConcurrency("{args.region}"),), retry=Retry(max=3))])
        (run,) = await trigger(cluster, 1)
        await cluster.elapse(2)
        found = state_of(cluster, run)
        assert (found.state, found.outcome) == (RunState.FAILED, Outcome.PERMANENT)
        assert "needs the argument 'region'" in (found.error or "")
        assert cluster.executor.starts == []


async def test_a_key_that_no_run_of_a_schedule_can_resolve_is_refused_when_the_job_is_applied() -> None:
    async with a_cluster() as cluster:
        with pytest.raises(InvalidInput, match=r"concurrency\[0\]\.key: the key '\{args.region\}' needs the argument"):
            await cluster.service.jobs.apply([a_job(every="10s", concurrency=(KeyedConcurrency("{args.region}"),))])
        with pytest.raises(InvalidInput, match=r"rate\.key: the key '\{labels.team\}' needs the label"):
            await cluster.service.jobs.apply(
                [a_job(concurrency=(), rate=KeyedRate(Rate(1, timedelta(seconds=1)), "{labels.team}"))]
            )


# ---------------------------------------------------------------------------------------------------------------- waits


async def test_a_run_that_waits_shows_its_limit_and_who_holds_it_and_starts_when_that_ends() -> None:
    async with a_cluster() as cluster:
        executor = counting(cluster, held=True)
        cluster.start("a")
        await cluster.elapse(1)
        await limited(cluster, limit=1)
        (first,) = await trigger(cluster, 1)
        await cluster.elapse(1)
        (second,) = await trigger(cluster, 1)
        await cluster.elapse(1)
        waiting = state_of(cluster, second).waiting
        assert waiting is not None
        assert (waiting.reason, waiting.blocked_by) == ("limit database is full", first)
        usage = await cluster.service.limits.get("database")
        assert [one.run for one in usage.state.permits] == [first]
        assert [waiter.run for waiter in usage.waiting] == [second]
        chain = await cluster.service.explain.why_run(second)
        assert "limit database is full" in str(chain.links[-1])
        assert executor.release is not None
        executor.release.set()
        await cluster.elapse(1.25)
        assert state_of(cluster, first).state is RunState.SUCCEEDED
        assert executor.runs_started == [first, second]
        # No attempt was used while it waited.
        await cluster.elapse(2)
        assert state_of(cluster, second).attempt == 1


async def test_fires_that_wait_for_a_limit_are_visible_start_in_turn_and_starve_no_other_job() -> None:
    async with a_cluster() as cluster:
        executor = counting(cluster, held=True)
        cluster.start("a")
        await cluster.elapse(1)
        await cluster.service.limits.define(NamedLimit(name="database", limit=1))
        jobs = [a_job(f"load-{k}", every="10s", priority=k) for k in range(4)]
        await cluster.service.jobs.apply([*jobs, a_job("free", every="10s", concurrency=())])
        await cluster.elapse(12)
        assert Counter(run.partition("@")[0] for run in executor.runs_started) == {"load-3": 1, "free": 1}
        record = cluster.backends.documents.jobs["load-0"]
        assert record.waiting is not None
        assert record.waiting.reason == "limit database is full"
        assert len((await cluster.service.limits.get("database")).waiting) == 3
        assert executor.release is not None
        executor.release.set()
        await cluster.elapse(6)
        started = [run.partition("@")[0] for run in executor.runs_started if not run.startswith("free")]
        assert started[:4] == ["load-3", "load-2", "load-1", "load-0"]
        assert executor.most["all"] == 2  # one of them is free


async def test_a_fire_is_skipped_or_replaces_the_run_that_holds_the_key_as_its_job_wants() -> None:
    async with a_cluster() as cluster:
        executor = counting(cluster, held=True)
        cluster.start("a")
        await cluster.elapse(1)
        for name, on_full in (("skips", OnFull.SKIP), ("replaces", OnFull.REPLACE)):
            limit = KeyedConcurrency(name, 1, on_full)
            await cluster.service.jobs.apply([a_job(name, every="10s", concurrency=(limit,))])
        await cluster.elapse(28)
        skips = [run for run in cluster.runs if run.job == "skips"]
        assert [run.state for run in skips] == [RunState.RUNNING, *[RunState.SKIPPED] * (len(skips) - 1)]
        assert {(run.reason, run.blocked_by) for run in skips[1:]} == {("limit", skips[0].id)}
        replaces = [run for run in cluster.runs if run.job == "replaces"]
        assert [run.state for run in replaces] == [*[RunState.CANCELLED] * (len(replaces) - 1), RunState.RUNNING]
        assert min(len(skips), len(replaces)) >= 2
        assert executor.most["all"] <= 2


async def test_a_manual_run_with_a_full_key_is_skipped_or_replaces_as_its_job_wants() -> None:
    async with a_cluster() as cluster:
        counting(cluster, held=True)
        cluster.start("a")
        await cluster.elapse(1)
        for name, on_full in (("skips", OnFull.SKIP), ("replaces", OnFull.REPLACE)):
            await cluster.service.jobs.apply([a_job(name, concurrency=(KeyedConcurrency(name, 1, on_full),))])
            (first,) = await trigger(cluster, 1, name)
            await cluster.elapse(2)
            (second,) = await trigger(cluster, 1, name)
            await cluster.elapse(3)
            found = state_of(cluster, first).state, state_of(cluster, second).state
            if on_full is OnFull.SKIP:
                assert found == (RunState.RUNNING, RunState.SKIPPED)
                assert state_of(cluster, second).reason == "limit"
            else:
                assert found == (RunState.CANCELLED, RunState.RUNNING)


async def test_a_rate_spaces_the_starts_of_a_job_evenly() -> None:
    async with a_cluster() as cluster:
        executor = Recording(cluster.clock)
        cluster.executor = executor
        cluster.start("a")
        cluster.start("b")
        await cluster.elapse(1)
        await cluster.service.jobs.apply([a_job(concurrency=(), rate=KeyedRate(Rate(30, timedelta(minutes=1))))])
        await trigger(cluster, 6)
        await cluster.elapse(16)
        starts = [at for *_, at in executor.starts]
        assert len(starts) == 6
        gaps = [later - earlier for earlier, later in pairwise(starts)]
        assert min(gaps) >= timedelta(seconds=2)
        assert max(gaps) <= timedelta(seconds=3)


# --------------------------------------------------------------------------------------------------------------- faults


async def test_the_permit_of_a_killed_node_is_recovered_and_its_run_starts_again_within_the_limit() -> None:
    async with a_cluster() as cluster:
        executor = counting(cluster, held=True)
        nodes = [cluster.start(name) for name in ("a", "b", "c")]
        await cluster.elapse(1)
        await limited(cluster, limit=1, retry=Retry(max=3))
        (first,) = await trigger(cluster, 1)
        await cluster.elapse(1)
        holder = next(node for node in nodes if node.id == state_of(cluster, first).node)
        (second,) = await trigger(cluster, 1)
        await cluster.kill(holder)
        executor.now_running["all"] -= executor.now_running["all"]
        await cluster.elapse(30)
        # Its lease is not over yet.
        assert permits(cluster) == [first]
        await cluster.elapse(60)
        assert executor.release is not None
        executor.release.set()
        await cluster.elapse(10)
        assert {state_of(cluster, run).state for run in (first, second)} == {RunState.SUCCEEDED}
        assert permits(cluster) == []
        assert executor.most["all"] == 1


async def test_a_node_that_dies_between_permit_and_start_leaves_a_permit_that_blocks_nobody_for_long() -> None:
    async with a_cluster() as cluster:
        executor = counting(cluster)
        cluster.start("leads")
        await cluster.elapse(1)
        dies = cluster.start("dies", on="here")
        await cluster.elapse(6)
        await limited(cluster, limit=1, require={"on": "here"})
        await cluster.service.jobs.apply([a_job("other")])
        stall = cluster.backends.faults.stall("limits.acquire", acted=True)
        (first,) = await trigger(cluster, 1)
        await cluster.elapse(1)
        assert stall.reached.is_set()
        assert (permits(cluster), executor.starts) == ([first], [])
        await cluster.kill(dies)
        cluster.backends.faults.heal()
        await cluster.service.runs.cancel(first)
        (second,) = await trigger(cluster, 1, "other")
        await cluster.elapse(8)
        assert state_of(cluster, second).state is RunState.SUCCEEDED
        assert executor.runs_started == [second]
        assert permits(cluster) == []


async def test_a_worker_that_cannot_renew_its_lease_stops_before_another_may_start() -> None:
    async with a_cluster() as cluster:
        executor = counting(cluster, held=True)
        cluster.start("a")
        await cluster.elapse(1)
        await limited(cluster, limit=1)
        await cluster.service.jobs.apply([a_job("free", concurrency=())])
        (first,) = await trigger(cluster, 1)
        (free,) = await trigger(cluster, 1, "free")
        await cluster.elapse(2)
        assert set(executor.runs_started) == {first, free}
        cluster.backends.faults.fail_before("runs.apply", times=10**6)
        await cluster.elapse(30)
        assert executor.cancelled == []
        await cluster.elapse(12)
        # A lease lasts 45 s. Only the run with a limit is stopped.
        assert executor.cancelled == [first]


async def test_what_a_worker_holds_while_mongodb_is_away_is_released_after_its_outcome_is_recorded(
    tmp_path: Path,
) -> None:
    async with a_cluster(spools=tmp_path) as cluster:
        executor = counting(cluster, held=True)
        cluster.start("a")
        await cluster.elapse(1)
        await limited(cluster, limit=1)
        (first,) = await trigger(cluster, 1)
        await cluster.elapse(2)
        cluster.backends.faults.fail_before("runs.apply", times=10**6)
        assert executor.release is not None
        executor.release.set()
        await cluster.elapse(5)
        # The outcome is on the disk; for everybody else the run is still running.
        assert (state_of(cluster, first).state, permits(cluster)) == (RunState.RUNNING, [first])
        cluster.backends.faults.heal()
        await cluster.elapse(8)
        assert (state_of(cluster, first).state, permits(cluster)) == (RunState.SUCCEEDED, [])


async def test_a_run_that_its_worker_could_not_get_a_permit_for_is_given_back_with_the_reason() -> None:
    """The leader is new and does not know what its predecessor dispatched, or two leaders act at once."""
    async with a_cluster() as cluster:
        executor = counting(cluster)
        cluster.start("a")
        await cluster.elapse(1)
        await limited(cluster, limit=1)
        documents = cluster.backends.documents
        await cluster.service.jobs.apply([a_job("holds", concurrency=())])
        executor.release = asyncio.Event()
        (holder,) = await trigger(cluster, 1, "holds")
        await cluster.elapse(1)
        stall = cluster.backends.faults.stall("queue.take")
        (first,) = await trigger(cluster, 1)
        await cluster.elapse(1)
        fence = state_of(cluster, holder).fence
        held = Permit(holder, fence, "a#1", cluster.clock.now())
        documents.limits[DATABASE] = replace(documents.limits[DATABASE], permits=(held,))
        stall.release()
        cluster.backends.faults.heal()
        await cluster.elapse(2)
        found = state_of(cluster, first)
        assert found.state is RunState.RETRYING
        assert found.waiting is not None
        assert (found.waiting.reason, found.waiting.blocked_by) == ("limit database is full", holder)
        assert (found.attempt, found.attempts) == (0, ())
        executor.release.set()
        await cluster.elapse(6)
        assert state_of(cluster, first).state is RunState.SUCCEEDED


async def test_a_run_that_is_cancelled_while_the_leader_dispatches_it_blocks_its_limit_only_for_a_moment() -> None:
    """Its dispatch does not apply, so it never gets the fence under which the leader has counted it."""
    async with a_cluster() as cluster:
        counting(cluster)
        cluster.start("a")
        await cluster.elapse(1)
        await limited(cluster, limit=1)
        stall = cluster.backends.faults.stall("runs.apply")
        (cancelled,) = await trigger(cluster, 1)
        await cluster.elapse(1)
        assert stall.reached.is_set()
        run = state_of(cluster, cancelled)
        cluster.backends.documents.runs[cancelled] = replace(
            run, state=RunState.CANCELLED, check_at=None, ended_at=cluster.clock.now()
        )
        cluster.backends.faults.heal()
        (other,) = await trigger(cluster, 1)
        await cluster.elapse(5)
        assert state_of(cluster, other).state is RunState.SUCCEEDED
        assert state_of(cluster, cancelled).state is RunState.CANCELLED


async def test_a_run_whose_item_was_lost_does_not_wait_for_the_fires_that_wait_for_it() -> None:
    """The leader counts it as dispatched, so they wait for it. They have waited for longer than it is overdue."""
    async with a_cluster() as cluster:
        counting(cluster)
        cluster.start("a")
        await cluster.elapse(1)
        await limited(cluster, limit=1)
        stall = cluster.backends.faults.stall("queue.take")
        await cluster.elapse(2)
        (lost,) = await trigger(cluster, 1)
        await cluster.elapse(1)
        assert stall.reached.is_set()
        assert state_of(cluster, lost).state is RunState.DISPATCHED
        await cluster.service.jobs.apply([a_job("fires", "3s")])
        cluster.backends.memory.flush()
        cluster.backends.faults.heal()
        await cluster.elapse(25)
        assert state_of(cluster, lost).state is RunState.SUCCEEDED
        assert any(run.job == "fires" and run.state is RunState.SUCCEEDED for run in cluster.runs)


async def test_a_duplicated_item_never_takes_the_permit_of_the_attempt_that_runs() -> None:
    """Redis delivers an item twice, and has lost the job lock: both holders have one fence, and so one permit."""
    async with a_cluster() as cluster:
        executor = counting(cluster, held=True)
        nodes = {cluster.start(name).id for name in ("a", "b")}
        await cluster.elapse(1)
        await limited(cluster, limit=1)
        (first,) = await trigger(cluster, 1)
        await cluster.elapse(2)
        run, memory = state_of(cluster, first), cluster.backends.memory
        (other,) = nodes - {run.node}
        duplicate = Assignment(
            run=first, fence=run.fence, term=run.term, attempt=run.attempt, fire_at=run.fire_at, job=a_job()
        )
        memory.locks.clear()
        memory.lists[other].append((cluster.clock.monotonic() + 5.0, duplicate))
        memory.notify(f"node:{other}")
        await trigger(cluster, 1)
        await cluster.elapse(5)
        assert memory.lists[other] == []
        assert permits(cluster) == [first]
        assert executor.runs_started == [first]


async def test_two_limits_are_acquired_in_one_order_and_a_run_that_lacks_one_holds_none() -> None:
    async with a_cluster() as cluster:
        executor = counting(cluster, held=True)
        cluster.start("a")
        cluster.start("b")
        await cluster.elapse(1)
        for name in ("x", "y"):
            await cluster.service.limits.define(NamedLimit(name=name, limit=1))
        jobs = {"xy": ("x", "y"), "yx": ("y", "x"), "only-y": ("y",)}
        await cluster.service.jobs.apply([a_job(name, concurrency=limits) for name, limits in jobs.items()])
        (first,) = await trigger(cluster, 1, "only-y")
        await cluster.elapse(2)
        await trigger(cluster, 1, "xy")
        await trigger(cluster, 1, "yx")
        await cluster.elapse(3)
        assert (permits(cluster, named_id("y")), executor.runs_started) == ([first], [first])
        assert cluster.backends.documents.limits[named_id("x")].permits == ()
        assert executor.release is not None
        executor.release.set()
        await cluster.elapse(12)
        assert succeeded(cluster) == 3
        assert executor.most["all"] == 1


async def test_a_run_without_limits_asks_nothing_about_them() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job("free", every="1s", concurrency=())])
        await trigger(cluster, 3, "free")
        await cluster.elapse(5)
        assert succeeded(cluster) > 5
        calls = cluster.backends.faults.calls
        assert {verb for verb in calls if verb.startswith("limits.")} == {"limits.held"}
        assert calls["runs.standings"] == 0
