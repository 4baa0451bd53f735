"""Jobs in shadow mode on virtual time: every fire is recorded, none is executed, and activating one loses no fire."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from cronflow.domain.chain import On, Upstream
from cronflow.domain.job import Job, PythonTarget
from cronflow.domain.run import RunState
from cronflow.domain.schedule.kinds import Every
from cronflow.domain.shadow import SHADOWED, JobMode
from tests.node.cluster import Cluster, a_cluster

SHADOW = Job(name="tick", target=PythonTarget("jobs:tick"), schedule=Every("10s"), mode=JobMode.SHADOW)


async def activate(cluster: Cluster) -> None:
    await cluster.service.jobs.amend("tick", lambda job: replace(job, mode=JobMode.ACTIVE), by="ada")


async def test_fires_are_recorded_until_the_job_is_activated_and_executed_from_then_on() -> None:
    async with a_cluster("a", "b") as cluster:
        await cluster.service.jobs.apply([SHADOW])
        first = (await cluster.service.jobs.get("tick")).next_fire
        assert first is not None
        await cluster.elapse(45)
        assert cluster.executor.starts == []
        assert {(run.state, run.reason, run.covers) for run in cluster.runs} == {(RunState.SKIPPED, SHADOWED, None)}
        await activate(cluster)
        await cluster.elapse(40)
        runs = sorted(cluster.runs, key=lambda run: run.fire_at)
        # One run for each fire, without a gap where it changed.
        assert [run.fire_at for run in runs] == [first + k * timedelta(seconds=10) for k in range(len(runs))]
        states = [run.state for run in runs]
        assert states == [RunState.SKIPPED] * states.count(RunState.SKIPPED) + [RunState.SUCCEEDED] * (
            states.count(RunState.SUCCEEDED)
        )
        assert states.count(RunState.SUCCEEDED) == len(cluster.executor.starts) >= 3


async def test_a_run_on_request_executes() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([SHADOW])
        run = await cluster.service.jobs.trigger("tick")
        await cluster.elapse(5)
        assert [one for one, *_ in cluster.executor.starts] == [run]


async def test_a_job_in_shadow_mode_that_follows_another_is_recorded_and_not_executed() -> None:
    upstream = Job(name="import", target=PythonTarget("jobs:load"))
    after = (Upstream("import", On.ENDED),)
    follower = Job(name="report", target=PythonTarget("jobs:report"), after=after, mode=JobMode.SHADOW)
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([upstream, follower])
        await cluster.service.jobs.trigger("import")
        await cluster.elapse(10)
        [run] = [run for run in cluster.runs if run.job == "report"]
        assert (run.state, run.reason) == (RunState.SKIPPED, SHADOWED)
        assert len(cluster.executor.starts) == 1


async def test_instants_that_are_due_when_the_job_is_activated_were_the_others_work() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([SHADOW])
        await cluster.elapse(15)
        await cluster.service.cluster.begin_maintenance(note="upgrade", by="ada")
        await cluster.elapse(30)
        await activate(cluster)
        await cluster.service.cluster.end_maintenance(by="ada")
        await cluster.elapse(25)
        states = {run.fire_at: run.state for run in cluster.runs}
        left = [run for run in cluster.runs if run.covers is not None]
        assert [(run.state, run.reason) for run in left] == [(RunState.SKIPPED, SHADOWED)]
        assert list(states.values()).count(RunState.SUCCEEDED) == len(cluster.executor.starts) > 0
