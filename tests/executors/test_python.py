"""How Python functions are found, called and stopped. The functions of the App below stand for a user's jobs."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cronflow import App, Context, PermanentError, RetryLater, Skip
from cronflow.domain.job import PythonTarget
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.executors.by_target import Executors
from cronflow.executors.handlers import MAX_RESULT_BYTES, failed
from cronflow.executors.prints import LONGEST_LINE, captured, capturing_prints
from cronflow.executors.python import PythonExecutor, PythonTargets
from tests.executors import FENCE, RUN, Lines, assignment
from tests.executors.endings import CLASSES, end
from tests.waiting import PATIENCE_S, eventually

app = App("shop")


class Probe:
    """What the jobs below tell the tests."""

    def __init__(self) -> None:
        self.context: Context | None = None
        self.thread: threading.Thread | None = None
        self.began = threading.Event()
        self.let_go = threading.Event()


probe = Probe()


@pytest.fixture(autouse=True)
def _fresh_probe() -> Iterator[None]:
    global probe
    probe = Probe()
    yield
    probe.let_go.set()


@dataclass
class Report:
    rows: int
    at: datetime


@app.job()
async def in_the_loop(ctx: Context, region: str = "eu") -> dict[str, object]:
    probe.context, probe.thread = ctx, threading.current_thread()
    ctx.log.info("building", region=region)
    return {"region": region}


@app.job()
def in_a_thread(ctx: Context, region: str = "eu") -> dict[str, object]:
    probe.context, probe.thread = ctx, threading.current_thread()
    for part in ctx.progress(["a", "b"]):
        ctx.log.info("built", part=part)
    return {"region": region}


@app.job()
def changes_its_args(ctx: Context, rows: list[dict[str, int]]) -> list[dict[str, int]]:
    ctx.args["rows"].append({"n": len(rows)})  # type: ignore[attr-defined]
    rows[0]["n"] += 1
    return rows


@app.job()
async def without_context(rows: int = 1) -> Report:
    return Report(rows, datetime(2026, 11, 21, tzinfo=UTC))


@app.job()
async def another_first_name(context: Context) -> str:
    return context.run_id


@app.job()
async def fails() -> None:
    def innermost() -> None:
        raise ValueError("no rows")

    innermost()


@app.job()
async def fails_for_good() -> None:
    raise PermanentError("the account is closed")


@app.job()
def wants_another_time() -> None:
    raise RetryLater(timedelta(minutes=7), "the shop is busy")


@app.job()
async def has_nothing_to_do() -> None:
    raise Skip("a holiday")


@app.job()
async def leaves(code: int = 0) -> None:
    sys.exit(code)


@app.job()
async def cancels_itself() -> None:
    raise asyncio.CancelledError("mine")


@app.job()
async def returns(size: int = 0, odd: bool = False) -> object:
    return {1, 2} if odd else "x" * size


@app.job()
def returns_a_coroutine() -> object:
    return without_context()


@app.job()
async def sleeps() -> None:
    probe.began.set()
    await asyncio.sleep(1000)


@app.job()
async def cleans_up(ctx: Context) -> None:
    probe.began.set()
    try:
        await asyncio.sleep(1000)
    finally:
        await asyncio.sleep(0.01)
        ctx.log.info("cleaned up", cancelled=ctx.cancelled)


@app.job()
async def swallows_cancellation(ctx: Context) -> None:
    ctx.heartbeat()
    probe.began.set()
    while not probe.let_go.is_set():
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            ctx.log.info("not me")
    ctx.log.info("words after the end")


@app.job()
def blocks(ctx: Context) -> None:
    probe.began.set()
    probe.let_go.wait(60)
    ctx.log.info("words after the end")


@app.job()
def looks_at_cancelled(ctx: Context) -> None:
    probe.began.set()
    while not ctx.cancelled:
        probe.let_go.wait(0.01)
    ctx.log.info("seen")


@app.job()
async def spins(ctx: Context) -> None:
    async for _ in ctx.progress(range(1_000_000_000)):
        pass


def target(function: object, **args: object) -> PythonTarget:
    return PythonTarget(f"{__name__}:{getattr(function, '__name__', function)}", args)


@pytest.fixture
async def executor() -> AsyncIterator[PythonExecutor]:
    async with PythonExecutor(PythonTargets([app]), threads=2, grace_s=0.2) as executor:
        yield executor


async def test_a_coroutine_function_runs_in_the_loop_with_its_context(executor: PythonExecutor) -> None:
    lines = Lines()
    attempt_result = await executor.run(assignment(target(in_the_loop, region="us"), attempt=2), "node-1", lines)
    assert attempt_result == AttemptResult(Outcome.OK, result={"region": "us"})
    assert probe.thread is threading.current_thread()
    assert lines.all == [("info", "building region=us")]
    context = probe.context
    assert context is not None
    assert (context.run_id, context.job, context.attempt, context.fence) == (RUN, "demo", 2, FENCE)
    assert (context.node, context.idempotency_key) == ("node-1", RUN)
    assert context.fire_at == datetime(2026, 11, 21, 2, tzinfo=UTC)
    assert context.args == {"region": "us"}
    assert not context.cancelled


async def test_a_plain_function_runs_in_a_thread_and_its_lines_arrive_in_order(executor: PythonExecutor) -> None:
    loop_thread = threading.get_ident()
    arrivals: list[int] = []
    lines = Lines()

    def sink(level: str, text: str) -> None:
        arrivals.append(threading.get_ident())
        lines(level, text)

    attempt_result = await executor.run(assignment(target(in_a_thread)), "node-1", sink)
    assert attempt_result == AttemptResult(Outcome.OK, result={"region": "eu"})
    assert probe.thread is not threading.current_thread()
    assert lines.all == [
        ("progress", "0/2"),
        ("info", "built part=a"),
        ("info", "built part=b"),
        ("progress", "2/2"),
    ]
    assert set(arrivals) == {loop_thread}
    assert executor.busy_threads == 0


async def test_the_cpu_time_of_a_plain_function_is_that_of_its_thread(executor: PythonExecutor) -> None:
    found = await executor.run(assignment(target(in_a_thread)), "node-1", Lines())
    assert found.used is not None
    assert found.used.cpu_s > 0
    assert found.used.memory is None


async def test_a_function_that_changes_its_args_changes_those_of_no_other_run(executor: PythonExecutor) -> None:
    # Runs share the definition of their job, and jobs that differ only in name share it too.
    given = assignment(target(changes_its_args, rows=[{"n": 1}]))
    for _ in range(2):
        attempt_result = await executor.run(given, "node-1", Lines())
        assert attempt_result.result == [{"n": 2}, {"n": 1}]


class Wordless(PermanentError):
    """An exception of a job whose text cannot be had."""

    def __str__(self) -> str:
        return 5  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Skip(ValueError("a holiday")), "a holiday"),  # type: ignore[arg-type]
        (Skip(5), "5"),  # type: ignore[arg-type]
        (RetryLater(1, 5), "5"),  # type: ignore[arg-type]
        (PermanentError(5), "5"),
        (Wordless(), "<Wordless that has no text>"),
    ],
    ids=["exception", "number", "retry", "permanent", "wordless"],
)
def test_the_reason_of_a_function_becomes_text_whatever_it_is(error: Exception, text: str) -> None:
    assert failed(error).error == text


async def test_the_arguments_of_the_run_win_over_those_of_the_job(executor: PythonExecutor) -> None:
    given = assignment(target(in_the_loop, region="us"), args={"region": "jp"})
    assert (await executor.run(given, "node-1", Lines())).result == {"region": "jp"}


async def test_a_function_without_a_context_gets_none_and_its_dataclass_becomes_json(executor: PythonExecutor) -> None:
    attempt_result = await executor.run(assignment(target(without_context, rows=42)), "node-1", Lines())
    assert attempt_result.result == {"rows": 42, "at": "2026-11-21T00:00:00+00:00"}


async def test_the_annotation_is_enough_to_get_the_context(executor: PythonExecutor) -> None:
    assert (await executor.run(assignment(target(another_first_name)), "node-1", Lines())).result == RUN


@pytest.mark.parametrize("args", [{"regoin": "eu"}, {"ctx": 1}])
async def test_arguments_that_do_not_fit_fail_for_good(executor: PythonExecutor, args: dict[str, object]) -> None:
    attempt_result = await executor.run(assignment(target(in_the_loop), args=args), "node-1", Lines())
    assert attempt_result.outcome is Outcome.PERMANENT
    assert next(iter(args)) in (attempt_result.error or "")
    assert "it takes region" in (attempt_result.error or "")
    assert probe.context is None


async def test_an_exception_is_an_error_with_the_frames_of_the_handler_alone(executor: PythonExecutor) -> None:
    attempt_result = await executor.run(assignment(target(fails)), "node-1", Lines())
    assert attempt_result.outcome is Outcome.ERROR
    error = attempt_result.error or ""
    assert error.startswith("ValueError: no rows\n")
    assert "in innermost" in error
    assert "executors/python.py" not in error


async def test_a_permanent_error_ends_the_run_for_good(executor: PythonExecutor) -> None:
    attempt_result = await executor.run(assignment(target(fails_for_good)), "node-1", Lines())
    assert attempt_result == AttemptResult(Outcome.PERMANENT, error="the account is closed")


async def test_a_handler_may_choose_the_delay_before_the_next_attempt(executor: PythonExecutor) -> None:
    attempt_result = await executor.run(assignment(target(wants_another_time)), "node-1", Lines())
    assert attempt_result == AttemptResult(Outcome.ERROR, error="the shop is busy", delay=timedelta(minutes=7))


async def test_a_skip_ends_as_skipped_with_its_reason(executor: PythonExecutor) -> None:
    attempt_result = await executor.run(assignment(target(has_nothing_to_do)), "node-1", Lines())
    assert attempt_result == AttemptResult(Outcome.SKIPPED, error="a holiday")


async def test_a_handler_that_exits_does_not_take_the_node_with_it(executor: PythonExecutor) -> None:
    good = await executor.run(assignment(target(leaves)), "node-1", Lines())
    bad = await executor.run(assignment(target(leaves, code=3)), "node-1", Lines())
    assert good.outcome is Outcome.OK
    assert bad.outcome is Outcome.ERROR
    assert (bad.error or "").startswith("SystemExit: 3")


async def test_a_handler_that_cancels_itself_has_failed(executor: PythonExecutor) -> None:
    attempt_result = await executor.run(assignment(target(cancels_itself)), "node-1", Lines())
    assert attempt_result.outcome is Outcome.ERROR
    assert "CancelledError: mine" in (attempt_result.error or "")


async def test_a_result_may_have_four_mib_and_no_more(executor: PythonExecutor) -> None:
    quotes = 2
    fits = await executor.run(assignment(target(returns, size=MAX_RESULT_BYTES - quotes)), "node-1", Lines())
    too_large = await executor.run(assignment(target(returns, size=MAX_RESULT_BYTES - quotes + 1)), "node-1", Lines())
    assert fits.outcome is Outcome.OK
    assert too_large.outcome is Outcome.PERMANENT
    assert too_large.result is None
    assert "4,194,305 bytes" in (too_large.error or "")
    assert "4,194,304" in (too_large.error or "")


async def test_a_result_that_is_not_json_fails_for_good(executor: PythonExecutor) -> None:
    attempt_result = await executor.run(assignment(target(returns, odd=True)), "node-1", Lines())
    assert attempt_result.outcome is Outcome.PERMANENT
    assert "set, is not JSON" in (attempt_result.error or "")


async def test_a_plain_function_that_returns_a_coroutine_fails_with_a_remedy(executor: PythonExecutor) -> None:
    attempt_result = await executor.run(assignment(target(returns_a_coroutine)), "node-1", Lines())
    assert attempt_result.outcome is Outcome.PERMANENT
    assert "async def" in (attempt_result.error or "")


async def test_a_coroutine_function_is_cancelled_at_its_timeout_and_may_clean_up(executor: PythonExecutor) -> None:
    lines = Lines()
    attempt_result = await executor.run(assignment(target(cleans_up), timeout="50ms"), "node-1", lines)
    assert attempt_result == AttemptResult(Outcome.TIMEOUT, error="timed out after 50ms")
    assert lines.all == [("info", "cleaned up cancelled=True")]


async def test_a_loop_over_progress_that_awaits_nothing_can_still_be_timed_out(executor: PythonExecutor) -> None:
    lines = Lines()
    attempt_result = await executor.run(assignment(target(spins), timeout="50ms"), "node-1", lines)
    assert attempt_result.outcome is Outcome.TIMEOUT
    assert lines.all[0] == ("progress", "0/1000000000")


async def test_a_coroutine_function_that_swallows_its_cancellation_is_left_behind(executor: PythonExecutor) -> None:
    lines = Lines()
    attempt_result = await executor.run(assignment(target(swallows_cancellation), timeout="50ms"), "node-1", lines)
    assert attempt_result.outcome is Outcome.TIMEOUT
    (error,) = lines.of("error")
    assert "swallows its cancellation" in error
    assert "last heartbeat" in error
    assert lines.of("info") == ["not me"]
    probe.let_go.set()
    await eventually(lambda: not [task for task in asyncio.all_tasks() if "attempt" in task.get_name()])
    assert lines.of("info") == ["not me"]


async def test_an_abandoned_thread_is_logged_and_counted_until_it_ends(executor: PythonExecutor) -> None:
    lines = Lines()
    attempt_result = await executor.run(assignment(target(blocks), timeout="50ms"), "node-1", lines)
    assert attempt_result.outcome is Outcome.TIMEOUT
    assert "still running" in lines.of("error")[0]
    assert executor.busy_threads == 1
    probe.let_go.set()
    await eventually(lambda: executor.busy_threads == 0)
    assert lines.of("info") == []


async def test_a_thread_that_looks_at_cancelled_ends_in_time(executor: PythonExecutor) -> None:
    lines = Lines()
    attempt_result = await executor.run(assignment(target(looks_at_cancelled), timeout="50ms"), "node-1", lines)
    assert attempt_result.outcome is Outcome.TIMEOUT
    assert lines.all == [("info", "seen")]
    assert executor.busy_threads == 0


async def test_threads_left_behind_are_not_replaced_by_more(executor: PythonExecutor) -> None:
    for _ in range(2):
        await executor.run(assignment(target(blocks), timeout="10ms"), "node-1", Lines())
    attempt_result = await executor.run(assignment(target(in_a_thread), timeout="50ms"), "node-1", Lines())
    assert attempt_result.outcome is Outcome.TIMEOUT
    assert "no thread was free" in (attempt_result.error or "")
    assert probe.thread is None
    probe.let_go.set()
    assert (await executor.run(assignment(target(in_a_thread)), "node-1", Lines())).outcome is Outcome.OK


async def test_threads_are_used_again_and_end_with_the_executor() -> None:
    async with PythonExecutor(PythonTargets([app]), threads=4) as executor:
        used = set()
        for _ in range(3):
            await executor.run(assignment(target(in_a_thread)), "node-1", Lines())
            used.add(probe.thread)
    (thread,) = used
    assert thread is not None
    assert thread.daemon, "a handler that never ends must not keep the process"
    await eventually(lambda: not thread.is_alive())


@pytest.mark.parametrize("job", [cleans_up, looks_at_cancelled])
async def test_a_cancellation_stops_the_handler_before_it_goes_on(executor: PythonExecutor, job: object) -> None:
    lines = Lines()
    attempt = asyncio.create_task(executor.run(assignment(target(job)), "node-1", lines))
    await eventually(probe.began.is_set)
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert lines.of("info") in (["cleaned up cancelled=True"], ["seen"])


async def test_a_cancellation_does_not_wait_for_ever(executor: PythonExecutor) -> None:
    lines = Lines()
    attempt = asyncio.create_task(executor.run(assignment(target(blocks)), "node-1", lines))
    await eventually(probe.began.is_set)
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(attempt, PATIENCE_S)
    assert "does not check ctx.cancelled" in lines.of("error")[0]


async def test_the_executor_can_be_closed_while_a_handler_still_runs() -> None:
    async with PythonExecutor(PythonTargets([app]), grace_s=0.01) as executor:
        for job in (blocks, sleeps):
            await executor.run(assignment(target(job), timeout="10ms"), "node-1", Lines())
        began = time.monotonic()
    assert time.monotonic() - began < PATIENCE_S


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package that no App knows, fresh for each test."""
    name = f"package_{tmp_path.name.replace('-', '_')}"
    root = tmp_path / name
    root.mkdir()
    (root / "__init__.py").write_text("")
    (root / "jobs.py").write_text("import os\nfrom os import system\nasync def work(n=1):\n    return n\n")
    (root / "broken.py").write_text("def work():\n    pass\nraise RuntimeError('no licence')\n")
    monkeypatch.syspath_prepend(tmp_path)
    return name


