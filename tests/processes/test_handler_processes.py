"""A node with handler processes, on real servers: what user code can do to leadership, and how everything ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cronflow.domain.job import Delivery, Job, Overlap, PythonTarget, Retry
from cronflow.domain.run import Outcome, Run, RunState
from tests.children import child_environment, python
from tests.processes.conftest import LEADER_TTL_S, Processes, process_cluster
from tests.processes.test_stopping import ended, running, runs_still
from tests.waiting import eventually

pytestmark = pytest.mark.chaos


@asynccontextmanager
async def cluster_of(
    redis_url: str, mongo_url: str, namespace: str, folder: Path, processes: int = 2
) -> AsyncIterator[Processes]:
    async with process_cluster(redis_url, mongo_url, namespace, folder) as cluster:
        cluster.limits["CRONFLOW_PROCESSES"] = str(processes)
        yield cluster


def python_job(cluster: Processes, name: str, **args: object) -> Job:
    target = PythonTarget(f"tests.processes.handlers:{name}", {"sink": str(cluster.sink), **args})
    return Job(name=name.replace("_", "-"), target=target, retry=Retry(max=0), overlap=Overlap.ALLOW)


def pids(cluster: Processes) -> list[int]:
    """The handler process and the command of the first attempt that holds the lock."""
    text = cluster.sink.read_text() if cluster.sink.exists() else ""
    found = [line.split()[1:] for line in text.splitlines(keepends=True) if line.startswith("pids") and "\n" in line]
    return [int(pid) for pid in found[0]] if found else []


async def test_a_handler_that_holds_the_interpreter_lock_takes_no_lead_no_lease_and_no_fire(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with cluster_of(redis_url, mongo_url, namespace, tmp_path) as cluster:
        await cluster.up("a")
        hog = python_job(cluster, "hold_the_lock", seconds=int(3 * LEADER_TTL_S))
        since = await cluster.apply(cluster.job("tick"), hog)
        del since["hold-the-lock"]
        run = await ended(cluster, await cluster.service.jobs.trigger("hold-the-lock"))
        assert (run.state, len(run.attempts)) == (RunState.SUCCEEDED, 1), run.error
        after = await cluster.service.cluster.status()
        assert (after.leader, after.term) == ("a", 1)
        found = await cluster.proof(since)
        assert (found.lost, found.doubled) == ([], [])
    assert "leader stepped down" not in cluster.log("a").read_text().partition("node stopping")[0]


async def test_a_handler_that_kills_its_process_fails_only_its_own_run(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with cluster_of(redis_url, mongo_url, namespace, tmp_path) as cluster:
        await cluster.up("a")
        die = python_job(cluster, "die")
        once = Job(name="die-once", target=die.target, retry=Retry(max=0), delivery=Delivery.AT_MOST_ONCE)
        again = Job(name="die-again", target=die.target, retry=Retry(max=1, initial="0s"))
        await cluster.apply(once, again, cluster.job("long", every=None, seconds=4.0))
        long = await cluster.service.jobs.trigger("long")
        await running(cluster, long)
        for job, attempts in (("die-once", 1), ("die-again", 2)):
            run = await ended(cluster, await cluster.service.jobs.trigger(job))
            assert (run.state, run.outcome, len(run.attempts)) == (RunState.FAILED, Outcome.ERROR, attempts)
            assert "its handler process was killed by SIGKILL before the function returned" in (run.error or "")
            assert len([run_id for run_id, _ in cluster.noted("start") if run_id == run.id]) == attempts
        assert (await ended(cluster, long)).state is RunState.SUCCEEDED

        async def events() -> bool:
            found = await cluster.backends.events.find(kinds=("handler_process_ended",))
            return len(found) == 3

        await eventually(events, what="an event for each process that ended")
        assert cluster.children["a"].poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_node_that_is_stopped_lets_its_handlers_finish_although_its_group_gets_the_signal(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path, number: signal.Signals
) -> None:
    async with cluster_of(redis_url, mongo_url, namespace, tmp_path) as cluster:
        await cluster.up("a")
        await cluster.apply(python_job(cluster, "hold_the_lock", seconds=2))
        run_id = await cluster.service.jobs.trigger("hold-the-lock")
        await eventually(lambda: pids(cluster), what="the handler has started")
        os.killpg(cluster.children["a"].pid, number)
        assert await asyncio.to_thread(cluster.children["a"].wait, 60) == 0
        run = await cluster.service.runs.get(run_id)
        assert (run.state, len(run.attempts)) == (RunState.SUCCEEDED, 1), run.error
        assert not any(map(runs_still, pids(cluster)))


async def test_a_handler_that_outlasts_the_drain_is_given_back_and_its_process_ended(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with cluster_of(redis_url, mongo_url, namespace, tmp_path) as cluster:
        cluster.limits["CRONFLOW_DRAIN_TIMEOUT"] = "100ms"
        await cluster.up("a")
        await cluster.apply(python_job(cluster, "hold_the_lock", seconds=300))
        run_id = await cluster.service.jobs.trigger("hold-the-lock")
        await eventually(lambda: pids(cluster), what="the handler has started")
        cluster.signal("a", signal.SIGTERM)
        assert await asyncio.to_thread(cluster.children["a"].wait, 60) == 0
        run = await cluster.service.runs.get(run_id)
        assert (run.state, [attempt.outcome for attempt in run.attempts]) == (RunState.RETRYING, [Outcome.DRAINED])
        assert "stop takes too long" not in cluster.log("a").read_text()
        assert not any(map(runs_still, pids(cluster)))


async def test_a_killed_node_takes_its_handlers_and_their_commands_with_it_and_the_run_starts_elsewhere(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with cluster_of(redis_url, mongo_url, namespace, tmp_path) as cluster:
        await cluster.up("a")
        await cluster.apply(python_job(cluster, "hold_the_lock", seconds=5))
        run_id = await cluster.service.jobs.trigger("hold-the-lock")
        await running(cluster, run_id)
        found = await eventually(lambda: pids(cluster), what="the handler has started")
        cluster.kill("a")
        await eventually(lambda: not any(map(runs_still, found)), what="the end of the handler and its command")
        await cluster.up("b")
        run: Run = await ended(cluster, run_id)
        assert run.state is RunState.SUCCEEDED
        assert [attempt.outcome for attempt in run.attempts] == [Outcome.LOST, Outcome.OK]


def test_apps_that_cannot_be_loaded_end_the_node_before_it_contacts_a_server(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("raise RuntimeError('no licence')\n")
    environment = child_environment(
        CRONFLOW_REDIS_URL="redis://127.0.0.1:1/0", CRONFLOW_MONGO_URL="mongodb://127.0.0.1:1"
    )
    words = python("-m", "cronflow", "node", "--processes", "2", "--app", "shop:app", "--app", "nowhere_at_all:app")
    ended = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=90)
    assert ended.returncode == 2
    errors = [line for line in ended.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 2
    assert "shop.py:1: RuntimeError: no licence" in errors[0]
    assert "nowhere_at_all" in errors[1]
