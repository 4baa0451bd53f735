"""MongoDB is killed while runs end, and their worker too: all outcomes are recorded, and nothing runs twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cronflow.domain.run import Run, RunState
from cronflow.testing.embedded import MongoServer
from tests.processes.conftest import Processes, process_cluster
from tests.waiting import eventually

pytestmark = pytest.mark.chaos

RUNS = 3


async def runs_end_without_mongodb(cluster: Processes, own_mongo: MongoServer) -> tuple[list[Run], str]:
    """Kill MongoDB while runs are running, and wait until their outcomes are in the spool of their worker."""
    await cluster.apply(cluster.job("long", every=None, seconds=3.0))
    ids = [await cluster.service.jobs.trigger("long") for _ in range(RUNS)]

    async def under_way() -> list[Run]:
        found = [await cluster.service.runs.get(run) for run in ids]
        return found if all(run.state is RunState.RUNNING for run in found) else []

    runs = await eventually(under_way, what="the runs are recorded as running")
    await asyncio.to_thread(own_mongo.kill)
    await eventually(lambda: len(cluster.noted("end")) == RUNS, what="the runs have ended")
    nodes = {run.id: (run.node or "").partition("#")[0] for run in runs}
    await eventually(
        lambda: all(run in cluster.spooled(node) for run, node in nodes.items()), what="the outcomes are in the spools"
    )
    return runs, nodes[ids[0]]


async def all_recorded_once(cluster: Processes, before: list[Run]) -> None:
    async def ended() -> bool:
        return all([not (await cluster.service.runs.get(run.id)).is_open for run in before])

    await eventually(ended, what="the outcomes are recorded")
    for run in before:
        after = await cluster.service.runs.get(run.id)
        assert (after.state, after.fence, after.node) == (RunState.SUCCEEDED, run.fence, run.node)
    assert sorted(cluster.noted("start")) == sorted((run.id, run.fence) for run in before)
    await eventually(lambda: not list(cluster.folder.glob("spool/*/*/*.spool")), what="the spools are empty")


async def test_a_worker_killed_while_mongodb_is_away_tells_its_outcomes_when_both_are_back(
    redis_url: str, own_mongo: MongoServer, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(redis_url, own_mongo.url, namespace, tmp_path) as cluster:
        # The default; the other test covers whether the leader waits for a spool.
        cluster.limits["CRONFLOW_RUN_LEASE"] = "45s"
        await cluster.up("a", "b")
        runs, worker = await runs_end_without_mongodb(cluster, own_mongo)
        # Some roles rarely call MongoDB, so their successful steps do not prove that it is available.
        logs = {name: cluster.log(name).read_text("utf-8") for name in ("a", "b")}
        assert any("service away" in text for text in logs.values())
        assert {name: text.count("service back") for name, text in logs.items()} == {"a": 0, "b": 0}
        cluster.kill(worker)
        await asyncio.to_thread(own_mongo.start)
        cluster.start(worker)
        await all_recorded_once(cluster, runs)


async def test_a_single_node_that_leads_again_drains_its_spool_before_it_marks_a_run_as_lost(
    redis_url: str, own_mongo: MongoServer, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(redis_url, own_mongo.url, namespace, tmp_path) as cluster:
        await cluster.up("a")
        runs, worker = await runs_end_without_mongodb(cluster, own_mongo)
        cluster.kill(worker)
        await asyncio.to_thread(own_mongo.start)
        cluster.start(worker)
        await all_recorded_once(cluster, runs)