async def test_a_function_outside_the_apps_may_not_be_called(executor: PythonExecutor, package: str) -> None:
    for ref in (f"{package}.jobs:work", "os:getcwd", f"{__name__}:target"):
        attempt_result = await executor.run(assignment(PythonTarget(ref)), "node-1", Lines())
        assert attempt_result.outcome is Outcome.PERMANENT
        assert "ALLOW_PYTHON" in (attempt_result.error or "")
    assert f"{package}.jobs" not in sys.modules


async def test_functions_of_allowed_modules_may_be_called(package: str) -> None:
    for allowed in (package, f"{package}.jobs"):
        async with PythonExecutor(PythonTargets(allowed_modules=[allowed])) as executor:
            attempt_result = await executor.run(
                assignment(PythonTarget(f"{package}.jobs:work", {"n": 2})), "node-1", Lines()
            )
        assert attempt_result == AttemptResult(Outcome.OK, result=2)


@pytest.mark.parametrize("name", ["system", "os.system", "work.__init__", "work.__globals__.clear"])
async def test_an_allowed_module_is_no_way_to_the_modules_it_imports(package: str, name: str) -> None:
    async with PythonExecutor(PythonTargets(allowed_modules=[package])) as executor:
        attempt_result = await executor.run(assignment(PythonTarget(f"{package}.jobs:{name}")), "node-1", Lines())
    assert attempt_result.outcome is Outcome.PERMANENT
    assert "ALLOW_PYTHON" in (attempt_result.error or "")


