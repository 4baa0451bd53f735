"""The user and the limits of a command, on real processes."""

from __future__ import annotations

import os
import pwd
import resource
import sys
from datetime import timedelta
from typing import Any

import pytest

from cronflow.domain.job import CommandTarget
from cronflow.domain.limits import Limits
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.executors import restrictions
from cronflow.executors.command import CommandExecutor
from tests.executors import Lines, assignment

OWN = pwd.getpwuid(os.geteuid()).pw_name
OTHER = "nobody"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


async def run(
    command: str | tuple[str, ...], lines: Lines | None = None, *, users: list[str] | None = None, **fields: Any
) -> AttemptResult:
    async with CommandExecutor(True, users=users, drain_s=0.2) as executor:
        return await executor.run(assignment(CommandTarget(command, **fields)), "node-1", lines or Lines())


@as_root
async def test_a_command_runs_as_the_user_it_names_with_nothing_of_the_nodes_rights() -> None:
    lines = Lines()
    command = """
        id -un; id -u; id -G; echo $HOME $USER $LOGNAME; echo written >/dev/stdout
        grep -E 'Cap(Inh|Prm|Eff|Amb)' /proc/self/status
        cat /proc/$PPID/environ || head -c1 /etc/shadow || echo refused
    """
    attempt_result = await run(command, lines, users=[OTHER], run_as=OTHER)
    assert attempt_result.outcome is Outcome.OK, attempt_result.error
    account = pwd.getpwnam(OTHER)
    none = "0" * 16
    assert lines.of("info") == [
        OTHER,
        str(account.pw_uid),
        " ".join(map(str, dict.fromkeys([account.pw_gid, *os.getgrouplist(OTHER, account.pw_gid)]))),
        f"{account.pw_dir} {OTHER} {OTHER}",
        "written",
        *(f"Cap{kind}:\t{none}" for kind in ("Inh", "Prm", "Eff", "Amb")),
        "refused",
    ]


@as_root
async def test_a_command_of_another_user_is_stopped_like_any_other() -> None:
    async with CommandExecutor(True, users=[OTHER], grace_s=0.2, drain_s=0.2) as executor:
        target = CommandTarget("trap '' TERM; while :; do sleep 0.02; done", run_as=OTHER)
        attempt_result = await executor.run(assignment(target, timeout="500ms"), "node-1", Lines())
    assert attempt_result.outcome is Outcome.TIMEOUT


@pytest.mark.parametrize(
    ("run_as", "users", "refused"),
    [
        (None, None, None),
        (OWN, None, None),
        (None, [OWN, OTHER], None),
        (OTHER, None, f"node n1 does not run commands as {OTHER}; add it to ALLOW_RUN_AS"),
        (OTHER, [OWN], f"node n1 does not run commands as {OTHER}; add it to ALLOW_RUN_AS"),
        (None, [OTHER], f"node n1 runs commands only as {OTHER}; set run_as to one of them"),
        (OTHER, [OTHER], f"node n1 cannot run commands as {OTHER}, because it does not run as root"),
        ("no-such-user", ["no-such-user"], "node n1 has no user no-such-user"),
    ],
)
async def test_a_node_refuses_a_user_that_it_does_not_allow_or_cannot_become(
    run_as: str | None, users: list[str] | None, refused: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restrictions, "_own_name", lambda: OWN)
    monkeypatch.setattr(os, "geteuid", lambda: 0 if run_as == "no-such-user" else 1000)
    executor = CommandExecutor(True, users=users)
    attempt = assignment(CommandTarget("true", run_as=run_as))
    assert await executor.declines(attempt, "n1") == refused
    if refused is not None:
        assert await executor.run(attempt, "n1", Lines()) == AttemptResult(Outcome.PERMANENT, error=refused)


async def test_the_limits_are_in_force_when_the_program_starts() -> None:
    lines = Lines()
    limits = Limits(
        cpu=timedelta(seconds=60), memory=512 << 20, file_size=1 << 20, files=100, processes=min(5000, _processes())
    )
    await run("for option in t v f n; do ulimit -$option; done; ulimit -H -t; ulimit -H -n", lines, limits=limits)
    assert lines.of("info") == ["60", "524288", "2048", "100", "61", "100"]


def _processes() -> int:
    """The limit that the tests have, which may be needed to run them."""
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    return 5000 if limit == resource.RLIM_INFINITY else limit


async def test_a_lower_limit_of_the_node_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (50, 50))
    lines = Lines()
    await run("ulimit -n; ulimit -t", lines, limits=Limits(files=100, cpu=timedelta(seconds=90)))
    assert lines.of("info") == ["50", "50"]


@pytest.mark.parametrize(
    ("command", "limits", "error"),
    [
        ("while :; do :; done", Limits(cpu=timedelta(seconds=1)), "killed by SIGXCPU (limits.cpu is 1s)"),
        (
            "sh -c 'while :; do :; done' 2>/dev/null; exit $?",
            Limits(cpu=timedelta(seconds=1)),
            "exit code 152 (128 + SIGXCPU) (limits.cpu is 1s)",
        ),
        (
            f"{sys.executable} -c 'bytearray(1 << 30)'",
            Limits(memory=256 << 20),
            "exit code 1: MemoryError (limits.memory is 256MiB)",
        ),
        (
            "exec dd if=/dev/zero of=big bs=1M count=4",
            Limits(file_size=1 << 20),
            "killed by SIGXFSZ (limits.file_size is 1MiB)",
        ),
        (
            f"{sys.executable} -c '[open(\"/dev/null\") for _ in range(50)]'",
            Limits(files=20),
            "exit code 1: OSError: [Errno 24] Too many open files: '/dev/null' (limits.files is 20)",
        ),
        ("exit 3", Limits(files=20, cpu=timedelta(seconds=60)), "exit code 3"),
    ],
)
async def test_a_run_that_ends_by_a_limit_names_it(command: str, limits: Limits, error: str) -> None:
    assert await run(command, limits=limits) == AttemptResult(Outcome.ERROR, error=error)


@as_root
async def test_a_command_cannot_start_more_processes_than_it_may() -> None:
    command = "for i in 1 2 3 4 5 6 7 8; do sleep 5 & done"
    attempt_result = await run(command, users=[OTHER], run_as=OTHER, limits=Limits(processes=3))
    assert attempt_result.outcome is Outcome.ERROR
    assert "ork" in (attempt_result.error or "")
    assert (attempt_result.error or "").endswith(" (limits.processes is 3)")


async def test_a_program_that_does_not_exist_fails_for_good_with_limits_too() -> None:
    attempt_result = await run(("no-such-program", "--now"), limits=Limits(files=20))
    assert attempt_result.outcome is Outcome.PERMANENT
    assert "no-such-program" in (attempt_result.error or "")


async def test_a_limit_that_the_system_cannot_set_is_reported_and_nothing_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    odd = restrictions._LIMITS["memory"]._replace(options=("-Z",))
    monkeypatch.setitem(restrictions._LIMITS, "memory", odd)
    lines = Lines()
    attempt_result = await run("echo ran", lines, limits=Limits(memory=1 << 30))
    assert attempt_result.outcome is Outcome.ERROR
    assert "this system cannot set limits.memory to 1GiB" in (attempt_result.error or "")
    assert lines.of("info") == []
