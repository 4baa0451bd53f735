"""Python functions in handler processes, on real processes. `tests.executors.pooled` has the functions."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from cronflow.cli.handler_process import COMMAND
from cronflow.domain.errors import InvalidInput
from cronflow.domain.events import Event, HandlerProcessEnded
from cronflow.domain.job import PythonTarget
from cronflow.domain.metrics import Metric
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.executors.handlers import MAX_RESULT_BYTES
from cronflow.executors.pool import pool as pool_module
from cronflow.executors.pool import process as process_module
from cronflow.executors.pool.messages import HandlerOptions
from cronflow.executors.pool.pool import HandlerPool, handler_pool
from cronflow.ports.metrics import Reading, Unmetered
from tests.children import child_environment
from tests.executors import FENCE, RUN, Lines, assignment, is_running, pooled
from tests.waiting import eventually

MODULE = pooled.__name__


def options(
    *apps: str, grace_s: float = 5.0, allow: tuple[str, ...] = (), path: tuple[str, ...] = ()
) -> HandlerOptions:
    return HandlerOptions(
        apps=apps or (f"{MODULE}:app",), allow_python=allow, path=[*path, *sys.path], grace_s=grace_s, node="node-1"
    )


@asynccontextmanager
async def opened(count: int = 1, given: HandlerOptions | None = None) -> AsyncIterator[HandlerPool]:
    async with handler_pool(COMMAND, given or options(), count) as pool:
        yield pool


class Figures(Unmetered):
    """A Meter that remembers what the pool measures."""

    def __init__(self) -> None:
        self.counts: dict[str, float] = {}

    def add(self, metric: Metric, *labels: str, by: float = 1) -> None:
        self.counts[metric.name] = self.counts.get(metric.name, 0) + by

    def read(self, metric: Metric, ask: Callable[[], Reading]) -> None:
        assert metric.name == "cronflow_handler_processes"
        self.responding = ask


def target(name: str, **args: object) -> PythonTarget:
    return PythonTarget(f"{MODULE}:{name}", args)


async def run(pool: HandlerPool, name: str, **args: object) -> tuple[AttemptResult, Lines]:
    lines = Lines()
    return await pool.run(assignment(target(name, **args)), "node-1#a1", lines), lines


def started(pool: HandlerPool, name: str, timeout: str = "20s", **args: object) -> asyncio.Task[AttemptResult]:
    return asyncio.create_task(pool.run(assignment(target(name, **args), timeout=timeout), "node-1#a1", Lines()))


async def text_of(note: Path) -> str:
    return await eventually(lambda: note.exists() and note.read_text(), what=f"the note {note.name}") or ""


async def all_respond(pool: HandlerPool, *gone: int) -> None:
    def up() -> bool:
        return all(process.responds for process in pool.processes) and not set(gone) & set(pool.pids)

    await eventually(up, what="every process is up")


# ------------------------------------------------------------------------------------------------- what attempts get


async def test_a_function_runs_in_another_process_with_the_facts_of_its_run() -> None:
    async with opened() as pool:
        from_loop, _ = await run(pool, "tells_from_a_loop", region="us")
        from_thread, _ = await run(pool, "tells_from_a_thread")
        assert from_loop.result == {
            "pid": pool.pids[0],
            "run": RUN,
            "fence": FENCE,
            "node": "node-1#a1",
            "region": "us",
        }
        assert from_thread.result == {
            "pid": pool.pids[0],
            "attempt": 1,
            "fire_at": "2026-11-21T02:00:00+00:00",
            "key": RUN,
        }
        assert pool.pids[0] != os.getpid()
        assert pool.modules == (MODULE,)


async def test_the_arguments_of_the_run_win_over_those_of_the_job() -> None:
    async with opened() as pool:
        given = assignment(target("returns", value="job"), args={"value": "run"})
        assert (await pool.run(given, "node-1", Lines())).result == "run"


@pytest.mark.parametrize(
    ("how", "outcome", "told"),
    [
        ("error", Outcome.ERROR, "ValueError: no rows"),
        ("permanent", Outcome.PERMANENT, "the account is closed"),
        ("later", Outcome.ERROR, "the shop is busy"),
        ("skip", Outcome.SKIPPED, "a holiday"),
        ("exit", Outcome.ERROR, "SystemExit: 3"),
    ],
)
async def test_its_error_is_carried_back(how: str, outcome: Outcome, told: str) -> None:
    async with opened() as pool:
        attempt_result, _ = await run(pool, "ends", how=how)
    assert attempt_result.outcome is outcome
    assert told in (attempt_result.error or "")
    assert attempt_result.delay == (timedelta(minutes=7) if how == "later" else None)


async def test_results_are_carried_back_up_to_the_limit() -> None:
    async with opened() as pool:
        largest, _ = await run(pool, "returns", size=MAX_RESULT_BYTES - 2)
        too_large, _ = await run(pool, "returns", size=MAX_RESULT_BYTES - 1)
        nested, _ = await run(pool, "returns", value={"a": [1, None, "ü"]})
        odd, _ = await run(pool, "returns_a_set")
    assert (largest.outcome, len(str(largest.result))) == (Outcome.OK, MAX_RESULT_BYTES - 2)
    assert too_large.outcome is Outcome.PERMANENT
    assert nested.result == {"a": [1, None, "ü"]}
    assert "not JSON" in (odd.error or "")


async def test_lines_and_prints_of_concurrent_attempts_stay_with_their_runs_and_in_order() -> None:
    async with opened(2) as pool:
        found = await asyncio.gather(*(run(pool, "chatters", word=f"n{k}", lines=50) for k in range(6)))
    for k, (attempt_result, lines) in enumerate(found):
        assert attempt_result.outcome is Outcome.OK
        assert lines.of("info") == [f"n{k} {n}" for n in range(50)]
        assert lines.of("warn") == [f"n{k} n={n}" for n in range(50)]
        assert lines.of("progress") == ["0/1", "1/1"]


async def test_a_flood_of_lines_arrives_whole() -> None:
    async with opened() as pool:
        attempt_result, lines = await run(pool, "floods", lines=20_000)
    assert attempt_result.outcome is Outcome.OK
    assert [int(text.split()[1].removeprefix("n=")) for text in lines.of("info")] == list(range(20_000))


async def test_text_that_is_not_unicode_does_not_harm_the_process() -> None:
    async with opened() as pool:
        pids = pool.pids
        attempt_result, lines = await run(pool, "writes_what_json_cannot")
        assert pool.pids == pids
    assert lines.of("info") == ["half a pair: ?"]
    assert "ValueError: ?" in (attempt_result.error or "")


async def test_libraries_log_as_in_a_node_and_with_the_run(capfd: pytest.CaptureFixture[str]) -> None:
    async with opened() as pool:
        await run(pool, "logs")
    [line] = [line for line in capfd.readouterr().err.splitlines() if "sold out" in line]
    for word in ('"level":"warn"', '"role":"handlers"', '"node":"node-1"', f'"run":"{RUN}"'):
        assert word in line


async def test_a_process_hides_its_memory_and_lacks_the_settings_of_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRONFLOW_SECRETS_KEY", "sealed")
    monkeypatch.setenv("SHOP_URL", "http://shop")
    async with opened() as pool:
        assert (await run(pool, "names_its_environment"))[0].result == ["SHOP_URL"]
        assert (await run(pool, "shows_its_memory"))[0].result is False


async def test_attempts_go_to_the_process_that_runs_the_fewest(tmp_path: Path) -> None:
    async with opened(2) as pool:
        until = tmp_path / "until"
        waiting = [started(pool, "waits", note=str(tmp_path / f"{n}"), until=str(until)) for n in range(6)]
        pids = [int(await text_of(tmp_path / f"{n}")) for n in range(6)]
        assert sorted(pids) == sorted(pool.pids * 3)
        until.touch()
        assert [result.result for result in await asyncio.gather(*waiting)] == ["done"] * 6


# ------------------------------------------------------------------------------------------- what a node can run


async def test_a_node_declines_what_its_processes_do_not_allow(tmp_path: Path) -> None:
    (tmp_path / "further.py").write_text("def work(): return 7\n")
    (tmp_path / "broken.py").write_text("raise RuntimeError('no licence')\n")
    given = options(allow=("further", "broken"), path=(str(tmp_path),))
    async with opened(1, given) as pool:

        async def declines(ref: str) -> str | None:
            return await pool.declines(assignment(PythonTarget(ref)), "node-1")

        assert await declines(f"{MODULE}:waits") is None
        assert await declines("further:work") is None
        assert "not allowed" in (await declines("os:getpid") or "")
        assert "no function nothing" in (await declines("further:nothing") or "")
        # The attempt reports what is wrong with a module.
        assert await declines("broken:work") is None
        broken = await pool.run(assignment(PythonTarget("broken:work")), "node-1", Lines())
        assert "no licence" in (broken.error or "")
        assert (await pool.run(assignment(PythonTarget("further:work")), "node-1", Lines())).result == 7
        refused = await pool.run(assignment(PythonTarget("os:getpid")), "node-1", Lines())
        assert refused.outcome is Outcome.PERMANENT
    assert not {"further", "broken"} & sys.modules.keys()


async def test_a_function_with_a_process_of_its_own_is_a_child_of_the_node() -> None:
    async with opened() as pool:
        own = PythonTarget(f"{MODULE}:tells_from_a_child", process=True)
        attempt_result = await pool.run(assignment(own), "node-1", Lines())
        assert isinstance(attempt_result.result, list)
        child, parent = attempt_result.result
        assert child not in pool.pids
        assert parent == os.getpid()
        refused = await pool.run(assignment(PythonTarget("os:getpid", process=True)), "node-1", Lines())
        assert refused.outcome is Outcome.PERMANENT
        assert "not allowed" in (refused.error or "")


async def test_apps_that_cannot_be_loaded_end_the_start_with_all_problems(tmp_path: Path) -> None:
    (tmp_path / "incomplete.py").write_text("x = 1\n")
    given = options("incomplete:app", "nowhere_at_all:app", path=(str(tmp_path),))
    with pytest.raises(InvalidInput) as caught:
        async with opened(2, given):
            pass
    assert ["incomplete" in str(one) or "nowhere_at_all" in str(one) for one in caught.value.problems] == [True, True]


async def test_an_import_that_ends_the_process_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "ending.py").write_text("import os\nos._exit(9)\n")
    with pytest.raises(InvalidInput, match="exit code 9"):
        async with opened(2, options("ending:app", path=(str(tmp_path),))):
            pass


# ------------------------------------------------------------------------------------------------------- processes end


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("exit", "ended with exit code 4"),
        ("kill", "was killed by SIGKILL"),
        ("segfault", "was killed by SIGSEGV"),
        ("disconnect", "closed its connection"),
        ("garbage", "sent something else than messages"),
    ],
)
async def test_a_process_that_dies_ends_only_its_own_attempts_and_is_started_again(
    tmp_path: Path, how: str, told: str
) -> None:
    events: list[Event] = []
    meter = Figures()
    async with handler_pool(COMMAND, options(), 2, meter) as pool:
        pool.emit = events.append
        until = tmp_path / "until"
        first, second = (
            started(pool, "waits", note=str(tmp_path / name), until=str(until)) for name in ("first", "second")
        )
        pids = [int(await text_of(tmp_path / name)) for name in ("first", "second")]
        assert set(pids) == set(pool.pids)
        died, _ = await run(pool, "dies", how=how)
        assert died.outcome is Outcome.ERROR
        assert told in (died.error or "")
        [victim] = [pid for pid in pids if not is_running(pid)]
        assert meter.responding() == 1
        survivor, other = (second, first) if victim == pids[0] else (first, second)
        assert (await other).outcome is Outcome.ERROR
        assert "before the function returned" in ((await other).error or "")
        until.touch()
        assert (await survivor).result == "done"
        await all_respond(pool, victim)
        assert [(type(one), getattr(one, "pid", 0), getattr(one, "runs", 0)) for one in events] == [
            (HandlerProcessEnded, victim, 2)
        ]
        assert told in events[0].text
        assert meter.counts == {"cronflow_handler_process_ends_total": 1}
        assert meter.responding() == 2
        assert (await run(pool, "returns", value=1))[0].result == 1


async def test_processes_that_keep_dying_are_started_after_growing_pauses_and_leave_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool_module, "FIRST_PAUSE_S", 0.01)
    pauses: list[float] = []
    async with opened() as pool:

        def open_files() -> int:
            return len(list(Path("/proc/self/fd").iterdir()))

        report = pool._report

        def reported(process: object, how: str, again_in_s: float) -> None:
            pauses.append(again_in_s)
            report(process, how, again_in_s)  # type: ignore[arg-type]

        monkeypatch.setattr(pool, "_report", reported)
        await run(pool, "returns")
        before = open_files()
        for _ in range(4):
            pids = pool.pids
            await run(pool, "dies", how="exit")
            await all_respond(pool, *pids)
        assert open_files() == before
        assert not [task for task in asyncio.all_tasks() if task.done()]
    assert pauses == [0.01, 0.02, 0.04, 0.08]


async def test_commands_of_a_process_that_dies_end_with_it(tmp_path: Path) -> None:
    note = tmp_path / "note"
    async with opened() as pool:
        attempt = started(pool, "holds_the_lock", note=str(note), seconds=300, command=True)
        process, command = map(int, (await text_of(note)).split())
        os.kill(process, signal.SIGKILL)
        assert (await attempt).outcome is Outcome.ERROR
        assert not is_running(command)


async def test_signals_that_stop_a_node_do_not_stop_its_processes_nor_reach_their_commands_changed(
    tmp_path: Path,
) -> None:
    until, note = tmp_path / "until", tmp_path / "note"
    async with opened() as pool:
        attempt = started(pool, "waits", note=str(note), until=str(until))
        await text_of(note)
        for number in (signal.SIGTERM, signal.SIGINT):
            os.killpg(pool.pids[0], number)
        assert os.getpgid(pool.pids[0]) != os.getpgid(0)
        until.touch()
        assert (await attempt).result == "done"
        # A command has the default reaction to the signals.
        ended, _ = await run(pool, "starts_a_command", script="kill -TERM $$; sleep 1; exit 7")
        assert ended.result == -signal.SIGTERM


async def test_a_pool_that_closes_lets_its_processes_end_in_order(tmp_path: Path) -> None:
    note = tmp_path / "note"
    async with opened(2) as pool:
        pids = pool.pids
        await run(pool, "leaves_at_exit", note=str(note))
    assert note.read_text() == "left in order"
    assert not any(map(is_running, pids))


async def test_a_pool_that_closes_kills_a_process_that_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "CLOSE_S", 0.2)
    note = tmp_path / "note"
    async with opened() as pool:
        await run(pool, "leaves_a_thread", note=str(note))
    assert not is_running(int(note.read_text()))


# ------------------------------------------------------------------------------------------------- blocked processes


async def test_a_blocked_process_gets_no_attempts_and_is_killed_after_the_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "SILENT_S", 0.2)
    monkeypatch.setattr(process_module, "OVERDUE_S", 0.2)
    note = tmp_path / "note"
    async with opened(2, options(grace_s=0.2)) as pool:
        attempt = started(pool, "holds_the_lock", timeout="1s", note=str(note), seconds=300)
        blocked = int(await text_of(note))
        await eventually(lambda: any(not process.responds for process in pool.processes), what="it does not respond")
        free = await asyncio.gather(*(run(pool, "tells_from_a_loop") for _ in range(10)))
        assert {result.result["pid"] for result, _ in free} == {*pool.pids} - {blocked}  # type: ignore[index]
        attempt_result = await attempt
        assert attempt_result.outcome is Outcome.TIMEOUT
        assert attempt_result.error == "timed out after 1s; its handler process did not stop it and was killed"
        await all_respond(pool, blocked)


async def test_a_blocked_process_responds_again_when_the_handler_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "SILENT_S", 0.2)
    note = tmp_path / "note"
    async with opened() as pool:
        pids = pool.pids
        attempt = started(pool, "holds_the_lock", note=str(note), seconds=2)
        await text_of(note)
        await eventually(lambda: not pool.processes[0].responds, what="it does not respond")
        assert (await attempt).outcome is Outcome.OK
        await all_respond(pool)
        assert pool.pids == pids


async def test_attempts_are_deferred_while_no_process_responds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "SILENT_S", 0.2)
    monkeypatch.setattr(pool_module, "FIND_WITHIN_S", 0.1)
    note = tmp_path / "note"
    async with opened() as pool:
        attempt = started(pool, "holds_the_lock", note=str(note), seconds=300)
        await text_of(note)
        await eventually(lambda: not pool.processes[0].responds, what="it does not respond")
        deferred, _ = await run(pool, "returns")
        assert deferred.outcome is Outcome.DEFERRED
        assert "no handler process responds" in (deferred.error or "")
        unknown = PythonTarget(f"{MODULE}:tells_from_a_child", process=True)
        assert (await pool.run(assignment(unknown), "node-1", Lines())).outcome is Outcome.DEFERRED
        assert await pool.declines(assignment(target("looks")), "node-1") is None
        os.kill(pool.pids[0], signal.SIGKILL)
        assert (await attempt).outcome is Outcome.ERROR


# ------------------------------------------------------------------------------------------------------ cancellations


@pytest.mark.parametrize(("name", "left"), [("waits", "cleaned up"), ("looks", "saw it")])
async def test_a_cancellation_reaches_the_function(tmp_path: Path, name: str, left: str) -> None:
    note = tmp_path / "note"
    async with opened() as pool:
        attempt = started(pool, name, note=str(note))
        await text_of(note)
        attempt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempt
        assert note.read_text() == left
        assert pool.processes[0].running == 0


async def test_a_cancellation_ends_even_a_process_that_is_blocked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "OVERDUE_S", 0.2)
    note = tmp_path / "note"
    async with opened(1, options(grace_s=0.2)) as pool:
        attempt = started(pool, "holds_the_lock", note=str(note), seconds=300)
        blocked = int(await text_of(note))
        attempt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempt
        assert not is_running(blocked)


async def test_a_cancellation_at_any_moment_leaves_no_attempt_behind() -> None:
    async with opened(2) as pool:
        ends = []
        for passes in range(60):
            attempts = [started(pool, "returns", value=n) for n in range(5)]
            for _ in range(passes):
                await asyncio.sleep(0)
            for attempt in attempts:
                attempt.cancel()
            ends += await asyncio.wait_for(asyncio.gather(*attempts, return_exceptions=True), 60)
        await eventually(lambda: not any(process.running for process in pool.processes), what="no attempt runs")
    assert {type(end) for end in ends} <= {AttemptResult, asyncio.CancelledError}
    assert {end.outcome for end in ends if isinstance(end, AttemptResult)} <= {Outcome.OK}


async def test_a_second_cancellation_does_not_wait(tmp_path: Path) -> None:
    note = tmp_path / "note"
    async with opened() as pool:
        attempt = started(pool, "holds_the_lock", note=str(note), seconds=300)
        await text_of(note)
        attempt.cancel()
        await asyncio.wait({attempt}, timeout=0.1)
        attempt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempt
        assert pool.processes[0].running == 1
        os.kill(pool.pids[0], signal.SIGKILL)


# ---------------------------------------------------------------------------------------------------- the node dies

NODE = """
import asyncio, sys
from cronflow.cli.handler_process import COMMAND
from cronflow.domain.job import PythonTarget
from cronflow.executors.pool.messages import HandlerOptions
from cronflow.executors.pool.pool import handler_pool
from tests.executors import Lines, assignment

async def main(name, note):
    given = HandlerOptions(apps=["tests.executors.pooled:app"], path=sys.path)
    async with handler_pool(COMMAND, given, 1) as pool:
        args = {"note": note} | ({"seconds": 300, "command": True} if name == "holds_the_lock" else {})
        await pool.run(assignment(PythonTarget(f"tests.executors.pooled:{name}", args)), "node-1", Lines())

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("name", ["waits", "holds_the_lock"])
async def test_processes_and_their_commands_end_with_a_node_that_is_killed(tmp_path: Path, name: str) -> None:
    note = tmp_path / "note"
    words = [sys.executable, "-c", NODE, name, str(note)]
    node = subprocess.Popen(words, env=child_environment(), stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        pids = [int(pid) for pid in (await text_of(note)).split()]
        assert all(map(is_running, pids))
        node.kill()
        node.wait()
        await eventually(lambda: not any(map(is_running, pids)), what="the end of the processes")
    finally:
        node.kill()
        node.wait()
