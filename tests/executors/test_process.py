"""Python functions in child processes of their own, on real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from cronflow import App, Context
from cronflow.domain.job import PythonTarget
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.executors.python import PythonExecutor, PythonTargets
from tests.executors import FENCE, RUN, Lines, assignment, is_running, timed_out
from tests.executors.endings import CLASSES, ENDINGS, end
from tests.waiting import eventually

app = App("apart")


@app.job(process=True)
def tells(ctx: Context, region: str = "eu") -> dict[str, object]:
    print("printed")
    print("complained", file=sys.stderr)
    for part in ctx.progress(["a", "b"]):
        ctx.log.info("built", part=part)
    facts = {name: value for name, value in os.environ.items() if name.startswith(("CRONFLOW_RUN_ID", "RETRY_COUNT"))}
    return {"region": region, "pid": os.getpid(), "run": ctx.run_id, "fence": ctx.fence, **facts}


@app.job(process=True)
def names_its_environment() -> list[str]:
    return [name for name in os.environ if name.startswith(("CRONFLOW_", "SHOP_"))]


@app.job(process=True)
def shows_its_memory() -> bool:
    return "PATH" in Path("/proc/self/environ").read_text()


@app.job(process=True)
async def tells_from_a_loop(ctx: Context) -> str:
    await asyncio.sleep(0)
    return ctx.idempotency_key


@app.job(process=True)
def ends(how: str) -> object:
    end(how)
    match how:
        case "leave":
            os._exit(4)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
    return {1, 2}


@app.job(process=True)
def holds_the_interpreter(note: str) -> None:
    leave(note, f"{os.getpid()} {subprocess.Popen(['sleep', '300']).pid}")
    while True:
        time.sleep(0.01)


@app.job(process=True)
async def waits_in_a_loop(note: str) -> None:
    leave(note, str(os.getpid()))
    try:
        await asyncio.sleep(300)
    finally:
        leave(note, "cleaned up")


def leave(note: str, text: str) -> None:
    Path(note).write_text(text)


@app.job(process=True)
def looks(ctx: Context, note: str) -> str:
    Path(note).write_text(str(os.getpid()))
    while not ctx.cancelled:
        time.sleep(0.01)
    Path(note).write_text("saw it")
    return "stopped"


@pytest.fixture
async def executor() -> AsyncIterator[PythonExecutor]:
    async with PythonExecutor(PythonTargets([app]), grace_s=5.0) as executor:
        yield executor


def target(name: str, **args: object) -> PythonTarget:
    return PythonTarget(f"{__name__}:{name}", args, process=True)


async def run(executor: PythonExecutor, name: str, **args: object) -> tuple[AttemptResult, Lines]:
    lines = Lines()
    return await executor.run(assignment(target(name, **args)), "node-1", lines), lines


async def test_the_function_runs_in_another_process_with_the_facts_of_its_run(executor: PythonExecutor) -> None:
    attempt_result, lines = await run(executor, "tells", region="us")
    assert attempt_result.outcome is Outcome.OK
    assert isinstance(attempt_result.result, dict)
    assert attempt_result.result.pop("pid") != os.getpid()
    assert attempt_result.result == {
        "region": "us",
        "run": RUN,
        "fence": FENCE,
        "CRONFLOW_RUN_ID": RUN,
        "RETRY_COUNT": "0",
    }
    assert sorted(lines.of("info")) == ["built part=a", "built part=b", "printed"]
    assert lines.of("warn") == ["complained"]
    assert lines.of("progress") == ["0/2", "2/2"]


async def test_it_hides_its_environment_from_commands_of_the_same_user(executor: PythonExecutor) -> None:
    attempt_result, _ = await run(executor, "shows_its_memory")
    assert attempt_result == AttemptResult(Outcome.OK, result=False)


async def test_it_inherits_the_environment_without_the_settings_of_the_node(
    executor: PythonExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRONFLOW_SECRETS_KEY", "sealed")
    monkeypatch.setenv("SHOP_URL", "http://shop")
    attempt_result, _ = await run(executor, "names_its_environment")
    facts = {"RUN_ID", "JOB", "FIRE_AT", "ATTEMPT", "FENCE", "IDEMPOTENCY_KEY", "CHAIN_ID"}
    assert isinstance(attempt_result.result, list)
    assert {*attempt_result.result} == {"SHOP_URL", *(f"CRONFLOW_{name}" for name in facts)}


async def test_a_coroutine_function_gets_a_loop_of_its_own(executor: PythonExecutor) -> None:
    attempt_result, _ = await run(executor, "tells_from_a_loop")
    assert attempt_result == AttemptResult(Outcome.OK, result=RUN)


@pytest.mark.parametrize(
    ("how", "outcome", "told"),
    [
        *ENDINGS,
        ("leave", Outcome.ERROR, "its process ended with exit code 4 before the function returned"),
        ("kill", Outcome.ERROR, "its process was killed by SIGKILL before the function returned"),
        ("returns a set", Outcome.PERMANENT, "not JSON"),
    ],
)
async def test_its_error_is_carried_back(executor: PythonExecutor, how: str, outcome: Outcome, told: str) -> None:
    attempt_result, _ = await run(executor, "ends", how=how)
    assert attempt_result.outcome is outcome
    assert told in (attempt_result.error or "")
    assert attempt_result.delay == (timedelta(minutes=7) if how == "later" else None)


async def test_the_traceback_shows_the_function_and_not_the_executor(executor: PythonExecutor) -> None:
    attempt_result, _ = await run(executor, "ends", how="error")
    assert "in ends" in (attempt_result.error or "")
    assert "executors" not in (attempt_result.error or "").replace("tests/executors", "")


async def test_at_its_timeout_it_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    note = tmp_path / "pids"
    endless = target("holds_the_interpreter", note=str(note))
    async with PythonExecutor(PythonTargets([app]), grace_s=0.2) as executor:
        await timed_out(
            lambda timeout: executor.run(assignment(endless, timeout=timeout), "node-1", Lines()),
            lambda: note.exists() and note.read_text(),
        )
    pids = [int(pid) for pid in note.read_text().split()]
    await eventually(lambda: not any(map(is_running, pids)), what="the end of the group")


@pytest.mark.parametrize(("name", "left"), [("waits_in_a_loop", "cleaned up"), ("looks", "saw it")])
async def test_a_cancellation_reaches_the_function(
    executor: PythonExecutor, tmp_path: Path, name: str, left: str
) -> None:
    note = tmp_path / "note"
    attempt = asyncio.create_task(executor.run(assignment(target(name, note=str(note))), "node-1", Lines()))
    pid = int(await eventually(lambda: note.exists() and note.read_text(), what="the start"))
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert note.read_text() == left
    assert not is_running(pid)


async def test_a_function_that_is_not_allowed_is_not_started(executor: PythonExecutor) -> None:
    attempt_result = await executor.run(assignment(PythonTarget("os:getpid", process=True)), "node-1", Lines())
    assert attempt_result.outcome is Outcome.PERMANENT
    assert "not in ALLOW_PYTHON" in (attempt_result.error or "")


@pytest.mark.parametrize(("how", "classes"), CLASSES)
async def test_the_classes_of_its_error_are_carried_back(
    executor: PythonExecutor, how: str, classes: tuple[str, ...]
) -> None:
    attempt_result, _ = await run(executor, "ends", how=how)
    assert attempt_result.error_classes == classes


def test_it_imports_no_more_than_it_needs_because_each_attempt_starts_one() -> None:
    script = "import sys, cronflow.executors.child; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60).stdout
    needless = {"cronflow.ports", "cronflow.domain.events", "cronflow.config", "structlog", "pymongo", "redis"}
    assert "cronflow.context" in out.split()
    assert needless.isdisjoint(out.split())