async def test_a_longer_name_that_begins_like_an_allowed_one_is_not_allowed(package: str) -> None:
    async with PythonExecutor(PythonTargets(allowed_modules=[package[:-1]])) as executor:
        attempt_result = await executor.run(assignment(PythonTarget(f"{package}.jobs:work")), "node-1", Lines())
    assert "ALLOW_PYTHON" in (attempt_result.error or "")


@pytest.mark.parametrize("name", ["nothing:work", "jobs:nothing", "jobs:work.nothing"])
async def test_a_function_that_does_not_exist_fails_for_good(package: str, name: str) -> None:
    async with PythonExecutor(PythonTargets(allowed_modules=[package])) as executor:
        attempt_result = await executor.run(assignment(PythonTarget(f"{package}.{name}")), "node-1", Lines())
    assert attempt_result.outcome is Outcome.PERMANENT
    assert f"this node does not have {package}.{name}: " in (attempt_result.error or "")


async def test_a_module_that_cannot_be_imported_now_may_be_later(package: str) -> None:
    async with PythonExecutor(PythonTargets(allowed_modules=[package])) as executor:
        attempt_result = await executor.run(assignment(PythonTarget(f"{package}.broken:work")), "node-1", Lines())
    assert attempt_result.outcome is Outcome.ERROR
    assert "RuntimeError: no licence" in (attempt_result.error or "")


