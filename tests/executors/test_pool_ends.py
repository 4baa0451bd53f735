"""How handler processes end, and what ends with them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cronflow.cli.handler_process import COMMAND
from cronflow.domain.events import Event, HandlerProcessEnded
from cronflow.domain.job import PythonTarget
from cronflow.domain.metrics import Metric
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.executors.pool import pool as pool_module
from cronflow.executors.pool import process as process_module
from cronflow.executors.pool.pool import handler_pool
from cronflow.executors.pool.process import SentAttempt
from cronflow.ports.metrics import Reading, Unmetered
from tests.children import child_environment
from tests.executors import Lines, assignment, is_running
from tests.executors.pools import MODULE, all_respond, opened, options, run, started, target, text_of
from tests.waiting import PATIENCE_S, eventually


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class Figures(Unmetered):
    """A Meter that remembers what the pool measures."""

    def __init__(self) -> None:
        self.counts: dict[str, float] = {}

    def add(self, metric: Metric, *labels: str, by: float = 1) -> None:
        self.counts[metric.name] = self.counts.get(metric.name, 0) + by

    def read(self, metric: Metric, ask: Callable[[], Reading]) -> None:
        assert metric.name == "cronflow_handler_processes"
        self.responding = ask


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("exit", "ended with exit code 4"),
        ("kill", "was killed by SIGKILL"),
        ("segfault", "was killed by SIGSEGV"),
        ("disconnect", "closed its connection"),
        ("garbage", "sent something other than messages"),
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
        assert [(type(one), getattr(one, "pid", 0), getattr(one, "attempts", 0)) for one in events] == [
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


async def test_a_daemon_with_the_connection_open_does_not_hide_the_end_of_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "READ_REST_S", 0.1)
    note = tmp_path / "note"
    async with opened() as pool:
        await run(pool, "returns")
        process, before = pool.processes[0], open_files()
        died, _ = await run(pool, "dies_but_leaves_a_daemon", note=str(note))
        try:
            assert "was killed by SIGKILL" in (died.error or "")
            await all_respond(pool, process.pid)
            assert open_files() == before
        finally:
            os.kill(int(await text_of(note)), signal.SIGKILL)


async def test_a_process_that_cannot_load_its_apps_any_more_is_started_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "FIRST_PAUSE_S", 0.01)
    events: list[Event] = []
    works = "from cronflow import App\napp = App('edited')\n"
    (tmp_path / "edited.py").write_text(works)
    async with opened(1, options("edited:app", path=(str(tmp_path),))) as pool:
        pool.emit = events.append
        [victim] = pool.pids
        (tmp_path / "edited.py").write_text("raise RuntimeError('half an edit')\n")
        os.kill(victim, signal.SIGKILL)
        await eventually(lambda: len(events) >= 2, what="the end of the second process")
        (tmp_path / "edited.py").write_text(works)
        await all_respond(pool, victim)
    assert "was killed by SIGKILL; 0 attempts ended with it" in events[0].text
    assert "could not load the apps: edited: importing it failed" in events[1].text
    assert "half an edit" in events[1].text


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
        pids = pool.pids
        attempt = started(pool, name, note=str(note))
        await text_of(note)
        attempt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempt
        assert note.read_text() == left
        assert pool.processes[0].running == 0
        # It was not killed for it.
        assert (await run(pool, "tells_from_a_loop"))[0].outcome is Outcome.OK
        assert [is_running(pid) for pid in pids] == [True]


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
            ends += await asyncio.wait_for(asyncio.gather(*attempts, return_exceptions=True), PATIENCE_S)
        await eventually(lambda: not any(process.running for process in pool.processes), what="no attempt runs")
    assert {type(end) for end in ends} <= {AttemptResult, asyncio.CancelledError}
    assert {end.outcome for end in ends if isinstance(end, AttemptResult)} <= {Outcome.OK}


@pytest.mark.parametrize("first", ["end", "cancellation"])
async def test_an_attempt_that_ends_and_is_cancelled_in_one_moment_has_its_result(
    monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    end = SentAttempt.end

    def both(sent: SentAttempt, attempt_result: AttemptResult | None) -> None:
        if first == "cancellation":
            attempt.cancel()
        end(sent, attempt_result)
        if first == "end":
            attempt.cancel()

    async with opened() as pool:
        monkeypatch.setattr(SentAttempt, "end", both)
        attempt = started(pool, "returns", value=1)
        assert (await asyncio.wait_for(attempt, PATIENCE_S)).result == 1


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
