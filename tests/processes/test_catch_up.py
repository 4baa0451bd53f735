"""A recovery on real processes and servers: all nodes are killed, fires are missed, and a leader dies in the drain."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cronflow.domain.catch_up import CatchUpProgress, CatchUpState
from cronflow.domain.cluster import node_name
from cronflow.domain.run import Outcome, Run, RunState
from tests.processes.conftest import Processes, process_cluster
from tests.processes.test_stopping import cronflow
from tests.waiting import eventually

pytestmark = [pytest.mark.chaos, pytest.mark.prove]

COUNT = 120
NAMES = [f"daily-{n:03}" for n in range(COUNT)]


async def miss(cluster: Processes, fire: datetime) -> None:
    """Put the cursors of the daily jobs back to an instant that nobody planned."""
    for record in await cluster.backends.jobs.get(NAMES):
        assert await cluster.backends.jobs.replace(replace(record, next_fire=fire, due_at=fire), record.rev)


async def in_state(cluster: Processes, *states: CatchUpState) -> CatchUpProgress:
    async def found() -> CatchUpProgress | None:
        present = await cluster.service.catch_up.show()
        return present if present is not None and present.plan.state in states else None

    progress = await eventually(found, what=f"the recovery is {states}")
    assert progress is not None
    return progress


async def of(cluster: Processes, prefix: str) -> list[Run]:
    return [run for run in await cluster.runs() if run.job.startswith(prefix)]


async def test_missed_runs_wait_for_approval_and_each_runs_once_although_the_leader_is_killed(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster:
        cluster.limits["CRONFLOW_RECOVERY_LIMIT"] = "50"
        await cluster.up("a", "b")
        since = await cluster.apply(*(cluster.job(name, every="1d") for name in NAMES), cluster.job("frequent"))
        for name in ("a", "b"):
            cluster.kill(name)
        midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        await miss(cluster, midnight)
        before = len(await of(cluster, "frequent"))
        await cluster.up("c", "d", "e")
        waiting = await in_state(cluster, CatchUpState.WAITING)
        assert (waiting.plan.runs, waiting.plan.jobs, waiting.held.runs) == (COUNT, COUNT, COUNT)

        async def on_time() -> bool:
            return len(await of(cluster, "frequent")) >= before + 4

        await eventually(on_time, what="fires that are on time run")
        assert await of(cluster, "daily") == []
        assert not [run for run, _ in cluster.noted("start") if run.startswith("daily")]

        approved = await cronflow(cluster, "cluster", "recovery", "approve", "--rate", "30/s")
        assert (approved["state"], approved["rate"]) == ("draining", "30/s")

        async def under_way() -> bool:
            return len(await of(cluster, "daily")) >= 20

        await eventually(under_way, what="20 missed runs have begun")
        leader = await cluster.leader()
        assert leader is not None
        cluster.kill(leader)
        await cluster.new_leader(leader)
        await in_state(cluster, CatchUpState.ENDED)
        proof = await cluster.proof({**dict.fromkeys(NAMES, midnight), "frequent": since["frequent"]})
        assert proof.holds, proof
        assert proof.fires_due > COUNT
        daily = await of(cluster, "daily")
        assert Counter(run.job for run in daily) == Counter(NAMES)
        assert {run.state for run in daily} == {RunState.SUCCEEDED}
        starts = Counter(run for run, _ in cluster.noted("start") if run.startswith("daily"))
        for run in daily:
            lost = [node_name(one.node) for one in run.attempts if one.outcome is Outcome.LOST]
            assert set(lost) <= {leader}
            assert 1 <= starts[run.id] <= 1 + len(lost)
