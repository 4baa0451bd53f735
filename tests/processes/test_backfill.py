"""A backfill on real processes and servers, whose leader is killed twice."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cronflow.domain.backfill import BackfillRate, BackfillScope, BackfillState
from cronflow.domain.cluster import node_name
from cronflow.domain.run import Kind, Outcome, Run, RunState
from tests.processes.conftest import Processes, process_cluster
from tests.processes.test_stopping import cronflow
from tests.waiting import eventually

pytestmark = [pytest.mark.chaos, pytest.mark.prove]

COUNT = 30


async def of_backfill(cluster: Processes) -> list[Run]:
    return [run for run in await cluster.runs() if run.kind is Kind.BACKFILL]


async def succeeded(cluster: Processes, count: int) -> None:
    async def enough() -> bool:
        return sum(run.state is RunState.SUCCEEDED for run in await of_backfill(cluster)) >= count

    await eventually(enough, what=f"{count} runs have succeeded")


async def test_each_instant_of_a_backfill_runs_in_one_run_although_two_leaders_are_killed(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster:
        leader = await cluster.up("a", "b", "c")
        await cluster.apply(cluster.job("minutely", every="1h", seconds=0.05))
        last = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        first = last - (COUNT - 1) * timedelta(hours=1)
        found, _ = await cluster.service.backfills.request(
            "minutely", first, last, BackfillScope.ALL, BackfillRate(10, "s"), by="ada"
        )
        killed = []
        for count in (3, 12):
            await succeeded(cluster, count)
            killed.append(leader)
            cluster.kill(leader)
            leader = await cluster.new_leader(leader)

        async def done() -> bool:
            return (await cluster.service.backfills.get(found.id)).backfill.state is BackfillState.DONE

        await eventually(done, what="the backfill is done")
        runs = await of_backfill(cluster)
        assert [run.fire_at for run in runs] == [first + n * timedelta(hours=1) for n in range(COUNT)]
        assert {run.state for run in runs} == {RunState.SUCCEEDED}
        # What the jobs wrote: each run, and one more start only where a node was killed.
        starts = Counter(run for run, _ in cluster.noted("start"))
        assert set(starts) == {run.id for run in runs}
        for run in runs:
            lost = [node_name(one.node) for one in run.attempts if one.outcome is Outcome.LOST]
            assert set(lost) <= set(killed)
            assert starts[run.id] <= 1 + run.redispatches
        shown = await cronflow(cluster, "backfills", "show", found.id)
        assert (shown["state"], shown["runs"]) == ("done", {"succeeded": COUNT})
