"""What a command may do to the node that runs it, and what it may not."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cronflow.domain.job import CommandTarget
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.executors import presence
from cronflow.executors.by_target import Executors
from cronflow.executors.command import CommandExecutor
from cronflow.executors.group import MAX_LINE_BYTES
from tests.executors import FENCE, RUN, Lines, assignment, is_running, timed_out
from tests.waiting import PATIENCE_S, eventually

FOREVER = "while :; do sleep 0.02; done"


async def run(
    command: str | tuple[str, ...],
    lines: Lines | None = None,
    *,
    timeout: str = "20s",
    grace_s: float = 5.0,
    drain_s: float = 0.2,
    attempt: int = 1,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    success: tuple[int, ...] = (0,),
    when_present: str | None = None,
) -> AttemptResult:
    target = CommandTarget(command, cwd=cwd, env=env or {}, when_present=when_present)
    async with CommandExecutor(True, grace_s=grace_s, drain_s=drain_s, environ=environ) as executor:
        attempted = assignment(target, timeout=timeout, attempt=attempt, success_exit_codes=success)
        return await executor.run(attempted, "node-1", lines or Lines())


async def test_exit_code_zero_is_ok_and_output_becomes_lines_by_stream() -> None:
    lines = Lines()
    attempt_result = await run("echo one; echo careful >&2; printf 'two\\r\\nhalf'", lines)
    assert attempt_result == AttemptResult(Outcome.OK, result={"exit_code": 0})
    assert lines.of("info") == ["one", "two", "half"]
    assert lines.of("warn") == ["careful"]


async def test_the_cpu_time_and_the_memory_of_a_command_are_those_of_its_processes() -> None:
    idle = (await run("sleep 0.2")).used
    spins = "python3 -c 'x = bytearray(60_000_000); sum(range(3_000_000))'"
    busy = (await run(spins)).used
    assert idle is not None
    assert busy is not None
    assert idle.cpu_s < busy.cpu_s
    assert busy.memory is not None
    assert busy.memory > 60_000_000
    late = await run("sleep 30", timeout="200ms")
    assert late.used is not None
    assert late.error == "timed out after 200ms"


async def test_a_node_without_the_file_skips_the_run_with_the_reason(tmp_path: Path) -> None:
    program, ran = tmp_path / "program", tmp_path / "ran"
    attempt_result = await run(f"touch {ran}", when_present=str(program))
    assert attempt_result == AttemptResult(Outcome.SKIPPED, error=f"node node-1 has no {program}")
    assert not ran.exists()
    program.touch()
    assert (await run(f"touch {ran}", when_present=str(program))).outcome is Outcome.OK
    assert ran.exists()
    beyond = await run("true", when_present=f"{program}/below")
    assert beyond == AttemptResult(Outcome.SKIPPED, error=f"node node-1 has no {program}/below")


async def test_a_node_that_cannot_know_whether_the_file_exists_fails_the_run(tmp_path: Path) -> None:
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    attempt_result = await run("true", when_present=str(circle))
    assert attempt_result.outcome is Outcome.PERMANENT
    assert attempt_result.error is not None
    assert f"'{circle}'" in attempt_result.error


async def test_another_exit_code_is_an_error_with_the_last_line_of_stderr() -> None:
    attempt_result = await run("echo first >&2; echo 'disk full' >&2; echo >&2; echo fine; exit 3")
    assert attempt_result == AttemptResult(Outcome.ERROR, error="exit code 3: disk full")


@pytest.mark.parametrize(
    ("command", "success", "outcome"),
    [
        ("exit 1", (0, 1), Outcome.OK),
        ("exit 0", (0, 1), Outcome.OK),
        ("exit 2", (0, 1), Outcome.ERROR),
        ("exit 0", (1,), Outcome.ERROR),
        ("exit 127", (0, 127), Outcome.OK),
        # 128 and the number of SIGKILL.
        ("kill -KILL $$", (0, 137), Outcome.OK),
    ],
)
async def test_the_exit_codes_of_the_job_mean_success(command: str, success: tuple[int, ...], outcome: Outcome) -> None:
    assert (await run(command, success=success)).outcome is outcome


@pytest.mark.parametrize(
    ("command", "classes"),
    [
        ("exit 75", ("exit:75",)),
        ("kill -KILL $$", ("exit:137",)),
        ("no-such-program", ("exit:127",)),
        ("true", ()),
    ],
)
async def test_a_failure_carries_its_exit_code_for_retry_rules(command: str, classes: tuple[str, ...]) -> None:
    assert (await run(command)).error_classes == classes


async def test_a_program_that_cannot_be_started_carries_the_class_of_the_error() -> None:
    assert "builtins.FileNotFoundError" in (await run(("no-such-program",))).error_classes


async def test_death_by_a_signal_names_the_signal() -> None:
    assert await run("kill -KILL $$") == AttemptResult(Outcome.ERROR, error="killed by SIGKILL")


async def test_a_signal_that_the_shell_reports_as_an_exit_code_is_named_too() -> None:
    attempt_result = await run("sh -c 'kill -SEGV $$' 2>/dev/null; exit $?")
    assert attempt_result == AttemptResult(Outcome.ERROR, error="exit code 139 (128 + SIGSEGV)")


async def test_a_program_that_does_not_exist_fails_for_good() -> None:
    by_shell = await run("no-such-program --now")
    by_itself = await run(("no-such-program", "--now"))
    assert by_shell.outcome is by_itself.outcome is Outcome.PERMANENT
    assert "exit code 127" in (by_shell.error or "")
    assert "no-such-program" in (by_shell.error or "")
    assert "no-such-program" in (by_itself.error or "")


async def test_a_program_that_may_not_be_executed_fails_for_good(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    for command in (str(script), (str(script),)):
        attempt_result = await run(command)
        assert attempt_result.outcome is Outcome.PERMANENT
        assert str(script) in (attempt_result.error or "")


async def test_a_working_directory_that_does_not_exist_fails_for_good() -> None:
    attempt_result = await run("pwd", cwd="/no/such/place")
    assert attempt_result.outcome is Outcome.PERMANENT
    assert "/no/such/place" in (attempt_result.error or "")


async def test_it_runs_in_the_working_directory_it_asks_for(tmp_path: Path) -> None:
    (tmp_path / "here").touch()
    lines = Lines()
    await run("ls", lines, cwd=str(tmp_path))
    assert lines.of("info") == ["here"]


async def test_no_shell_sees_an_argument_vector() -> None:
    lines = Lines()
    await run(("printf", "%s", "$HOME; echo `id`"), lines)
    assert lines.of("info") == ["$HOME; echo `id`"]


async def test_commands_are_off_unless_the_node_allows_them(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    target = CommandTarget(f"touch {trace}")
    attempt_result = await CommandExecutor(False).run(assignment(target), "node-1", Lines())
    assert attempt_result.outcome is Outcome.PERMANENT
    assert "ALLOW_SHELL" in (attempt_result.error or "")
    assert not trace.exists()


async def test_the_environment_has_the_facts_of_the_run_and_the_jobs_own_variables() -> None:
    lines = Lines()
    own = {"REGION": "eu", "CRONFLOW_FENCE": "0"}
    await run("env", lines, attempt=3, env=own, environ={"PATH": os.environ["PATH"], "TZ": "Europe/Berlin"})
    seen = dict(line.split("=", 1) for line in lines.of("info"))
    expected = {
        "CRONFLOW_RUN_ID": RUN,
        "CRONFLOW_JOB": "demo",
        "CRONFLOW_FIRE_AT": "2026-11-21T02:00:00Z",
        "CRONFLOW_ATTEMPT": "3",
        "CRONFLOW_FENCE": str(FENCE),
        "CRONFLOW_IDEMPOTENCY_KEY": RUN,
        "RETRY_COUNT": "2",
        "REGION": "eu",
        "TZ": "Europe/Berlin",
    }
    assert {name: seen.get(name) for name in expected} == expected


async def test_the_environment_has_none_of_the_nodes_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = ("MONGO_URL", "DB_URL", "CRONFLOW_MONGO_URL", "CRONFLOW_JWT_SECRET", "AWS_SECRET_ACCESS_KEY")
    for name in secrets:
        monkeypatch.setenv(name, "a-secret-of-the-node")
    lines = Lines()
    await run("env", lines)
    assert any(line.startswith("PATH=") for line in lines.of("info"))
    assert "a-secret-of-the-node" not in "\n".join(lines.of("info"))


async def test_standard_input_is_empty_whatever_the_nodes_is() -> None:
    reading, writing = os.pipe()
    kept = os.dup(0)
    os.dup2(reading, 0)
    try:
        assert (await run("cat", timeout="5s")).outcome is Outcome.OK
    finally:
        os.dup2(kept, 0)
        for end in (reading, writing, kept):
            os.close(end)


async def test_bytes_that_are_no_text_are_replaced() -> None:
    lines = Lines()
    await run("printf 'a\\377b\\n'", lines)
    assert lines.of("info") == ["a\ufffdb"]


async def test_a_timeout_kills_the_whole_family() -> None:
    lines = Lines()
    family = "sleep 1000 & echo $!; (sleep 1000 & echo $!; wait) & wait"
    await timed_out(lambda timeout: run(family, lines, timeout=timeout), lambda: len(lines.all) >= 2)
    pids = [int(line) for line in lines.of("info")]
    await eventually(lambda: not any(map(is_running, pids)), what="the end of the grandchildren")


async def test_what_ignores_sigterm_is_killed_after_the_grace() -> None:
    lines = Lines()
    stubborn = f"(trap '' TERM; sh -c 'echo $PPID'; {FOREVER}) & wait"
    await timed_out(lambda timeout: run(stubborn, lines, timeout=timeout, grace_s=0.2), lambda: lines.all)
    (pid,) = map(int, lines.of("info"))
    await eventually(lambda: not is_running(pid), what="the end of the process that ignores SIGTERM")


async def test_the_grace_is_there_to_clean_up_even_when_the_shell_is_gone() -> None:
    lines = Lines()
    careful = f"(trap 'sleep 0.2; echo cleaned up; exit' TERM; echo ready; {FOREVER}) & wait"
    await timed_out(lambda timeout: run(careful, lines, timeout=timeout), lambda: lines.all)
    assert lines.of("info") == ["ready", "cleaned up"]


async def test_processes_that_close_the_pipes_get_the_grace_time_too(tmp_path: Path) -> None:
    ready, trace = tmp_path / "ready", tmp_path / "trace"
    careful = f"(trap 'sleep 0.2; echo cleaned up >{trace}; exit' TERM; >{ready}; {FOREVER}) >/dev/null 2>&1 & wait"
    await timed_out(lambda timeout: run(careful, timeout=timeout), ready.exists)
    assert trace.read_text() == "cleaned up\n"


async def test_the_rest_of_the_grace_is_not_waited_for() -> None:
    began = time.monotonic()
    await run("exec sleep 1000", timeout="100ms", grace_s=10 * PATIENCE_S)
    assert time.monotonic() - began < PATIENCE_S


async def test_a_cancellation_reaches_the_process_and_goes_on() -> None:
    lines = Lines()
    attempt = asyncio.create_task(run("trap 'echo told; exit' TERM; echo $$; " + FOREVER, lines))
    pid = int((await eventually(lambda: lines.of("info")))[0])
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert lines.of("info")[1:] == ["told"]
    assert not is_running(pid)


async def test_a_second_cancellation_does_not_wait_for_the_grace() -> None:
    lines = Lines()
    attempt = asyncio.create_task(run("trap 'echo told' TERM; echo $$; " + FOREVER, lines, grace_s=10 * PATIENCE_S))
    pid = int((await eventually(lambda: lines.of("info")))[0])
    attempt.cancel()
    await eventually(lambda: "told" in lines.of("info"))
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(attempt, PATIENCE_S)
    await eventually(lambda: not is_running(pid))


async def test_a_grandchild_that_keeps_the_pipes_open_does_not_hold_up_the_attempt() -> None:
    lines = Lines()
    began = time.monotonic()
    attempt_result = await run("sleep 1000 & echo $!", lines, drain_s=0.2)
    (pid,) = map(int, lines.of("info"))
    assert attempt_result.outcome is Outcome.OK
    assert time.monotonic() - began < PATIENCE_S
    assert lines.of("warn") == ["the command has ended; what it left running is killed"]
    await eventually(lambda: not is_running(pid))


async def test_a_grandchild_that_let_go_of_the_pipes_ends_with_the_command_too() -> None:
    lines = Lines()
    await run("sleep 1000 >/dev/null 2>&1 & echo $!", lines)
    (pid,) = map(int, lines.of("info"))
    await eventually(lambda: not is_running(pid))


async def test_a_grandchild_may_write_its_last_words() -> None:
    lines = Lines()
    await run("(sleep 0.1; echo late) & echo early", lines, drain_s=5)
    assert lines.of("info") == ["early", "late"]
    assert lines.of("warn") == []


async def test_a_daemon_outside_the_group_that_holds_the_pipes_does_not_hold_up_the_attempt() -> None:
    daemon = "import os, time; os.setsid(); print(os.getpid(), flush=True); time.sleep(1000)"
    lines = Lines()
    attempt_result = await run(f"{sys.executable} -c '{daemon}' & sleep 1", lines, drain_s=0.1)
    (pid,) = map(int, lines.of("info"))
    try:
        assert attempt_result.outcome is Outcome.OK
        assert is_running(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


async def test_every_line_is_read_however_many_there_are() -> None:
    lines = Lines()
    await run("seq 300001", lines)
    assert lines.of("info") == [str(n) for n in range(1, 300_002)]


async def test_a_line_without_an_end_is_cut_and_what_follows_it_is_kept() -> None:
    lines = Lines()
    await run("head -c 100000 /dev/zero | tr '\\0' x; echo; echo next", lines)
    long, following = lines.of("info")
    assert long == "x" * MAX_LINE_BYTES + f"… ({100_000 - MAX_LINE_BYTES:,} bytes were cut)"
    assert following == "next"
    assert lines.of("warn") == []


TAKES_TURNS = """
import array, fcntl, os, termios, time

