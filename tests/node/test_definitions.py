"""Code that differs from the stored jobs: one event per job and change, however many nodes and leaders there are."""

from __future__ import annotations

from dataclasses import replace

from cronflow.domain.events import JobDefinitionDiffers
from cronflow.domain.job import CommandTarget, Job, PythonTarget
from cronflow.domain.schedule.kinds import Every
from tests.node.cluster import Cluster, a_cluster

HOURLY = Job(name="sums", target=PythonTarget("jobs:sums"), schedule=Every("1h"))
DAILY = replace(HOURLY, schedule=Every("1d"), priority=7)
OTHER = Job(name="other", target=PythonTarget("jobs:other"), schedule=Every("1h"))


async def emitted(cluster: Cluster) -> list[JobDefinitionDiffers]:
    found = await cluster.backends.events.find(kinds=["job_definition_differs"])
    return [one.event for one in reversed(found) if isinstance(one.event, JobDefinitionDiffers)]


async def test_a_difference_is_one_event_until_it_changes_and_none_when_it_is_short() -> None:
    async with a_cluster() as cluster:
        nodes = [cluster.start(name, defines=[DAILY, OTHER]) for name in ("a", "b", "c")]
        await cluster.elapse(1.0)
        await cluster.service.jobs.apply([HOURLY, replace(OTHER, priority=1)])
        await cluster.elapse(140)
        assert await emitted(cluster) == []
        # A deployment that ends before the second look.
        await cluster.service.jobs.apply([OTHER])
        await cluster.elapse(200)
        [event] = await emitted(cluster)
        assert (event.job, event.node, event.keys) == ("sums", "a", "schedule.every, priority")
        assert event.text == "the code of sums on a differs from the stored job: schedule.every, priority"
        [leader] = cluster.leaders
        await cluster.kill(leader)
        await cluster.elapse(400)
        assert len(await emitted(cluster)) == 1
        await cluster.service.jobs.apply([replace(HOURLY, schedule=Every("2h"))])
        await cluster.elapse(400)
        assert len(await emitted(cluster)) == 2
        await cluster.service.jobs.apply([DAILY])
        await cluster.elapse(400)
        assert len(await emitted(cluster)) == 2
        assert not any(member.report.differing for member in await cluster.backends.membership.members())
        assert nodes


async def test_only_stored_jobs_of_the_same_function_are_compared() -> None:
    async with a_cluster() as cluster:
        gone = Job(name="gone", target=PythonTarget("jobs:gone"))
        cluster.start("a", defines=[HOURLY, DAILY, OTHER, gone])
        await cluster.elapse(1.0)
        await cluster.service.jobs.apply(
            [
                replace(HOURLY, target=CommandTarget("true")),
                replace(OTHER, labels={"owner": "team-a"}),
                replace(gone, priority=9),
            ]
        )
        await cluster.service.jobs.delete("gone")
        await cluster.elapse(400)
        assert await emitted(cluster) == []
