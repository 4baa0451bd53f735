"""A node's name in Redis, on virtual time: one that is taken while the node is up."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from cronflow.domain.errors import Conflict
from cronflow.domain.events import NodeLeft, NodeLost
from cronflow.domain.job import Job, PythonTarget
from cronflow.domain.run import RunState
from tests.node.cluster import Cluster, a_cluster
from tests.node.test_events import events_of

PREDECESSOR = "a#00000000"


def give_the_name_to_the_predecessor(cluster: Cluster) -> None:
    """As a Redis does that has lost the latest writes. The report expires as it was to expire."""
    memory = cluster.backends.memory
    report, until, seen = memory.reports.pop(cluster.nodes[0].id)
    assert report.started_at is not None
    earlier = replace(report, incarnation="00000000", started_at=report.started_at - timedelta(minutes=1))
    memory.reports[PREDECESSOR] = earlier, until, seen


async def test_a_node_whose_name_redis_gave_back_to_its_predecessor_goes_on_when_that_has_expired() -> None:
    async with a_cluster("a", "b") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([Job(name="long", target=PythonTarget("jobs:long"))])
        run_id = await cluster.service.jobs.trigger("long")
        await cluster.elapse(2)
        give_the_name_to_the_predecessor(cluster)
        with capture_logs() as logs:
            await cluster.elapse(cluster.timings.node_ttl + 5)
        assert [line["reason"] for line in logs if line["event"] == "name taken"] == [
            f"a live node is already called 'a' (it is {PREDECESSOR}); choose another NODE_NAME"
        ]
        members = await cluster.service.cluster.members()
        assert {member.report.id for member in members} == {node.id for node in cluster.nodes}
        cluster.executor.release.set()
        await cluster.elapse(40)
        assert (await cluster.service.runs.get(run_id)).state is RunState.SUCCEEDED
        assert cluster.executor.cancelled == []
        assert await events_of(cluster, NodeLeft, NodeLost) == []
        # It waits as long the next time.
        give_the_name_to_the_predecessor(cluster)
        await cluster.elapse(cluster.timings.node_ttl + 5)
        assert not cluster.tasks[cluster.nodes[0].id].done()


async def test_a_node_ends_when_another_one_keeps_its_name() -> None:
    async with a_cluster("a") as cluster:
        give_the_name_to_the_predecessor(cluster)
        memory, ends = cluster.backends.memory, cluster.clock.monotonic() + cluster.timings.node_ttl + 1
        task = cluster.tasks.pop(cluster.nodes[0].id)
        while not task.done():
            report, _, _ = memory.reports[PREDECESSOR]
            now = cluster.clock.monotonic()
            assert now < ends + cluster.timings.heartbeat + 1
            memory.reports[PREDECESSOR] = report, now + cluster.timings.node_ttl, now
            await cluster.elapse(1)
        assert cluster.clock.monotonic() > ends
        with pytest.raises(ExceptionGroup) as error:
            task.result()
        assert isinstance(error.value.exceptions[0], Conflict)
