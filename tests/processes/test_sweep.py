"""The sweep and the cleanup on node processes and real servers, while jobs run."""

from __future__ import annotations

from pathlib import Path

import pytest

from cronflow.domain.job import CLEANUP, SWEEP
from cronflow.domain.run import Run, RunState
from tests.processes.conftest import Processes, process_cluster
from tests.waiting import eventually

pytestmark = pytest.mark.chaos


async def requested_run(cluster: Processes, job: str) -> Run:
    """Request a run and wait until it has ended."""
    name = await cluster.service.jobs.trigger(job)

    async def ended() -> Run | None:
        run = await cluster.service.runs.get(name)
        return None if run.is_open else run

    run = await eventually(ended, what=f"{job} has ended")
    assert run is not None
    return run


async def test_no_false_alarms_before_and_after_a_worker_was_killed(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster:
        leader = await cluster.up("a", "b")

        async def defined() -> bool:
            return {record.name for record in await cluster.service.backends.jobs.find()} >= {SWEEP, CLEANUP}

        await eventually(defined, what="the leader has defined the system jobs")
        since = await cluster.apply(*(cluster.job(f"job-{k}", seconds=0.3) for k in range(5)))
        await eventually(lambda: len(cluster.noted("end")) >= 10, what="jobs have run")
        cluster.kill("a" if leader == "b" else "b")
        for job in (SWEEP, CLEANUP, SWEEP):
            run = await requested_run(cluster, job)
            assert run.state is RunState.SUCCEEDED, run.error
        report = await cluster.service.backends.store_admin.report()
        assert report is not None
        assert [f"{one.kind} {one.where}" for one in report.findings] == []
        assert report.checked["runs"] >= 10
        assert (await cluster.proof(since)).holds