def write(stream, text):
    os.write(stream, text)
    unread = array.array("i", [1])
    while unread[0]:
        fcntl.ioctl(stream, termios.FIONREAD, unread)

for n in range(20):
    write(1, b"out %d\\n" % n)
    write(2, b"err %d\\n" % n)
"""


async def test_lines_of_both_streams_keep_the_order_in_which_they_arrive() -> None:
    lines = Lines()
    result = await run((sys.executable, "-c", TAKES_TURNS), lines)
    assert result.outcome is Outcome.OK
    assert [text for _, text in lines.all] == [f"{stream} {n}" for n in range(20) for stream in ("out", "err")]


async def test_it_works_where_the_kernel_has_no_pidfd(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> int:
        raise OSError("not here")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert (await run("exit 4")).error == "exit code 4"
    assert (await run("sleep 1000", timeout="100ms")).outcome is Outcome.TIMEOUT


async def test_no_descriptor_is_left_open() -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    async def each_way() -> None:
        await run("echo fine")
        await run("sleep 1000", timeout="20ms")
        await run(("no-such-program",))
        await run("sleep 1000 &", drain_s=0)

    await each_way()
    before = descriptors()
    await each_way()
    assert descriptors() == before


async def test_a_node_without_commands_declines_them_and_one_with_them_does_not() -> None:
    item = assignment(CommandTarget("true"))
    assert "set ALLOW_SHELL=true" in (await CommandExecutor(False).declines(item, "n1") or "")
    assert await CommandExecutor(True).declines(item, "n1") is None
    assert await Executors({CommandTarget: CommandExecutor(True)}).declines(item, "n1") is None
    assert await Executors({}).declines(item, "n1") == "node n1 has no executor for CommandTarget"


class Mount:
    """A mount below which nothing answers until it is mended. Counts who looks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, below: Path) -> None:
        self.mended = threading.Event()
        self.looked: list[str] = []
        real = Path.stat

        def stat(path: Path, **options: Any) -> os.stat_result:
            if below in path.parents:
                self.looked.append(path.name)
                self.mended.wait()
            return real(path, **options)

        monkeypatch.setattr(Path, "stat", stat)
        monkeypatch.setattr(presence, "LOOKS_FOR_S", 0.2)


