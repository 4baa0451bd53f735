"""Jobs in shadow mode on virtual time: every fire is recorded, none is executed, and activating one loses no fire."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from cronflow.domain import splitting
from cronflow.domain.backfill import BackfillScope
from cronflow.domain.chain import On, RunEnd, Upstream
from cronflow.domain.following import run_that_follows
from cronflow.domain.job import Job, JobRecord, PendingRun, PythonTarget
from cronflow.domain.planning import run_of_pending
from cronflow.domain.run import Attempt, AttemptResult, Kind, Outcome, Run, RunState
from cronflow.domain.schedule.kinds import Every
from cronflow.domain.shadow import SHADOWED, JobMode
from cronflow.domain.split import RunOn, Split
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


# ------------------------------------------------------------------ what a leader opens that does not know the mode


async def add(cluster: Cluster, job: Job) -> JobRecord:
    await cluster.service.jobs.apply([job])
    return cluster.backends.documents.jobs[job.name]


def a_parent(record: JobRecord, fire: datetime) -> Run:
    """As a leader inserts it that plans the fire."""
    pending = PendingRun(fire=fire, state=RunState.RETRYING, fence=0, job_ver=record.ver, at=fire)
    return replace(run_of_pending(record.job, pending, 1), check_at=fire)


def a_follower(record: JobRecord, now: datetime) -> Run:
    """As a leader inserts it that takes the job to be active."""
    active = replace(record, job=replace(record.job, mode=JobMode.ACTIVE))
    end = RunEnd("import@x", "import", RunState.SUCCEEDED, now, now)
    run = run_that_follows(active, [end], now)
    assert run is not None
    return run


def of(cluster: Cluster, job: str) -> list[tuple[Kind, RunState, str | None]]:
    return [(run.kind, run.state, run.reason) for run in cluster.runs if run.job == job]


@pytest.mark.parametrize("split", [{}, {"shards": 2}, {"run_on": RunOn.EVERY_NODE}])
async def test_a_run_that_follows_and_was_opened_in_shadow_mode_is_skipped(split: dict[str, Any]) -> None:
    job = replace(SHADOW, schedule=None, after=(Upstream("import", On.ENDED),), **split)
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([Job(name="import", target=PythonTarget("jobs:load"))])
        record = await add(cluster, job)
        await cluster.backends.runs.insert([a_follower(record, cluster.clock.now())])
        await cluster.elapse(30)
        assert cluster.executor.starts == []
        assert of(cluster, "tick") == [(Kind.AFTER, RunState.SKIPPED, SHADOWED)]


@pytest.mark.parametrize("split", [{"shards": 2}, {"run_on": RunOn.EVERY_NODE}])
async def test_a_parent_that_waits_in_shadow_mode_is_skipped(split: dict[str, Any]) -> None:
    async with a_cluster("a") as cluster:
        record = await add(cluster, replace(SHADOW, schedule=Every("1d"), **split))
        parent = a_parent(record, cluster.clock.now().replace(microsecond=0))
        await cluster.backends.runs.insert([parent])
        await cluster.elapse(5)
        assert cluster.executor.starts == []
        assert of(cluster, "tick") == [(Kind.INTERVAL, RunState.SKIPPED, SHADOWED)]


async def begun(cluster: Cluster, record: JobRecord, *, following: bool = False) -> Run:
    """A parent that has begun and has its parts, as a leader of the version before leaves it."""
    now = cluster.clock.now().replace(microsecond=0)
    parent = a_follower(record, now) if following else a_parent(record, now)
    parent = replace(parent, split=record.job.split)
    assert isinstance(parent.split, Split)
    await cluster.backends.runs.insert([parent])
    begin = splitting.begin(parent, parent.split, fence=1, term=1, job_ver=record.ver, at=now)
    assert await cluster.backends.runs.apply([begin])
    plans = parent.split.parts(parent.id)
    await cluster.backends.runs.insert([splitting.part_run(parent, plan, record, now) for plan in plans])
    return parent


@pytest.mark.parametrize("following", [False, True])
async def test_the_parts_of_a_parent_that_has_begun_in_shadow_mode_are_skipped(following: bool) -> None:
    async with a_cluster("a") as cluster:
        record = await add(cluster, replace(SHADOW, schedule=Every("1d"), shards=2))
        parent = await begun(cluster, record, following=following)
        await cluster.elapse(10)
        assert cluster.executor.starts == []
        runs = {run.id: run for run in cluster.runs}
        ended = runs.pop(parent.id)
        assert (ended.state, ended.reason, ended.outcome) == (RunState.CANCELLED, SHADOWED, Outcome.CANCELLED)
        assert ended.result == {"skipped": [0, 1]}
        assert [(run.state, run.reason) for run in runs.values()] == [(RunState.SKIPPED, SHADOWED)] * 2
        assert await cluster.backends.dead_letters.count() == 0


async def test_a_parent_with_a_part_that_failed_fails_in_shadow_mode_too() -> None:
    async with a_cluster("a") as cluster:
        record = await add(cluster, replace(SHADOW, schedule=Every("1d"), shards=2))
        parent = await begun(cluster, record)
        part = next(run for run in cluster.runs if run.id.endswith("~s0"))
        failed = replace(part, state=RunState.FAILED, check_at=None, ended_at=part.created_at, error="disk full")
        cluster.backends.documents.runs[part.id] = failed
        await cluster.elapse(10)
        assert next(run.state for run in cluster.runs if run.id == parent.id) is RunState.FAILED


async def test_the_parts_of_a_run_on_request_execute() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([replace(SHADOW, schedule=None, shards=2)])
        run = await cluster.service.jobs.trigger("tick")
        await cluster.elapse(10)
        assert len(cluster.executor.starts) == 2
        assert next(one.state for one in cluster.runs if one.id == run) is RunState.SUCCEEDED


async def test_a_run_on_request_whose_handlers_skip_their_parts_fails_as_it_does_otherwise() -> None:
    async with a_cluster("a") as cluster:
        cluster.executor.attempt_result = lambda _: AttemptResult(Outcome.SKIPPED)
        await cluster.service.jobs.apply([replace(SHADOW, schedule=None, shards=2)])
        run = await cluster.service.jobs.trigger("tick")
        await cluster.elapse(10)
        assert next(one.state for one in cluster.runs if one.id == run) is RunState.FAILED


async def test_a_replay_executes() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([SHADOW])
        await cluster.elapse(15)
        replay = await cluster.service.runs.replay(cluster.runs[0].id)
        await cluster.elapse(5)
        assert cluster.executor.runs_started == [replay]


async def test_a_run_that_has_started_is_retried_after_its_job_enters_shadow_mode() -> None:
    async with a_cluster("a") as cluster:
        record = await add(cluster, SHADOW)
        now = cluster.clock.now().replace(microsecond=0)
        run = replace(a_parent(record, now), split=None)
        tried = Attempt(1, 1, "a#x", now, now, Outcome.ERROR, "disk full")
        await cluster.backends.runs.insert([replace(run, attempts=(tried,), attempt=1)])
        await cluster.elapse(3)
        assert cluster.executor.runs_started == [run.id]


async def test_a_running_backfill_waits_in_shadow_mode() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([replace(SHADOW, mode=JobMode.ACTIVE)])
        await cluster.elapse(60)
        first, last = (cluster.runs[index].fire_at for index in (0, 3))
        await cluster.service.jobs.pause("tick")
        backfill, _ = await cluster.service.backfills.request("tick", first, last, scope=BackfillScope.ALL)
        await cluster.service.jobs.amend("tick", lambda job: replace(job, mode=JobMode.SHADOW), by="ada")
        await cluster.service.jobs.resume("tick")
        before = len(cluster.executor.starts)
        await cluster.elapse(30)
        assert len(cluster.executor.starts) == before
        assert (await cluster.service.backfills.get(backfill.id)).waiting == "its job is in shadow mode"
        await activate(cluster)
        await cluster.elapse(30)
        assert (await cluster.service.backfills.get(backfill.id)).counts == {RunState.SUCCEEDED: 4}
