"""The executor of the system's own jobs."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.job import Job, PythonTarget, SystemTarget
from cronflow.domain.run import Outcome
from cronflow.executors.simulated import WithSimulatedFailures, always_failing
from cronflow.executors.system import SystemExecutor
from cronflow.ports import Assignment, LineSink
from tests.executors import Lines, assignment


def asked_for(piece: str, timeout: str = "20s") -> Assignment:
    base = assignment(PythonTarget("a:b"), timeout=timeout)
    job = Job(name=f"_sys:{piece}", target=SystemTarget(piece), timeout=base.job.timeout)
    return replace(base, job=job)


async def sound(assignment: Assignment, emit: LineSink) -> object:
    emit("info", f"term {assignment.term}")
    return {"found": 0}


async def away(_assignment: Assignment, _emit: LineSink) -> object:
    raise BackendUnavailable("MongoDB", "db:27017", "gone")


async def broken(_assignment: Assignment, _emit: LineSink) -> object:
    raise KeyError("rev")


async def keys_without_ttl(_assignment: Assignment, _emit: LineSink) -> object:
    return await asyncio.get_running_loop().create_future()


EXECUTOR = SystemExecutor({"sound": sound, "away": away, "broken": broken, "endless": keys_without_ttl})


async def test_a_piece_runs_with_its_assignment_and_its_result_is_the_runs() -> None:
    lines = Lines()
    attempt_result = await EXECUTOR.run(asked_for("sound"), "node-1", lines)
    assert (attempt_result.outcome, attempt_result.result) == (Outcome.OK, {"found": 0})
    assert lines.all == [("info", "term 3")]


@pytest.mark.parametrize(
    ("piece", "timeout", "outcome", "error"),
    [
        ("away", "20s", Outcome.ERROR, "MongoDB at db:27017 is unavailable: gone"),
        ("broken", "20s", Outcome.ERROR, "KeyError: 'rev'"),
        ("endless", "20ms", Outcome.TIMEOUT, "timed out after 20ms"),
        ("unheard-of", "20s", Outcome.ERROR, "node node-1 has no system job unheard-of"),
    ],
)
async def test_what_goes_wrong_is_the_end_of_the_attempt_and_not_of_the_node(
    piece: str, timeout: str, outcome: Outcome, error: str
) -> None:
    lines = Lines()
    attempt_result = await EXECUTOR.run(asked_for(piece, timeout), "node-1", lines)
    assert (attempt_result.outcome, attempt_result.error) == (outcome, error)
    assert bool(lines.of("error")) is (piece == "broken")


async def test_cancelling_it_stops_the_piece() -> None:
    task = asyncio.create_task(EXECUTOR.run(asked_for("endless"), "node-1", Lines()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_simulated_failures_spare_the_system_jobs() -> None:
    executor = WithSimulatedFailures(EXECUTOR, always_failing)
    assert (await executor.run(asked_for("sound"), "node-1", Lines())).outcome is Outcome.OK
    other = await executor.run(assignment(PythonTarget("a:b")), "node-1", Lines())
    assert (other.outcome, other.error_classes[0].rpartition(".")[2]) == (Outcome.ERROR, "SimulatedFailure")
