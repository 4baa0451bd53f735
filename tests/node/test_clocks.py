"""Bad clocks in a whole cluster: nothing fires early, and a node whose clock is off does not lead."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import timedelta

import pytest

from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.job import Job, PythonTarget, Retry
from cronflow.domain.run import RunState
from cronflow.domain.schedule.kinds import Every
from tests.node.cluster import Cluster, a_cluster

HOUR = timedelta(hours=1)
JOB = Job(name="tick", target=PythonTarget("a:b"), schedule=Every("10s"), retry=Retry(max=0))


def on_time(cluster: Cluster, least: int) -> None:
    assert len(cluster.executor.starts) >= least
    by_id = {run.id: run for run in cluster.runs}
    for run, _, _, at in cluster.executor.starts:
        # Offsets are floats: the median may be a microsecond ahead of the clock that it was sampled from.
        assert timedelta(milliseconds=-1) <= at - by_id[run].fire_at <= timedelta(seconds=1), run
    assert {run.state for run in cluster.runs} == {RunState.SUCCEEDED}


@pytest.mark.parametrize("skew", [HOUR, -HOUR, timedelta(seconds=3)])
async def test_a_node_whose_clock_is_off_works_and_does_not_lead(skew: timedelta) -> None:
    async with a_cluster() as cluster:
        cluster.start("wrong", skew=skew)
        await cluster.elapse(3)
        assert cluster.leaders == []
        right = cluster.start("right")
        await cluster.elapse(8)
        assert cluster.leaders == [right]
        await cluster.service.jobs.apply([JOB, replace(JOB, name="tock")])
        await cluster.elapse(60)
        on_time(cluster, least=12)
        assert {node.partition("#")[0] for _, _, node, _ in cluster.executor.starts} == {"wrong", "right"}


@pytest.mark.parametrize("service", ["Redis", "MongoDB"])
@pytest.mark.parametrize("skew", [HOUR, -HOUR])
async def test_a_server_whose_clock_is_off_changes_nothing(service: str, skew: timedelta) -> None:
    async with a_cluster("a", "b") as cluster:
        await cluster.service.jobs.apply([JOB])
        await cluster.elapse(25)
        cluster.backends.server_clocks[service].skew = skew  # type: ignore[attr-defined]
        await cluster.elapse(40)
        on_time(cluster, least=6)
        assert len(cluster.leaders) == 1


async def test_k8s_125761_a_leader_whose_clock_steps_gives_the_lead_to_one_whose_clock_is_right() -> None:
    """kubernetes #125761: a clock one hour ahead let a candidate take the lease of a leader that lived."""
    async with a_cluster("a", "b") as cluster:
        await cluster.service.jobs.apply([JOB])
        await cluster.elapse(20)
        (leader,) = cluster.leaders
        leader._clock._local.skew = HOUR  # type: ignore[attr-defined]
        await cluster.elapse(10)
        (successor,) = cluster.leaders
        assert successor is not leader
        await cluster.elapse(40)
        on_time(cluster, least=7)


async def test_a_node_does_not_start_before_a_server_has_told_the_time() -> None:
    """With a clock an hour ahead and nothing to compare it with, it would plan the next hour."""
    async with a_cluster() as cluster:
        for service in ("Redis", "MongoDB"):
            cluster.backends.faults.fail_before(f"{service}.time", 1)
        alone = cluster.start("wrong", skew=HOUR)
        await cluster.elapse(1)
        with pytest.raises(ExceptionGroup) as failure:
            cluster.tasks.pop(alone.id).result()
        assert failure.group_contains(BackendUnavailable, match="time")
        cluster.nodes.remove(alone)


async def test_when_no_two_clocks_agree_nothing_is_planned_and_nothing_is_lost() -> None:
    async with a_cluster("a", "b") as cluster:
        await cluster.service.jobs.apply([JOB])
        await cluster.elapse(20)
        cluster.backends.server_clocks["Redis"].skew = HOUR  # type: ignore[attr-defined]
        cluster.backends.server_clocks["MongoDB"].skew = -HOUR  # type: ignore[attr-defined]
        await cluster.elapse(20)
        assert cluster.leaders == []
        known = len(cluster.runs)
        await cluster.elapse(20)
        assert len(cluster.runs) == known
        cluster.backends.server_clocks["Redis"].skew = timedelta(0)  # type: ignore[attr-defined]
        await cluster.elapse(30)
        fires = [run.fire_at for run in cluster.runs]
        assert {(later - earlier).total_seconds() for earlier, later in itertools.pairwise(fires)} == {10.0}
        assert len(fires) >= 8
