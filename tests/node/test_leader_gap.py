"""A leader that is killed one second before an instant, again and again, on virtual time and with the usual timings.

Each instant has exactly one run, which starts as soon as another node can lead.
"""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from cronflow.domain.cluster import node_name
from cronflow.domain.job import Job, PythonTarget, Retry
from cronflow.domain.run import RunState, run_id
from cronflow.domain.schedule.kinds import Once
from cronflow.node.timings import Timings
from cronflow.testing.audit import percentile
from tests.node.cluster import Cluster, a_cluster
from tests.node.simulation.stories import quiet

SECOND = timedelta(seconds=1)
TIMINGS = Timings()
ONE_ROUND_S = 2.0
"""Until a follower has looked at the key, begun a term, and planned and sent what is due."""


async def gap_after_a_kill(cluster: Cluster, rng: random.Random) -> timedelta:
    """How late the run starts whose leader was killed a second before. The kill may come at any time of a lease."""
    clock = cluster.clock
    due = clock.now().replace(microsecond=0) + rng.randint(4, 4 + round(TIMINGS.leader_renew)) * SECOND
    job = Job(name="report", target=PythonTarget("jobs:report"), schedule=Once(due), retry=Retry(max=0))
    await cluster.elapse(rng.random())
    await cluster.service.jobs.apply([job])
    await clock.advance((due - SECOND - clock.now()).total_seconds())
    (leader,) = cluster.leaders
    await cluster.kill(leader)
    killed_at = clock.monotonic()
    while not (started := [at for run, *_, at in cluster.executor.starts if run == run_id("report", due)]):
        await clock.advance(0.25)
        assert clock.monotonic() < killed_at + TIMINGS.leader_ttl + ONE_ROUND_S
    # It starts again when its heartbeat has expired.
    await clock.advance(max(1.0, killed_at + TIMINGS.node_ttl + 1.0 - clock.monotonic()))
    cluster.start(node_name(leader.id))
    await clock.advance(1.0)
    return started[0] - due


async def kill_leaders(times: int) -> None:
    rng = random.Random(times)
    with quiet():
        async with a_cluster("a", "b") as cluster:
            gaps = sorted([await gap_after_a_kill(cluster, rng) for _ in range(times)])
            assert [run.state for run in cluster.runs] == [RunState.SUCCEEDED] * times
            assert len({run.fire_at for run in cluster.runs}) == times
            assert len(cluster.executor.starts) == times
    figures = {"p50": percentile(gaps, 0.5), "p99": percentile(gaps, 0.99), "max": gaps[-1]}
    print(f"{times} leaders killed at T-1s:", ", ".join(f"{name} {gap}" for name, gap in figures.items()))


async def test_each_instant_has_one_run_although_its_leader_is_killed_a_second_before() -> None:
    await kill_leaders(20)


@pytest.mark.prove
async def test_a_thousand_leaders_killed_a_second_before_an_instant_lose_and_double_none() -> None:
    await kill_leaders(1000)
