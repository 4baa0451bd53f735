"""Placement rules on whole nodes and virtual time: reservations hold, whichever leader dies at whichever step."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from cronflow.domain.events import RunsUnplaced
from cronflow.domain.job import Job, Overlap, PythonTarget, Retry
from cronflow.domain.placement import NO_ROOM
from cronflow.domain.resources import ResourceAmount
from cronflow.domain.run import AttemptResult, Kind, Outcome, RunState, job_of
from cronflow.domain.schedule.kinds import Every, Once
from cronflow.domain.why import Placed, TriesAgain, Unplanned
from cronflow.ports import Assignment
from tests.contracts.builders import a_run
from tests.node.cluster import Cluster, a_cluster

SECOND = timedelta(seconds=1)
MIB = 1 << 20
NODE = ResourceAmount(cpu=4, memory=1024 * MIB)
QUARTER = ResourceAmount(memory=256 * MIB)


def a_job(name: str = "large", **fields: Any) -> Job:
    """A job that runs on request, in any number."""
    return Job(name=name, target=PythonTarget("jobs:any"), **({"overlap": Overlap.ALLOW} | fields))


@asynccontextmanager
async def sized(*names: str, slots: int = 16) -> AsyncIterator[Cluster]:
    """A cluster whose nodes announce a capacity of 4 CPUs and 1 GiB."""
    async with a_cluster() as cluster:
        for name in names:
            cluster.start(name, slots=slots, capacity=NODE)
        await cluster.elapse(1.0)
        yield cluster


class Watched:
    """Counts the memory of the runs that each node executes; `most` is the highest sum."""

    def __init__(self, cluster: Cluster, seconds: float) -> None:
        self.cluster, self.seconds = cluster, seconds
        self.now: Counter[str] = Counter()
        self.most = 0
        self.first: dict[str, int] = {}

    async def run(self, assignment: Assignment, node: str, log: object) -> AttemptResult:
        memory = assignment.job.resources.memory
        self.now[node] += memory
        self.most = max(self.most, self.now[node])
        try:
            await self.cluster.clock.sleep(self.seconds)
        finally:
            self.now[node] -= memory
        fails = self.first.setdefault(assignment.run, assignment.attempt) == assignment.attempt
        return AttemptResult(Outcome.ERROR, error="once") if fails else AttemptResult(Outcome.OK)


@contextmanager
def watched(cluster: Cluster, seconds: float) -> Iterator[Watched]:
    found = Watched(cluster, seconds)
    cluster.executor.run = found.run  # type: ignore[method-assign]
    yield found


async def compete(cluster: Cluster, fires: int = 8) -> None:
    """Fires and manual runs that need more memory than the cluster has; each fails once and is retried."""
    now = cluster.clock.now()
    retry = Retry(max=3, initial="1s", multiplier=1.0)
    jobs = [
        a_job(f"fire-{k}", schedule=Once(now + 2 * SECOND), resources=QUARTER, retry=retry, timeout=60 * SECOND)
        for k in range(fires)
    ]
    await cluster.service.jobs.apply([*jobs, a_job("manual", resources=QUARTER, retry=retry, timeout=60 * SECOND)])
    for _ in range(12):
        await cluster.service.jobs.trigger("manual")


async def all_succeed(cluster: Cluster) -> None:
    for _ in range(30):
        if all(run.state is RunState.SUCCEEDED for run in cluster.runs) and len(cluster.runs) >= 20:
            return
        await cluster.elapse(10)
    raise AssertionError([(run.id, run.state, str(run.waiting)) for run in cluster.runs if run.is_open])


async def test_fires_retries_and_manual_runs_never_reserve_more_than_their_node_has() -> None:
    async with sized("a", "b") as cluster:
        with watched(cluster, 3.0) as found:
            await compete(cluster)
            await all_succeed(cluster)
        # It was used, too.
        assert found.most == NODE.memory


@pytest.mark.parametrize(
    ("verb", "acted"),
    [
        ("jobs.move", True),
        ("runs.insert", True),
        ("queue.dispatch", False),
        ("runs.apply", True),
        ("runs.reserving", True),
    ],
)
async def test_reservations_hold_when_the_leader_dies_at_any_step(verb: str, acted: bool) -> None:
    async with sized("a", "b", "c") as cluster:
        with watched(cluster, 4.0) as found:
            await compete(cluster)
            [leader] = cluster.leaders
            await cluster.elapse(1.5)
            stall = cluster.backends.faults.stall(verb, acted=acted)
            await cluster.elapse(4)
            assert stall.reached.is_set()
            await cluster.kill(leader)
            cluster.backends.faults.heal()
            # Its own runs ended with it.
            found.now[leader.id] = 0
            await all_succeed(cluster)
        assert found.most <= NODE.memory


async def test_reservations_hold_when_a_deposed_leader_resumes_and_no_run_waits_for_ever() -> None:
    """Both leaders store runs whose sum is more than there is, and push none of them in time."""
    async with sized("a", "b") as cluster:
        with watched(cluster, 4.0) as found:
            await compete(cluster, 16)
            await cluster.elapse(1.5)
            stall = cluster.backends.faults.stall("runs.insert")
            await cluster.elapse(5)
            assert stall.reached.is_set()
            await cluster.service.cluster.stepdown()
            await cluster.elapse(20)
            cluster.backends.faults.heal()
            await all_succeed(cluster)
        assert found.most <= NODE.memory


@pytest.mark.parametrize("kind", ["manual", "fire"])
async def test_a_large_run_is_not_overtaken_by_small_ones_for_ever_although_its_leader_dies(kind: str) -> None:
    """Small ones always reserve a part of each node."""
    async with sized("a", "b") as cluster:
        with watched(cluster, 5.0) as handlers:
            small = {"schedule": Every("1s"), "resources": QUARTER, "retry": Retry(max=0)}
            await cluster.service.jobs.apply([a_job("small-1", **small), a_job("small-2", **small)])
            await cluster.elapse(10)
            once = Once(cluster.clock.now() + SECOND) if kind == "fire" else None
            await cluster.service.jobs.apply([a_job("large", schedule=once, resources=NODE, retry=Retry(max=0))])
            if kind == "manual":
                await cluster.service.jobs.trigger("large")
            await cluster.elapse(30)
            if kind == "manual":
                # Not for a fire: until a leader is elected, small ones end, and the oldest fire is planned first.
                (leader,) = cluster.leaders
                await cluster.kill(leader)
            for _ in range(60):
                await cluster.elapse(1)
                large = [run.state for run in cluster.runs if run.job == "large" and not run.is_open]
                if large:
                    break
            assert large == [RunState.FAILED]
            # Its node is not kept any more.
            await cluster.elapse(3)
            assert all(handlers.now[node.id] > 0 for node in cluster.nodes)


async def test_nothing_is_kept_for_a_run_that_no_longer_waits() -> None:
    async with sized("a") as cluster:
        with watched(cluster, 100.0):
            fields = {"resources": QUARTER, "retry": Retry(max=0)}
            await cluster.service.jobs.apply([a_job("small", **fields), a_job("large", **fields | {"resources": NODE})])
            for _ in range(4):
                await cluster.service.jobs.trigger("small")
            await cluster.elapse(1)
            large = await cluster.service.jobs.trigger("large")
            await cluster.elapse(70)
            following = [await cluster.service.jobs.trigger("small") for _ in range(3)]
            await cluster.service.runs.cancel(large)
            await cluster.elapse(35)
            runs = cluster.backends.documents.runs
            assert [runs[run].state for run in following] == [RunState.RUNNING] * 3


async def test_runs_that_no_node_has_taken_keep_no_memory_from_each_other() -> None:
    whole = ResourceAmount(memory=1024 * MIB)
    async with sized("a") as cluster:
        await cluster.service.jobs.apply([a_job(resources=whole)])
        now, node = cluster.clock.now(), cluster.nodes[0].id
        # Two leaders have stored them, and both died before they pushed them. They are never checked together.
        forged: dict[str, Any] = {"kind": Kind.MANUAL, "node": node, "reserved": whole, "created_at": now, "fence": 1}
        for second in (1, 2):
            run = a_run("large", now - second * SECOND, **forged)
            cluster.backends.documents.runs[run.id] = replace(run, check_at=now + second * SECOND)
        await cluster.elapse(20)
        assert {run.state for run in cluster.runs} == {RunState.SUCCEEDED}


async def test_jobs_that_name_each_other_do_not_wait_for_runs_that_no_node_has_taken() -> None:
    async with sized("a") as cluster:
        jobs = [a_job("left", apart_from=("right",)), a_job("right", apart_from=("left",))]
        await cluster.service.jobs.apply(jobs)
        now, node = cluster.clock.now(), cluster.nodes[0].id
        for second, job in enumerate(jobs):
            run = a_run(job.name, now, kind=Kind.MANUAL, node=node, created_at=now, fence=1)
            cluster.backends.documents.runs[run.id] = replace(run, check_at=now + second * SECOND)
        await cluster.elapse(20)
        assert {run.state for run in cluster.runs} == {RunState.SUCCEEDED}


async def test_a_run_that_waits_for_memory_says_how_much_is_missing_and_starts_when_another_ends() -> None:
    async with sized("a") as cluster:
        release = cluster.executor.release = asyncio.Event()
        whole, start = ResourceAmount(memory=1024 * MIB), cluster.clock.now() + 3 * SECOND
        await cluster.service.jobs.apply(
            [a_job(resources=whole), a_job("small", schedule=Once(start), resources=QUARTER)]
        )
        await cluster.service.jobs.trigger("large")
        await cluster.elapse(2)
        second = await cluster.service.jobs.trigger("large")
        await cluster.elapse(20)
        lack = "memory: needs 256 MiB, 0 B of 1 GiB free"
        waits = (await cluster.service.explain.why("small")).links[-1]
        assert isinstance(waits, Unplanned)
        assert (waits.reason, [reason for _, reason in waits.nodes]) == (NO_ROOM, [lack])
        retried = (await cluster.service.explain.why_run(second)).links[-1]
        assert isinstance(retried, TriesAgain)
        assert retried.waiting is not None
        assert str(retried.waiting).startswith(NO_ROOM)
        # It is a matter of time, and so no event.
        events = [one.event for one in await cluster.backends.events.find(limit=1000)]
        assert not any(isinstance(event, RunsUnplaced) for event in events)
        release.set()
        await cluster.elapse(1)
        assert "small" in {job_of(run) for run in cluster.executor.runs_started}
        await cluster.elapse(5)
        assert {run.state for run in cluster.runs} == {RunState.SUCCEEDED}


async def test_a_run_that_no_node_can_ever_hold_is_reported_with_the_figures() -> None:
    async with sized("a") as cluster:
        job = a_job(resources=ResourceAmount(cpu=8))
        [warned] = await cluster.service.jobs.applied([job])
        lack = "cpu: needs 8, has 4"
        assert list(warned.warnings) == [f"no live node can run this job, so its runs will wait (a: {lack})"]
        run = await cluster.service.jobs.trigger("large")
        await cluster.elapse(15)
        events = [one.event for one in await cluster.backends.events.find(limit=1000)]
        [event] = [event for event in events if isinstance(event, RunsUnplaced)]
        assert event.run == run
        assert lack in event.text
        # A node that is large enough ends the wait.
        cluster.start("b", capacity=ResourceAmount(cpu=16))
        await cluster.elapse(10)
        assert (await cluster.service.runs.get(run)).state is RunState.SUCCEEDED


async def test_nodes_are_shown_with_what_is_reserved_on_them() -> None:
    async with sized("a", "b") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job(resources=ResourceAmount(1.5, 256 * MIB), spread=True)])
        for _ in range(3):
            await cluster.service.jobs.trigger("large")
        await cluster.elapse(3)
        found = (await cluster.service.cluster.status()).members
        reserved = [one.reserved for one in found if one.reserved is not None]
        assert sorted((one.cpu, one.memory) for one in reserved) == [(1.5, 256 * MIB), (3.0, 512 * MIB)]
        assert (await cluster.service.cluster.node("a"))[0].reserved in [one.reserved for one in found]
        cluster.executor.release.set()
        await cluster.elapse(3)
        assert {one.reserved for one in (await cluster.service.cluster.status()).members} == {ResourceAmount()}


async def test_the_runs_of_a_spread_job_change_their_node_each_time() -> None:
    async with sized("a", "b", "c") as cluster:
        await cluster.service.jobs.apply([a_job("spread", schedule=Every("5s"), spread=True)])
        await cluster.elapse(60)
        nodes = [node for _, _, node, _ in cluster.executor.starts]
        assert len(nodes) >= 10
        assert all(before != after for before, after in pairwise(nodes))


async def test_jobs_that_name_each_other_never_share_a_node() -> None:
    async with sized("a", "b") as cluster:
        cluster.executor.release = asyncio.Event()
        now = cluster.clock.now()
        left = a_job("left", schedule=Once(now + 2 * SECOND), apart_from=("right",))
        right = a_job("right", schedule=Once(now + 2 * SECOND), apart_from=("left",))
        await cluster.service.jobs.apply([left, right])
        await cluster.elapse(4)
        for name in ("left", "right"):
            await cluster.service.jobs.trigger(name)
        await cluster.elapse(4)
        placed: dict[str, set[str]] = {}
        for run, _, node, _ in cluster.executor.starts:
            placed.setdefault(node, set()).add(job_of(run))
        assert sorted(sorted(jobs) for jobs in placed.values()) == [["left"], ["right"]]
        link = next(one for one in (await cluster.service.explain.why("right")).links if isinstance(one, Placed))
        assert link.placement is not None
        assert [reason for _, reason in link.placement.others] == ["runs left (apart_from)"]


async def test_without_placement_rules_nothing_more_is_read() -> None:
    async with sized("a", "b") as cluster:
        await cluster.service.jobs.apply([a_job("plain", schedule=Every("1s"))])
        before = cluster.backends.faults.calls.copy()
        await cluster.elapse(20)
        calls = cluster.backends.faults.calls - before
        assert calls["runs.reserving"] == 0
        # One read of the open runs in a round of the planner.
        assert calls["runs.open_of"] <= calls["jobs.move"]
        # And a job with rules is inserted before its node gets it.
        await cluster.service.jobs.apply([a_job("reserving", schedule=Every("1s"), resources=QUARTER)])
        await cluster.elapse(5)
        assert cluster.backends.faults.calls["runs.reserving"] > 0


async def test_look_ahead_leaves_jobs_with_rules_until_their_instant() -> None:
    async with a_cluster(look_ahead=2.0) as cluster:
        cluster.start("a", capacity=NODE)
        await cluster.elapse(1)
        await cluster.service.jobs.apply(
            [a_job(name, schedule=Every("5s"), **rules) for name, rules in (("plain", {}), ("ruled", {"spread": True}))]
        )
        await cluster.elapse(21)
        early = {run.job: run.created_at < run.fire_at for run in cluster.runs if run.fire_at < cluster.clock.now()}
        assert early == {"plain": True, "ruled": False}