async def test_the_executor_is_chosen_by_the_target_and_opened_and_closed_with_the_others() -> None:
    events: list[str] = []

    class Lifetime(PythonExecutor):
        async def __aenter__(self) -> Lifetime:
            events.append("opened")
            return self

        async def __aexit__(self, *_: object) -> None:
            events.append("closed")

    async with Executors({PythonTarget: Lifetime(PythonTargets([app]))}) as executors:
        attempt_result = await executors.run(assignment(target(in_the_loop)), "node-1", Lines())
        events.append(attempt_result.outcome)
    assert events == ["opened", "ok", "closed"]


async def test_a_target_that_the_node_has_no_executor_for_fails_for_good() -> None:
    async with Executors({}) as executors:
        attempt_result = await executors.run(assignment(target(in_the_loop)), "node-1", Lines())
    assert attempt_result == AttemptResult(Outcome.PERMANENT, error="node node-1 has no executor for PythonTarget")


# ------------------------------------------------------------------------------------------- told to stop, or declined


@pytest.mark.parametrize(("function", "well"), [(blocks, True), (looks_at_cancelled, False), (sleeps, False)])
async def test_only_a_function_that_never_saw_its_cancellation_and_returned_has_done_its_work(
    function: object, well: bool
) -> None:
    async with PythonExecutor(PythonTargets([app]), grace_s=5) as executor:
        attempt = asyncio.create_task(executor.run(assignment(target(function)), "node-1", Lines()))
        await eventually(probe.began.is_set)
        attempt.cancel()
        await asyncio.sleep(0)
        probe.let_go.set()
        if well:
            assert await attempt == AttemptResult(Outcome.OK)
        else:
            with pytest.raises(asyncio.CancelledError):
                await attempt


