"""An executor that raises: its attempt fails with the traceback, and the node continues."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.job import Job, Overlap, PythonTarget, Retry
from cronflow.domain.run import AttemptResult, Outcome, RunState
from cronflow.ports import Assignment
from tests.node.cluster import Cluster, Recording, a_cluster


@dataclass
class Declining(Recording):
    """Raises when it is asked whether it declines."""

    async def declines(self, assignment: Assignment, node: str) -> str | None:
        """Fails for one job."""
        if assignment.job.name == "bad":
            raise LookupError("no such table")
        return None


async def check(cluster: Cluster, error: str) -> None:
    """Run a job that makes the executor raise while another one runs, and run that one again."""
    await cluster.service.jobs.apply(
        [
            Job(name=name, target=PythonTarget("jobs:any"), overlap=Overlap.ALLOW, retry=Retry(max=1, initial="1s"))
            for name in ("bad", "good")
        ]
    )
    bad = await cluster.service.jobs.trigger("bad")
    good = [await cluster.service.jobs.trigger("good")]
    await cluster.elapse(5)
    good.append(await cluster.service.jobs.trigger("good"))
    await cluster.elapse(2)
    runs = cluster.backends.documents.runs
    assert {runs[run].state for run in good} == {RunState.SUCCEEDED}
    assert (runs[bad].state, len(runs[bad].attempts)) == (RunState.FAILED, 2)
    assert runs[bad].error == f"the executor failed: {error}"
    lines = [line.text for line in await cluster.backends.logs.read(bad)]
    assert any(line.startswith("Traceback") for line in lines)
    assert any(error in line for line in lines)
    assert [task.done() for task in cluster.tasks.values()] == [False]


@pytest.mark.parametrize(
    "error", [ValueError("broken"), TimeoutError("late"), BackendUnavailable("Redis", "host", "away")]
)
async def test_an_executor_that_raises_fails_its_attempt_and_not_the_node(error: Exception) -> None:
    def result(assignment: Assignment) -> AttemptResult:
        if assignment.job.name == "bad":
            raise error
        return AttemptResult(Outcome.OK)

    async with a_cluster("a") as cluster:
        cluster.executor.attempt_result = result
        await check(cluster, f"{type(error).__name__}: {error}")


async def test_an_executor_that_cannot_say_whether_it_declines_fails_the_attempt() -> None:
    async with a_cluster() as cluster:
        cluster.executor = Declining(cluster.clock)
        cluster.start("a")
        await cluster.elapse(1)
        await check(cluster, "LookupError: no such table")
