"""Pauses that end by themselves, on virtual time: on time, also without a leader, and with every fire accounted for."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cronflow.domain.errors import InvalidInput
from cronflow.domain.events import JobPaused, JobResumed
from cronflow.domain.job import Job, PythonTarget
from cronflow.domain.run import RunState
from cronflow.domain.schedule.kinds import Every
from tests.node.cluster import Cluster, a_cluster

SECOND = timedelta(seconds=1)


def a_job(name: str = "tick", every: str = "10s", **fields: object) -> Job:
    return Job(name=name, target=PythonTarget("jobs:tick"), schedule=Every(every), **fields)  # type: ignore[arg-type]


async def paused(cluster: Cluster, seconds: float, *jobs: Job) -> None:
    """Apply the jobs and pause each for so long."""
    await cluster.service.jobs.apply(jobs)
    until = cluster.clock.now() + seconds * SECOND
    for job in jobs:
        await cluster.service.jobs.pause(job.name, by="ada", note="target is down", until=until)


async def test_a_pause_ends_at_its_instant() -> None:
    async with a_cluster("a") as cluster:
        await paused(cluster, 35, a_job())
        until = (await cluster.service.jobs.get("tick")).pause.until  # type: ignore[union-attr]
        assert until is not None
        await cluster.elapse(34)
        assert (await cluster.service.jobs.get("tick")).paused
        assert cluster.executor.starts == []
        await cluster.elapse(3)
        record = await cluster.service.jobs.get("tick")
        assert (record.paused, record.pause) == (False, None)
        await cluster.elapse(20)
        fires = [run.fire_at for run in cluster.runs if run.state is RunState.SUCCEEDED]
        assert fires
        assert fires[0] >= until
        # What fell due during the pause is one skipped run.
        [skipped] = [run for run in cluster.runs if run.state is RunState.SKIPPED]
        assert skipped.reason == "paused"
        assert skipped.covers is not None
        assert skipped.covers.last < until
        assert skipped.covers.last + 10 * SECOND == fires[0]
        events = [one.event for one in await cluster.backends.events.find(kinds=["job_resumed"])]
        assert events == [JobResumed("tick", "")]


async def test_a_fire_at_the_very_end_of_a_pause_runs() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job()])
        fire = (await cluster.service.jobs.get("tick")).next_fire
        assert fire is not None
        await cluster.service.jobs.pause("tick", until=fire + 20 * SECOND)
        await cluster.elapse(40)
        done = [run.fire_at for run in cluster.runs if run.state is RunState.SUCCEEDED]
        assert done[0] == fire + 20 * SECOND


async def test_a_pause_that_ends_without_a_leader_ended_on_time() -> None:
    async with a_cluster("a", "b") as cluster:
        await paused(cluster, 15, a_job())
        record = await cluster.service.jobs.get("tick")
        assert record.pause is not None
        assert record.pause.until is not None
        until = record.pause.until
        await cluster.elapse(10)
        await cluster.kill(cluster.leaders[0])
        # Nobody leads for up to thirty seconds.
        await cluster.elapse(45)
        assert not (await cluster.service.jobs.get("tick")).paused
        skipped = [run for run in cluster.runs if run.reason == "paused"]
        assert all((run.fire_at if run.covers is None else run.covers.last) < until for run in skipped)
        # The fires since the end of the pause are late, and run as the misfire policy has it.
        accounted = {run.fire_at for run in cluster.runs if run.state is RunState.SUCCEEDED}
        assert min(accounted) < until + 10 * SECOND


async def test_a_pause_that_was_changed_ends_at_the_new_instant() -> None:
    async with a_cluster("a") as cluster:
        await paused(cluster, 10, a_job())
        before = await cluster.service.jobs.get("tick")
        await cluster.elapse(5)
        await cluster.service.jobs.pause("tick", by="bob", until=cluster.clock.now() + 30 * SECOND)
        after = await cluster.service.jobs.get("tick")
        assert before.pause is not None
        assert after.pause is not None
        assert (after.pause.at, after.pause.by, after.pause.note) == (before.pause.at, "bob", "")
        await cluster.elapse(15)
        assert (await cluster.service.jobs.get("tick")).paused
        await cluster.service.jobs.pause("tick")
        assert (await cluster.service.jobs.get("tick")).pause == after.pause
        await cluster.elapse(20)
        assert not (await cluster.service.jobs.get("tick")).paused


async def test_resuming_by_hand_ends_a_pause_at_once_and_for_good() -> None:
    async with a_cluster("a") as cluster:
        await paused(cluster, 20, a_job())
        await cluster.service.jobs.resume("tick", by="bob")
        version = (await cluster.service.jobs.get("tick")).ver
        await cluster.elapse(40)
        assert (await cluster.service.jobs.get("tick")).ver == version


async def test_many_pauses_end_together() -> None:
    async with a_cluster("a") as cluster:
        await paused(cluster, 5, *(a_job(f"job-{n:03}", "1h") for n in range(120)))
        await cluster.elapse(15)
        assert [record.name for record in await cluster.service.backends.jobs.find() if record.paused] == []


async def test_a_paused_job_keeps_its_pause_when_it_is_edited_and_loses_it_when_it_is_deleted() -> None:
    async with a_cluster("a") as cluster:
        await paused(cluster, 60, a_job())
        pause = (await cluster.service.jobs.get("tick")).pause
        await cluster.service.jobs.apply([a_job(every="20s")])
        record = await cluster.service.jobs.get("tick")
        assert (record.paused, record.pause) == (True, pause)
        await cluster.service.jobs.delete("tick")
        assert await cluster.backends.jobs.pauses(10) == []


async def test_a_pause_needs_an_end_to_come_and_is_in_the_event_and_the_audit_log() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job()])
        with pytest.raises(InvalidInput, match=r"until: .* has passed"):
            await cluster.service.jobs.pause("tick", until=cluster.clock.now())
        emitted: list[object] = []
        cluster.service.audit.emit = emitted.append
        until = cluster.clock.now().replace(microsecond=0) + timedelta(hours=1)
        await cluster.service.jobs.pause("tick", by="ada", note="broken", until=until)
        assert emitted == [JobPaused("tick", "ada", "broken", f"{until:%Y-%m-%dT%H:%M:%SZ}")]
        [entry] = [one for one in cluster.backends.documents.audit.values() if one.action == "job.pause"]
        assert entry.after["note"] == "broken"  # type: ignore[index]
