"""Stopping on real processes and servers: a cancelled command, a drained node, a killed worker."""

from __future__ import annotations

import asyncio
import json
import signal
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cronflow.domain.cluster import node_name
from cronflow.domain.job import CommandTarget
from cronflow.domain.run import Outcome, Run, RunState
from tests.children import cluster_environment, python
from tests.processes.conftest import Processes, process_cluster
from tests.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.chaos


async def running(cluster: Processes, run_id: str) -> Run:
    """Wait until the run is recorded as running."""

    async def found() -> Run | None:
        run = await cluster.service.runs.get(run_id)
        return run if run.state is RunState.RUNNING else None

    run = await eventually(found, what="the run is recorded as running")
    assert run is not None
    return run


async def ended(cluster: Processes, run_id: str, timeout: float = PATIENCE_S) -> Run:
    """Wait until the run has ended."""

    async def found() -> Run | None:
        run = await cluster.service.runs.get(run_id)
        return None if run.is_open else run

    run = await eventually(found, timeout, "the run has ended")
    assert run is not None
    return run


def runs_still(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


async def cronflow(cluster: Processes, *words: str) -> dict[str, object]:
    """Run a command and return its JSON output."""
    environment = cluster_environment(cluster.redis_url, cluster.mongo_url, cluster.namespace)
    child = await asyncio.create_subprocess_exec(
        *python("-m", "cronflow", *words, "-o", "json"), env=environment, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await child.communicate()
    assert child.returncode == 0, out
    answer: dict[str, object] = json.loads(out)
    return answer


async def test_a_cancelled_command_is_stopped_with_its_child_processes(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster:
        await cluster.up("a", "b")
        pids = tmp_path / "pids"
        # A child that ignores SIGTERM, and a grandchild.
        child = f"trap '' TERM; echo $$ >>{pids}; (echo $(exec sh -c 'echo $PPID') >>{pids}; sleep 300); sleep 300"
        job = cluster.job("stubborn", every=None)
        target = CommandTarget(f'sh -c "{child.replace("$", chr(92) + "$")}" & echo $$ >>{pids}; wait; sleep 300')
        await cluster.apply(replace(job, target=target))
        run_id = await cluster.service.jobs.trigger("stubborn")
        await running(cluster, run_id)
        await eventually(
            lambda: pids.exists() and len(set(pids.read_text().split())) == 3, what="all three have started"
        )
        started = [int(pid) for pid in pids.read_text().split()]
        assert all(runs_still(pid) for pid in started)
        answer = await cronflow(cluster, "runs", "show", run_id)
        assert answer["state"] == "running"
        await cluster.service.runs.cancel(run_id, "too slow", by="ada")
        run = await ended(cluster, run_id)
        assert (run.state, run.outcome, run.reason) == (
            RunState.CANCELLED,
            Outcome.CANCELLED,
            "cancelled by ada: too slow",
        )
        assert [pid for pid in started if runs_still(pid)] == []


async def test_draining_waits_for_running_jobs_and_returns_the_rest(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster:
        leader = await cluster.up("a", "b")
        since = await cluster.apply(cluster.job("tick"), cluster.job("long", every=None, seconds=6.0))
        run_id = await cluster.service.jobs.trigger("long")
        name = node_name((await running(cluster, run_id)).node or "")
        answer = await cronflow(cluster, "nodes", "drain", name, "--wait")
        assert answer == {"name": name, "draining": True, "drained": True, "until": None}
        run = await cluster.service.runs.get(run_id)
        assert (run.state, node_name(run.node or "")) == (RunState.SUCCEEDED, name)
        if leader == name:
            await cluster.new_leader(name)
        drained_at = datetime.now(UTC)

        async def later() -> list[Run]:
            done = [run for run in await cluster.runs() if run.state is RunState.SUCCEEDED]
            return [run for run in done if run.fire_at > drained_at]

        async def enough() -> bool:
            return len(await later()) >= 3

        await eventually(enough, what="fires run elsewhere")
        assert name not in {node_name(run.node or "") for run in await later()}
        await cronflow(cluster, "nodes", "undrain", name)

        async def back() -> bool:
            return name in {node_name(run.node or "") for run in await later()}

        await eventually(back, what="the node accepts runs again")
        found = await cluster.proof(since)
        assert (found.lost, found.doubled) == ([], [])


async def test_a_run_whose_worker_is_killed_after_a_cancel_request_ends_as_cancelled(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster:
        leader = await cluster.up("a", "b", "c")
        await cluster.apply(cluster.job("long", every=None, seconds=2.0))
        run_id = await cluster.service.jobs.trigger("long")
        name = node_name((await running(cluster, run_id)).node or "")
        # Stopped first, so that it does not receive the cancellation.
        cluster.signal(name, signal.SIGSTOP)
        asked = await cluster.service.runs.cancel(run_id, "", by="ada")
        assert (asked.state, asked.cancel_requested) == (RunState.RUNNING, True)
        cluster.kill(name)
        if name == leader:
            await cluster.new_leader(leader)
        run = await ended(cluster, run_id)
        assert (run.state, run.reason) == (RunState.CANCELLED, "cancelled by ada")
        assert [attempt.outcome for attempt in run.attempts] == [Outcome.LOST]
        assert len(cluster.noted("start")) == 1
