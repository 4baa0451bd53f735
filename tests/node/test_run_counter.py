"""The counts of a cluster on virtual time: every end is counted once."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from pathlib import Path

from cronflow.domain.job import Overlap, Retry
from cronflow.domain.rollup import BucketSize, Tally, quantile_ms, summed
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.domain.schedule.kinds import Every
from tests.contracts.builders import a_job
from tests.node.cluster import Cluster, a_cluster


async def counted(cluster: Cluster) -> Tally:
    """All minutes together."""
    now = cluster.clock.now()
    rollups = cluster.backends.rollups
    return summed(await rollups.read(BucketSize.MINUTE, now - timedelta(days=1), now + timedelta(days=1)))


async def test_ends_are_counted_once_by_state_outcome_lateness_and_run_time() -> None:
    async with a_cluster("a", "b") as cluster:
        cluster.executor.attempt_result = lambda assignment: AttemptResult(
            Outcome.ERROR if assignment.job.name == "bad" else Outcome.OK
        )
        await cluster.service.jobs.apply([a_job("good", schedule=Every("10s")), a_job("bad", schedule=Every("30s"))])
        await cluster.service.jobs.apply([a_job("bad", schedule=Every("30s"), retry=Retry(max=0))])
        await cluster.elapse(65)
        ended = Counter(run.state.value for run in cluster.runs if not run.is_open)
        found = await counted(cluster)
        assert found.states == ended
        assert found.outcomes == {"ok": ended["succeeded"], "error": ended["failed"]}
        assert found.lateness.total() == found.duration.total() == ended.total()
        late = quantile_ms(found.lateness, 0.99)
        assert late is not None
        assert late <= 1000


async def test_a_retried_run_is_late_once_and_ends_once() -> None:
    async with a_cluster("a") as cluster:
        endings = iter([Outcome.ERROR, Outcome.ERROR, Outcome.OK])
        cluster.executor.attempt_result = lambda _: AttemptResult(next(endings, Outcome.OK))
        await cluster.service.jobs.apply([a_job("flaky", schedule=Every("5m"), retry=Retry(initial="1s"))])
        await cluster.elapse(320)
        found = await counted(cluster)
        assert (found.ended, found.lateness.total(), found.duration.total()) == (1, 1, 1)


async def test_skipped_fires_are_counted_by_the_leader() -> None:
    async with a_cluster("a") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job("slow", schedule=Every("10s"), overlap=Overlap.FORBID)])
        await cluster.elapse(45)
        found = await counted(cluster)
        assert found.states["skipped"] == sum(run.state.value == "skipped" for run in cluster.runs) > 0


async def test_what_ended_while_mongodb_was_away_is_counted_when_it_is_back(tmp_path: Path) -> None:
    async with a_cluster("a", spools=tmp_path) as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job("report", schedule=None)])
        await cluster.service.jobs.trigger("report")
        await cluster.elapse(3)
        cluster.backends.faults.fail_before("MongoDB", 1_000_000)
        cluster.executor.release.set()
        await cluster.elapse(10)
        cluster.backends.faults.heal()
        await cluster.elapse(5)
        assert (await counted(cluster)).states == {"succeeded": 1}


async def test_a_count_whose_answer_is_lost_is_not_written_again() -> None:
    async with a_cluster("a") as cluster:
        cluster.backends.faults.fail_after("rollups.add", 1)
        await cluster.service.jobs.apply([a_job("report", schedule=None)])
        await cluster.service.jobs.trigger("report")
        await cluster.elapse(10)
        assert (await counted(cluster)).states == {"succeeded": 1}


async def test_a_stopping_node_writes_its_last_counts() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job("report", schedule=None)])
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.trigger("report")
        await cluster.elapse(3)
        cluster.nodes[0].stop()
        cluster.executor.release.set()
        await cluster.elapse(1)
        assert (await counted(cluster)).states == {"succeeded": 1}
