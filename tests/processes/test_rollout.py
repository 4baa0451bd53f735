"""A new version of the users' code, node by node: a new job waits for a node that has it, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from cronflow.domain.job import Job, Overlap, PythonTarget
from cronflow.domain.run import Outcome, RunState
from cronflow.domain.schedule.kinds import Every
from tests.children import ROOT
from tests.processes.conftest import Processes, process_cluster
from tests.waiting import eventually

pytestmark = pytest.mark.chaos

OLD = """
from cronflow import App

app = App("ledger")


@app.job(every="1s", overlap="allow")
def tick(): ...
"""
NEW = f"{OLD}\n\n@app.job(every='1s', overlap='allow')\ndef close_books(): ...\n"


def deploy(cluster: Processes, version: str, code: str) -> None:
    """From now on, nodes start with this version."""
    folder = cluster.folder / version
    folder.mkdir()
    (folder / "ledger.py").write_text(code, "utf-8")
    cluster.limits |= {
        "CRONFLOW_APP": "ledger:app",
        "CRONFLOW_LABELS": f"version={version}",
        "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
    }


def job(name: str, function: str, **more: object) -> Job:
    return Job(name=name, target=PythonTarget(f"ledger:{function}"), **more)  # type: ignore[arg-type]


async def test_nodes_are_replaced_one_by_one_without_a_dead_letter_or_a_lost_run(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster:
        deploy(cluster, "v1", OLD)
        await cluster.up("a", "b")
        since = await cluster.apply(
            job("tick", "tick", schedule=Every("1s"), overlap=Overlap.ALLOW),
            job("close-books", "close_books", schedule=Every("1s"), overlap=Overlap.ALLOW),
            job("on-v2", "tick", require={"version": "v2"}),
        )
        new = await cluster.service.jobs.trigger("close-books")
        labelled = await cluster.service.jobs.trigger("on-v2")

        async def waits() -> str | None:
            (run,) = await cluster.backends.runs.get([new])
            return None if run.waiting is None else str(run.waiting)

        async def names_the_function() -> bool:
            return (await waits() or "").startswith("no node has ledger:close_books; start one whose --app has it (")

        await eventually(names_the_function, what="both nodes have declined the run")
        assert "this node does not have ledger:close_books: no app of the node has it" in (await waits() or "")
        deploy(cluster, "v2", NEW)
        for name in ("a", "b"):
            child = cluster.children.pop(name)
            child.send_signal(signal.SIGTERM)
            await asyncio.to_thread(child.wait, 30)
            await cluster.up(name)
        audit = await cluster.proof(since)
        assert (audit.lost, audit.doubled) == ([], [])
        runs = {run.id: run for run in await cluster.runs()}
        assert {run.state for run in runs.values() if not run.is_open} <= {RunState.SUCCEEDED, RunState.SKIPPED}
        assert runs[new].state is RunState.SUCCEEDED
        assert runs[new].attempt == 1
        assert {attempt.outcome for attempt in runs[new].attempts} == {Outcome.DECLINED, Outcome.OK}
        assert [attempt.outcome for attempt in runs[labelled].attempts] == [Outcome.OK]
        assert await cluster.backends.dead_letters.newest(10) == []