async def test_a_node_declines_functions_that_it_does_not_have_and_no_others() -> None:
    executor = PythonExecutor(PythonTargets([app], ["tests.executors"]))

    async def declined(ref: str) -> str:
        return await executor.declines(assignment(PythonTarget(ref)), "node-1") or "no"

    assert "this node does not have os:system: no app of the node has it" in await declined("os:system")
    assert "there is no module tests.executors.missing" in await declined("tests.executors.missing:function")
    assert "has no function missing" in await declined("tests.executors:missing")
    assert await declined(f"{__name__}:sleeps") == "no"
    assert await declined("tests.executors:is_running") == "no"


# -------------------------------------------------------------------------------------------------------------- prints


@app.job()
async def prints_in_the_loop(who: str, times: int) -> None:
    for n in range(times):
        print(who, n)
        await asyncio.sleep(0)
    await asyncio.to_thread(print, who, "in a thread", file=sys.stderr)
    print(who, "unfinished", end="")


@app.job()
def prints_in_a_thread(who: str, times: int) -> None:
    for n in range(times):
        print(who, n)
    print(who, "in a thread", file=sys.stderr)
    print(who, "unfinished", end="")
    stranger = threading.Thread(target=print, args=("not of a run",))
    stranger.start()
    stranger.join()


