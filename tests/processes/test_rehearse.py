"""`cronflow rehearse` on real servers: it reads jobs and durations, and changes and executes nothing."""

from __future__ import annotations

import asyncio
import subprocess
from datetime import timedelta
from pathlib import Path

import orjson
import pytest

from cronflow.backends.clock import SystemClock
from cronflow.bootstrap.backends import open_backends
from cronflow.domain.job import CommandTarget, Job
from cronflow.domain.run import Kind, Outcome, Run, RunState, run_id
from cronflow.domain.schedule.kinds import Every
from cronflow.usecases import UseCases
from tests.children import cluster_environment, python

pytestmark = pytest.mark.chaos
SECOND = timedelta(seconds=1)


async def test_a_rehearsal_uses_the_durations_of_real_runs_and_leaves_the_cluster_alone(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    clock = SystemClock()
    # However slow the machine is, no fire is due before the rehearsal begins.
    schedule = Every("10m", anchor=clock.now().replace(microsecond=0) - 300 * SECOND)
    job = Job(name="report", target=CommandTarget("touch executed"), schedule=schedule)
    async with open_backends(redis_url, mongo_url, namespace) as backends:
        await UseCases(backends, clock).jobs.apply([job])
        now = clock.now().replace(microsecond=0)
        ended = [
            Run(
                id=run_id("report", now - timedelta(hours=n)),
                job="report",
                fire_at=now - timedelta(hours=n),
                kind=Kind.INTERVAL,
                state=RunState.SUCCEEDED,
                outcome=Outcome.OK,
                fence=n,
                term=1,
                job_ver=1,
                node="node-1#a",
                attempt=1,
                max_attempts=1,
                check_at=None,
                created_at=now - timedelta(hours=n),
                started_at=now - timedelta(hours=n),
                ended_at=now - timedelta(hours=n) + n * 60 * SECOND,
            )
            for n in range(1, 6)
        ]
        await backends.runs.insert(ended)
        [before] = await backends.jobs.get(["report"])
        done = await asyncio.create_subprocess_exec(
            *python("-m", "cronflow", "rehearse", "--until", "2h", "-o", "json"),
            cwd=tmp_path,
            env=cluster_environment(redis_url, mongo_url, namespace),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        output, errors = await done.communicate()
        assert done.returncode == 0, errors.decode()
        found = orjson.loads(output)
        assert [before] == await backends.jobs.get(["report"])
    # The median of 1 to 5 minutes; 12 fires in two hours.
    assert found["durations_from_history"] == 1
    assert found["summary"]["fires_due"] == 12
    assert {run["late_ms"] < 1000 for run in found["runs"]} == {True}
    first = found["runs"][0]
    assert (first["state"], first["fires"]) == ("succeeded", 1)
    assert not (tmp_path / "executed").exists()
