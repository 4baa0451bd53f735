"""The maintenance mode on virtual time: nothing new starts, through every leader, and the misfire policy follows."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from cronflow.domain.errors import InvalidInput
from cronflow.domain.events import MaintenanceEnded, MaintenanceStarted
from cronflow.domain.job import Job, Misfire, MisfirePolicy, Overlap, PythonTarget, Retry
from cronflow.domain.run import RunState
from cronflow.domain.schedule.kinds import Every
from tests.node.cluster import Cluster, a_cluster

SECOND = timedelta(seconds=1)


def a_job(name: str = "tick", every: str | None = "10s", **fields: object) -> Job:
    schedule = None if every is None else Every(every)
    return Job(name=name, target=PythonTarget("jobs:tick"), **{"schedule": schedule, **fields})  # type: ignore[arg-type]


async def begin(cluster: Cluster, seconds: float | None = None) -> None:
    until = None if seconds is None else cluster.clock.now() + seconds * SECOND
    await cluster.service.cluster.begin_maintenance(note="upgrade", until=until, by="ada")
    await cluster.elapse(2)


async def test_nothing_new_starts_and_the_misfire_policy_follows() -> None:
    async with a_cluster("a", "b") as cluster:
        skip = Misfire(MisfirePolicy.SKIP, late_after=5 * SECOND)
        once = Misfire(MisfirePolicy.FIRE_ONCE, late_after=5 * SECOND)
        await cluster.service.jobs.apply([a_job("skips", misfire=skip), a_job("once", misfire=once)])
        await begin(cluster)
        before = len(cluster.executor.starts)
        await cluster.elapse(60)
        assert len(cluster.executor.starts) == before
        await cluster.service.cluster.end_maintenance(by="ada")
        await cluster.elapse(15)
        [skipped] = [run for run in cluster.runs if run.job == "skips" and run.state is RunState.SKIPPED]
        assert (skipped.reason, skipped.covers is not None) == ("misfire", True)
        made_good = [run for run in cluster.runs if run.job == "once" and run.covers is not None]
        assert [run.state for run in made_good] == [RunState.SUCCEEDED]


async def test_runs_that_wait_for_its_end_keep_their_place_and_record_the_reason_once() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job(every=None, overlap=Overlap.ALLOW)])
        await begin(cluster)
        ids = [await cluster.service.jobs.trigger("tick") for _ in range(3)]
        asked = {run.id: run.check_at for run in await cluster.backends.runs.get(ids)}
        await cluster.elapse(2)
        waiting = await cluster.backends.runs.get(ids)
        assert all(run.waiting is not None and "maintenance" in run.waiting.reason for run in waiting)
        await cluster.elapse(20)
        assert await cluster.backends.runs.get(ids) == waiting
        assert {run.id: run.check_at for run in waiting} == asked
        await cluster.service.cluster.end_maintenance(by="ada")
        await cluster.elapse(3)
        assert {run.state for run in await cluster.backends.runs.get(ids)} == {RunState.SUCCEEDED}


async def test_running_attempts_end_and_their_retries_wait() -> None:
    async with a_cluster("a") as cluster:
        from cronflow.domain.run import AttemptResult, Outcome

        cluster.executor.attempt_result = lambda one: AttemptResult(
            Outcome.ERROR if one.attempt == 1 else Outcome.OK, error="no" if one.attempt == 1 else None
        )
        held = cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job(every=None, retry=Retry(delays=["1s"]), overlap=Overlap.ALLOW)])
        run_id = await cluster.service.jobs.trigger("tick")
        await cluster.elapse(2)
        await begin(cluster)
        held.set()
        await cluster.elapse(20)
        run = await cluster.service.runs.get(run_id)
        assert (run.state, len(run.attempts)) == (RunState.RETRYING, 1)
        assert run.waiting is not None
        assert run.waiting.reason == "the cluster is in maintenance: upgrade"
        other = await cluster.service.jobs.trigger("tick")
        await cluster.elapse(5)
        assert (await cluster.service.runs.get(other)).state is RunState.RETRYING
        assert [
            link.reason for link in (await cluster.service.explain.why_run(run_id)).links if hasattr(link, "reason")
        ] == []
        await cluster.service.cluster.end_maintenance()
        await cluster.elapse(10)
        assert (await cluster.service.runs.get(run_id)).state is RunState.SUCCEEDED


async def test_a_new_leader_starts_nothing_either() -> None:
    async with a_cluster("a", "b", "c") as cluster:
        await cluster.service.jobs.apply([a_job(every="1s")])
        await begin(cluster)
        before = len(cluster.executor.starts)
        for _ in range(2):
            await cluster.kill(cluster.leaders[0])
            await cluster.elapse(50)
            assert len(cluster.leaders) == 1
        assert len(cluster.executor.starts) == before


async def test_a_new_leader_that_cannot_read_the_mode_plans_nothing() -> None:
    async with a_cluster("a", "b") as cluster:
        await cluster.service.jobs.apply([a_job(every="1s")])
        await begin(cluster)
        before = len(cluster.executor.starts)
        cluster.backends.faults.fail_before("control.maintenance", 1000)
        await cluster.kill(cluster.leaders[0])
        await cluster.elapse(50)
        assert len(cluster.executor.starts) == before
        cluster.backends.faults.heal()
        await cluster.service.cluster.end_maintenance()
        await cluster.elapse(5)
        assert len(cluster.executor.starts) > before


async def test_it_ends_by_itself_on_time() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job(every="1s")])
        await begin(cluster, 20)
        before = len(cluster.executor.starts)
        await cluster.elapse(17)
        assert len(cluster.executor.starts) == before
        await cluster.elapse(3)
        assert len(cluster.executor.starts) > before
        assert (await cluster.service.cluster.status()).maintenance is None
        events = [one.event for one in await cluster.backends.events.find(kinds=["maintenance_ended"])]
        assert events == [MaintenanceEnded("")]


async def test_it_begins_without_redis_within_five_seconds() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job(every="1s")])
        cluster.backends.faults.fail_before("bus.notify", 1)
        await cluster.service.cluster.begin_maintenance()
        await cluster.elapse(6)
        before = len(cluster.executor.starts)
        await cluster.elapse(10)
        assert len(cluster.executor.starts) == before


async def test_turning_it_on_twice_keeps_its_beginning_and_off_twice_is_harmless() -> None:
    async with a_cluster("a") as cluster:
        emitted: list[object] = []
        cluster.service.audit.emit = emitted.append
        first = await cluster.service.cluster.begin_maintenance(note="upgrade", by="ada")
        await cluster.elapse(1)
        second = await cluster.service.cluster.begin_maintenance(note="longer", by="bob")
        assert (second.since, second.note, second.by) == (first.since, "longer", "bob")
        await cluster.service.cluster.end_maintenance(by="ada")
        await cluster.service.cluster.end_maintenance(by="ada")
        assert emitted == [
            MaintenanceStarted("ada", "upgrade"),
            MaintenanceStarted("bob", "longer"),
            MaintenanceEnded("ada"),
        ]
        with pytest.raises(InvalidInput, match=r"until: .* has passed"):
            await cluster.service.cluster.begin_maintenance(until=cluster.clock.now())
