"""Recovery after an outage on virtual time: order, rate, approval and skips, through dead leaders."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from cronflow.domain.backfill import BackfillRate
from cronflow.domain.catch_up import HELD, CatchUpState
from cronflow.domain.errors import Conflict, InvalidInput, NotFound
from cronflow.domain.job import Job, Misfire, MisfirePolicy, Overlap, PythonTarget
from cronflow.domain.run import AttemptResult, RunState, scheduled_instant
from cronflow.domain.schedule.kinds import Every
from cronflow.leader.catch_up import CatchUpOptions
from cronflow.ports import Assignment, LineSink
from tests.node.cluster import Cluster, Recording, a_cluster

SECOND = timedelta(seconds=1)
RATE = CatchUpOptions(rate=BackfillRate(10, "s"))
ASKS = CatchUpOptions(limit=5)


class Slow(Recording):
    """Each run takes half a second."""

    async def run(self, assignment: Assignment, node: str, log: LineSink) -> AttemptResult:
        found = await super().run(assignment, node, log)
        await self.clock.sleep(0.5)
        return found


def a_job(name: str, every: str = "1h", **fields: object) -> Job:
    given = {"schedule": Every(every), "overlap": Overlap.ALLOW, **fields}
    return Job(name=name, target=PythonTarget("jobs:tick"), **given)  # type: ignore[arg-type]


def hourly(count: int, **fields: Any) -> list[Job]:
    """They fall due together."""
    return [a_job(f"hourly-{n:03}", **fields) for n in range(count)]


async def outage(cluster: Cluster, jobs: Sequence[Job], seconds: float = 300) -> None:
    """Apply the jobs, and end all nodes before their instants; nothing runs until so long after the last."""
    await cluster.service.jobs.apply(jobs)
    records = await cluster.backends.jobs.get([job.name for job in jobs])
    due = max(record.next_fire for record in records if record.next_fire)
    for node in list(cluster.nodes):
        await cluster.kill(node)
    await cluster.clock.advance((due - cluster.clock.now()).total_seconds() + seconds)


async def back(cluster: Cluster, *names: str, slots: int = 16) -> None:
    for name in names:
        cluster.start(name, slots=slots)
    while not cluster.leaders:
        await cluster.elapse(0.25)


def per_second(cluster: Cluster) -> Counter[datetime]:
    return Counter(at.replace(microsecond=0) for *_, at in cluster.executor.starts)


def started(cluster: Cluster) -> list[str]:
    return [run.partition("@")[0] for run in cluster.executor.runs_started]


def each_once(cluster: Cluster, jobs: Sequence[Job]) -> None:
    assert Counter(started(cluster)) == Counter(job.name for job in jobs)


async def state(cluster: Cluster) -> CatchUpState | None:
    found = await cluster.service.catch_up.show()
    return None if found is None else found.plan.state


async def kinds(cluster: Cluster) -> list[str]:
    found = [one.event.kind for one in await cluster.backends.events.find()]
    return [kind for kind in reversed(found) if kind.startswith("recovery_")]


async def test_missed_runs_start_at_the_rate_by_priority_and_age() -> None:
    async with a_cluster("a", catch_up=RATE) as cluster:
        late = [a_job(f"first-{n}", priority=9) for n in range(5)]
        older = [a_job(f"older-{n}", every="30m") for n in range(5)]
        jobs = [*hourly(20), *late, *older]
        await outage(cluster, jobs, 2400)
        await back(cluster, "b", slots=100)
        await cluster.elapse(10)
        each_once(cluster, jobs)
        seconds = [count for _, count in sorted(per_second(cluster).items())]
        assert seconds == [10, 10, 10]
        order = [name.partition("-")[0] for name in started(cluster)]
        assert order == ["first"] * 5 + ["older"] * 5 + ["hourly"] * 20
        assert await state(cluster) is CatchUpState.ENDED
        assert await kinds(cluster) == ["recovery_ended"]


async def test_without_a_rate_and_below_the_limit_missed_runs_start_as_before() -> None:
    async with a_cluster("a", catch_up=CatchUpOptions(limit=50)) as cluster:
        jobs = hourly(30)
        await outage(cluster, jobs)
        await back(cluster, "b", slots=100)
        await cluster.elapse(3)
        each_once(cluster, jobs)
        assert await cluster.service.catch_up.show() is None


async def test_fires_on_time_start_at_once_while_missed_ones_wait_and_drain() -> None:
    async with a_cluster("a", catch_up=ASKS) as cluster:
        missed, frequent = hourly(300, priority=9), a_job("frequent", "10s", priority=0)
        await outage(cluster, [*missed, frequent])
        await back(cluster, "b", slots=4)
        cluster.executor.release = asyncio.Event()
        cluster.executor.release.set()

        def latest_delay() -> timedelta:
            run, _, _, at = [one for one in cluster.executor.starts if one[0].startswith("frequent@")][-1]
            fire = scheduled_instant(run)
            assert fire is not None
            covers = next(one.covers for one in cluster.runs if one.id == run)
            return at - (fire if covers is None else covers.last)

        # The first one covers what it missed, so it is on time.
        await cluster.elapse(12)
        for _ in range(3):
            assert latest_delay() <= 2 * SECOND
            await cluster.elapse(10)
        assert set(started(cluster)) == {"frequent"}
        await cluster.service.catch_up.approve(by="ada")
        for _ in range(6):
            await cluster.elapse(10)
            assert latest_delay() <= 2 * SECOND
        assert Counter(name for name in started(cluster) if name != "frequent") == Counter(job.name for job in missed)


async def test_missed_runs_leave_a_quarter_of_the_slots_free() -> None:
    async with a_cluster("a", catch_up=RATE) as cluster:
        await outage(cluster, hourly(40))
        cluster.executor.release = asyncio.Event()
        await back(cluster, "b", slots=16)
        await cluster.elapse(20)
        assert len(cluster.executor.starts) == 12
        # What falls due now finds a slot.
        await cluster.service.jobs.apply([a_job("now", "5s")])
        await cluster.elapse(6)
        assert started(cluster).count("now") >= 1
        cluster.executor.release.set()


async def test_missed_runs_get_a_slot_in_turn_while_fires_on_time_take_all() -> None:
    async with a_cluster("a", catch_up=RATE) as cluster:
        cluster.executor = Slow(cluster.clock)
        missed = hourly(2, priority=0)
        await outage(cluster, missed)
        busy = [a_job(f"busy-{n}", "1s", priority=9) for n in range(8)]
        await cluster.service.jobs.apply(busy)
        await back(cluster, "b", slots=1)
        await cluster.elapse(30)
        names = Counter(started(cluster))
        assert [names[job.name] for job in missed] == [1, 1]
        assert sum(names.values()) > 40


async def test_a_missed_run_that_no_node_can_take_does_not_keep_the_recovery_open() -> None:
    async with a_cluster("a", catch_up=RATE) as cluster:
        await outage(cluster, [*hourly(3), a_job("special", require={"gpu": "yes"})])
        await back(cluster, "b")
        await cluster.elapse(20)
        assert len(cluster.executor.starts) == 3
        assert await state(cluster) is CatchUpState.ENDED
        [record] = await cluster.backends.jobs.get(["special"])
        assert record.waiting is not None
        assert record.waiting.reason == "no node can run this job"
        # It had its turn, so its attempts are no more of the plan.
        writes = cluster.backends.faults.calls["catch_up.write"]
        await cluster.elapse(20)
        assert cluster.backends.faults.calls["catch_up.write"] == writes
        cluster.start("c", gpu="yes")
        await cluster.elapse(10)
        assert started(cluster).count("special") == 1
        assert await kinds(cluster) == ["recovery_ended"]


async def test_more_than_the_limit_waits_for_a_person_through_dead_leaders() -> None:
    async with a_cluster("a", catch_up=ASKS) as cluster:
        jobs = [*hourly(8), *(a_job(f"skips-{n}", misfire=Misfire(MisfirePolicy.SKIP)) for n in range(20))]
        await outage(cluster, jobs)
        await back(cluster, "b", "c")
        await cluster.elapse(30)
        assert started(cluster) == []
        # Their policy skips them, so they neither count nor wait.
        assert {run.job.partition("-")[0] for run in cluster.runs} == {"skips"}
        found = await cluster.service.catch_up.show()
        assert found is not None
        assert (found.plan.state, found.plan.runs, found.plan.jobs) == (CatchUpState.WAITING, 8, 8)
        assert (found.held.runs, found.plan.cause) == (8, "the cluster had no leader")
        assert [one.job for one in found.plan.top] == [job.name for job in jobs[:8]]
        await cluster.kill(cluster.leaders[0])
        await cluster.elapse(700)
        assert (await state(cluster), started(cluster)) == (CatchUpState.WAITING, [])
        why = await cluster.service.explain.why("hourly-000")
        assert HELD in str(why)
        for _ in range(2):
            await cluster.service.catch_up.approve(by="ada")
        await cluster.elapse(5)
        each_once(cluster, jobs[:8])
        [entry] = [one for one in cluster.backends.documents.audit.values() if one.action == "cluster.recovery"]
        assert entry.by == "ada"
        assert await kinds(cluster) == ["recovery_waiting", "recovery_ended"]
        with pytest.raises(NotFound, match="no recovery"):
            await cluster.service.catch_up.approve()


async def test_a_leader_killed_in_the_middle_of_a_drain_is_followed_and_the_rate_holds() -> None:
    async with a_cluster("a", catch_up=RATE) as cluster:
        jobs = hourly(60)
        await outage(cluster, jobs)
        await back(cluster, "b", "c", "d", slots=100)
        while len(cluster.executor.starts) < 25:
            await cluster.elapse(0.25)
        await cluster.kill(cluster.leaders[0])
        await cluster.elapse(60)
        # What the dead node had started may start again; nothing else does.
        assert set(started(cluster)) == {job.name for job in jobs}
        assert {run.state for run in cluster.runs} == {RunState.SUCCEEDED}
        assert len(cluster.runs) == len(jobs)
        at = sorted(run.created_at for run in cluster.runs)
        assert all(later - first >= SECOND for first, later in zip(at, at[10:], strict=False))
        assert await state(cluster) is CatchUpState.ENDED


@pytest.mark.parametrize("verb", ["catch_up.write", "catch_up.hold", "catch_up.held", "jobs.move", "plans.write"])
async def test_a_leader_that_dies_at_any_call_loses_and_doubles_nothing(verb: str) -> None:
    async with a_cluster("a", catch_up=CatchUpOptions(rate=BackfillRate(10, "s"), limit=0)) as cluster:
        jobs, faults = hourly(12, priority=3), cluster.backends.faults
        await outage(cluster, jobs)
        for count in (1, 2):
            await back(cluster, f"b{count}", slots=100)
            leader = cluster.leaders[0]
            (faults.fail_before if count == 1 else faults.fail_after)(verb, 1000)
            await cluster.elapse(0.5)
            await cluster.kill(leader)
            faults.heal()
            await cluster.elapse(31)
        await back(cluster, "c", slots=100)
        await cluster.elapse(60)
        assert Counter(run.job for run in cluster.runs) == Counter(job.name for job in jobs)
        assert {run.state for run in cluster.runs} == {RunState.SUCCEEDED}


async def test_skipped_instants_are_covered_by_a_skipped_run_that_names_the_person() -> None:
    async with a_cluster("a", catch_up=ASKS) as cluster:
        policy = Misfire(MisfirePolicy.CATCH_UP)
        jobs = [*hourly(4, misfire=policy), a_job("frequent", "1m", misfire=policy)]
        await outage(cluster, jobs, 600)
        await back(cluster, "b")
        await cluster.elapse(5)
        before = await cluster.service.catch_up.skip(note="stale", by="ada")
        assert before.plan.state is CatchUpState.SKIPPING
        await cluster.elapse(90)
        skipped = [run for run in cluster.runs if run.state is RunState.SKIPPED]
        assert {run.job for run in skipped} == {job.name for job in jobs}
        assert {run.reason for run in skipped} == {"recovery skipped by ada: stale"}
        [wide] = [run for run in skipped if run.job == "frequent"]
        # Of what it had held back, too; and the next fire runs on time.
        assert wide.covers is not None
        following = [run for run in cluster.runs if run.job == "frequent" and run is not wide]
        assert min(run.fire_at for run in following) == wide.covers.last + timedelta(minutes=1)
        assert {run.state for run in following} == {RunState.SUCCEEDED}
        assert not any(name.startswith("hourly") for name in started(cluster))
        assert (await state(cluster), (await kinds(cluster))[1:]) == (
            CatchUpState.ENDED,
            ["recovery_ended"],
        )


async def test_some_jobs_are_approved_and_some_skipped_while_the_others_wait() -> None:
    async with a_cluster("a", catch_up=ASKS) as cluster:
        jobs = [a_job(f"{team}-{n}") for team in ("billing", "mail", "report") for n in range(3)]
        await outage(cluster, jobs)
        await back(cluster, "b")
        await cluster.elapse(5)
        await cluster.service.catch_up.approve(only="billing-*", by="ada")
        await cluster.service.catch_up.skip(only="mail-*", by="bob")
        with pytest.raises(InvalidInput, match="no waiting job matches 'nothing'"):
            await cluster.service.catch_up.approve(only="nothing")
        await cluster.elapse(30)
        assert sorted(started(cluster)) == [f"billing-{n}" for n in range(3)]
        found = {run.job: run.state for run in cluster.runs if run.state is RunState.SKIPPED}
        assert sorted(found) == [f"mail-{n}" for n in range(3)]
        # Fewer than the limit are left, but somebody has looked at them.
        assert await state(cluster) is CatchUpState.WAITING
        await cluster.service.catch_up.approve(rate=BackfillRate(1, "s"), by="ada")
        await cluster.elapse(10)
        assert len(started(cluster)) == 6
        starts = [at for run, _, _, at in cluster.executor.starts if run.startswith("report")]
        assert [later - first for first, later in pairwise(starts)] == [SECOND, SECOND]


async def test_catching_up_keeps_the_order_and_the_rate_of_each_instant() -> None:
    async with a_cluster("a", catch_up=CatchUpOptions(rate=BackfillRate(2, "s"))) as cluster:
        job = a_job("each", "1m", misfire=Misfire(MisfirePolicy.CATCH_UP), overlap=Overlap.FORBID)
        await outage(cluster, [job], 600)
        await back(cluster, "b")
        await cluster.elapse(20)
        fires = [run.fire_at for run in cluster.runs]
        assert fires == [fires[0] + n * timedelta(minutes=1) for n in range(len(fires))]
        assert {run.state for run in cluster.runs} == {RunState.SUCCEEDED}
        late = [at for *_, at in cluster.executor.starts][:9]
        assert all(later - first >= SECOND / 2 for first, later in pairwise(late))


async def test_the_plan_is_withdrawn_when_fewer_are_left_than_the_limit() -> None:
    async with a_cluster("a", catch_up=ASKS) as cluster:
        jobs = hourly(8)
        await outage(cluster, jobs)
        await back(cluster, "b")
        await cluster.elapse(5)
        for job in jobs[:3]:
            pausing = asyncio.ensure_future(cluster.service.jobs.pause(job.name))
            await cluster.elapse(1)
            await pausing
        await cluster.elapse(10)
        assert sorted(started(cluster)) == [job.name for job in jobs[3:]]
        assert await kinds(cluster) == ["recovery_waiting", "recovery_withdrawn", "recovery_ended"]


async def test_a_further_outage_asks_again_although_the_first_was_approved() -> None:
    async with a_cluster("a", catch_up=CatchUpOptions(rate=BackfillRate(1, "m"), limit=5)) as cluster:
        first, second = hourly(7), [a_job(f"late-{n}", "2h") for n in range(7)]
        await outage(cluster, first)
        await back(cluster, "b")
        await cluster.elapse(2)
        await cluster.service.catch_up.approve(by="ada")
        await cluster.elapse(5)
        assert len(cluster.executor.starts) == 1
        await outage(cluster, second, 3600)
        await back(cluster, "c")
        await cluster.elapse(5)
        assert await state(cluster) is CatchUpState.WAITING
        assert (await kinds(cluster)).count("recovery_waiting") == 2


async def test_a_maintenance_is_an_outage() -> None:
    async with a_cluster("a", catch_up=ASKS) as cluster:
        jobs = [a_job(f"each-{n}", "1m", misfire=Misfire(MisfirePolicy.CATCH_UP)) for n in range(8)]
        await cluster.service.jobs.apply(jobs)
        await cluster.service.cluster.begin_maintenance(by="ada")
        await cluster.elapse(130)
        await cluster.service.cluster.end_maintenance(by="ada")
        await cluster.elapse(5)
        found = await cluster.service.catch_up.show()
        assert found is not None
        assert (found.plan.state, found.plan.cause, started(cluster)) == (CatchUpState.WAITING, "maintenance", [])


async def test_deciding_while_it_counts_or_skips_is_refused() -> None:
    async with a_cluster("a", catch_up=ASKS) as cluster:
        await outage(cluster, hourly(8))
        cluster.backends.faults.fail_before("catch_up.summary", 1000)
        await back(cluster, "b")
        await cluster.elapse(2)
        cluster.backends.faults.heal()
        with pytest.raises(Conflict, match="still counting"):
            await cluster.service.catch_up.approve()