async def test_a_dead_mount_holds_one_thread_for_a_path_and_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead, alive = tmp_path / "dead", tmp_path / "alive"
    dead.mkdir()
    (dead / "program").touch()
    alive.touch()
    mount = Mount(monkeypatch, dead)
    async with CommandExecutor(True, drain_s=0.2) as executor:

        async def ran(path: Path) -> AttemptResult:
            target = CommandTarget("true", when_present=str(path))
            return await executor.run(assignment(target, timeout="20s"), "node-1", Lines())

        try:
            lost = await asyncio.gather(*(ran(dead / "program") for _ in range(50)))
            assert {(one.outcome, one.error) for one in lost} == {
                (Outcome.ERROR, f"could not start it: [Errno 110] no answer within 0.2 s: '{dead}/program'")
            }
            assert mount.looked == ["program"]
            monkeypatch.setattr(presence, "LOOKS_FOR_S", PATIENCE_S)
            assert (await ran(alive)).outcome is Outcome.OK
            monkeypatch.setattr(presence, "MOST_LOOKS", 1)
            assert "1 files do not answer" in ((await ran(alive)).error or "")
        finally:
            mount.mended.set()

        async def mended() -> bool:
            return (await ran(dead / "program")).outcome is Outcome.OK

        await eventually(mended)
        await eventually(lambda: not [one for one in threading.enumerate() if one.name == "when_present"])


async def test_a_look_that_ends_after_its_loop_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mount = Mount(monkeypatch, tmp_path)
    failures: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)

    def elsewhere() -> None:
        asyncio.run(presence.FilePresence().problem(str(tmp_path / "program")))

    await asyncio.to_thread(elsewhere)
    [thread] = [one for one in threading.enumerate() if one.name == "when_present"]
    assert thread.daemon, "it does not keep the process from ending"
    mount.mended.set()
    await asyncio.to_thread(thread.join)
    assert failures == []