async def test_what_concurrent_attempts_print_becomes_lines_of_their_runs_and_nothing_else_does(
    executor: PythonExecutor, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = {f"{function}-{n}": Lines() for function in ("loop", "a_thread") for n in range(3)}
    refs = {"loop": f"{__name__}:prints_in_the_loop", "a_thread": f"{__name__}:prints_in_a_thread"}
    with capturing_prints():
        print("before")
        await asyncio.gather(
            *(
                executor.run(
                    assignment(PythonTarget(refs[who.partition("-")[0]], {"who": who, "times": 5000})), "n", lines
                )
                for who, lines in logs.items()
            )
        )
        print("after", file=sys.stderr)
    print("at the end")
    for who, lines in logs.items():
        assert lines.of("info") == [*(f"{who} {n}" for n in range(5000)), f"{who} unfinished"]
        assert lines.of("warn") == [f"{who} in a thread"]
    out, err = capsys.readouterr()
    assert (out, err) == ("before\n" + "not of a run\n" * 3 + "at the end\n", "after\n")


async def test_a_print_without_a_newline_takes_limited_memory(executor: PythonExecutor) -> None:
    lines = Lines()
    with capturing_prints(), captured(lines):
        for _ in range(5):
            print("x" * LONGEST_LINE, end="")
        print("\r\nnext", end="")
    assert lines.all == [("info", "x" * LONGEST_LINE)] * 5 + [("info", "next")]


@app.job()
async def prints_in_the_loop_and_in_a_thread(times: int) -> None:
    def flood() -> None:
        for n in range(times):
            print("thread", n)

    flooding = asyncio.ensure_future(asyncio.to_thread(flood))
    while not flooding.done():
        print("loop")
        await asyncio.sleep(0)
    await flooding


def test_lines_of_two_threads_of_an_attempt_do_not_mix() -> None:
    lines = Lines()
    with capturing_prints(), captured(lines):
        here = contextvars.copy_context()
        print("from the handler", end="")
        thread = threading.Thread(target=here.run, args=(print, "from its thread"))
        thread.start()
        thread.join()
        print()
        print("unfinished", end="")
    assert lines.of("info") == ["from its thread", "from the handler", "unfinished"]


async def test_a_thread_that_waits_for_the_event_loop_does_not_stop_it(
    executor: PythonExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cronflow.executors.python.MOST_WAITING", 1)
    lines = Lines()
    target = PythonTarget(f"{__name__}:prints_in_the_loop_and_in_a_thread", {"times": 100})
    with capturing_prints():
        attempt_result = await executor.run(assignment(target, timeout="60s"), "n", lines)
    assert attempt_result.outcome is Outcome.OK
    assert [text for text in lines.of("info") if text != "loop"] == [f"thread {n}" for n in range(100)]


@pytest.mark.parametrize(("how", "classes"), CLASSES)
def test_an_error_carries_its_classes_unless_it_is_the_jobs_own_decision(how: str, classes: tuple[str, ...]) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011  each of them has a class of its own
        end(how)
    assert failed(caught.value).error_classes == classes
