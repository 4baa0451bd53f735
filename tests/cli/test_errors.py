"""Error messages and exit codes."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest

from cronflow.cli import connect, errors
from cronflow.domain.errors import (
    BackendUnavailable,
    Conflict,
    CronFlowError,
    Deposed,
    InvalidInput,
    NotFound,
    Problem,
)
from tests.children import child_environment
from tests.cli.conftest import Cli
from tests.cli.scene import Scene


@pytest.mark.parametrize(
    ("error", "code", "expected"),
    [
        (InvalidInput([Problem("a.b", "is wrong", "mend it"), Problem("c", "too")]), 2, "a.b: is wrong (mend it)"),
        (NotFound("job", "x"), 3, "cronflow jobs list"),
        (BackendUnavailable("Redis", "r:6379", "refused"), 5, "Redis at r:6379 is unavailable: refused"),
        (
            BackendUnavailable("MongoDB", "m:27017", "refused"),
            5,
            "set CRONFLOW_MONGO_URL; check both servers: cronflow doctor",
        ),
        (Conflict("changed by others"), 1, "changed by others"),
        (Deposed("a newer leader"), 1, "a newer leader"),
        (CronFlowError(), 1, "CronFlowError"),
    ],
)
def test_each_error_has_its_code_and_next_step(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, error: CronFlowError, code: int, expected: str
) -> None:
    def refuse(_settings: object) -> None:
        raise error

    monkeypatch.setattr(connect, "open_service", refuse)
    result = cli("jobs", "list")
    assert result.exit_code == code
    assert result.stdout == ""
    assert expected in result.stderr
    assert "Traceback" not in result.stderr


def test_every_problem_is_a_line_of_its_own(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_settings: object) -> None:
        raise InvalidInput([Problem("a", "one\nand a half"), Problem("b", "two")])

    monkeypatch.setattr(connect, "open_service", refuse)
    assert cli("jobs", "list").stderr == "error: a: one and a half\nerror: b: two\n"


def test_a_group_of_one_error_is_reported_once_and_other_groups_are_unexpected() -> None:
    away = BackendUnavailable("Redis", "r:1", "refused")
    assert errors.expected(ExceptionGroup("tasks", [away, ExceptionGroup("inner", [away])])) is away
    assert errors.expected(ExceptionGroup("tasks", [away, ValueError("a mistake")])) is None
    assert errors.expected(ExceptionGroup("tasks", [away, Conflict("another")])) is None
    assert errors.expected(KeyError("x")) is None


@pytest.mark.usefixtures("scene")
def test_a_misspelled_name_gets_a_suggestion(cli: Cli) -> None:
    result = cli("jobs", "show", "nightly-reprot")
    assert result.exit_code == 3
    assert result.stderr.splitlines()[:2] == [
        "error: there is no job 'nightly-reprot'",
        "  → did you mean nightly-report?",
    ]


def test_a_server_failure_while_looking_for_suggestions_does_not_hide_the_error(cli: Cli, scene: Scene) -> None:
    scene.backends.faults.fail_before("jobs.find")
    assert cli("jobs", "show", "nightly-reprot").exit_code == 3


def test_settings_without_urls_name_the_missing_variables(cli: Cli) -> None:
    result = cli("jobs", "list")
    assert result.exit_code == 2
    for expected in ("CRONFLOW_REDIS_URL", "CRONFLOW_MONGO_URL", "cronflow dev"):
        assert expected in result.stderr


def run(*args: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", "from cronflow.cli.main import main; main()", *args],
        env=child_environment(**env),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_servers_that_are_away_exit_5_with_the_remedy(tmp_path: Path) -> None:
    with socket.socket() as closed:
        # Bound but not listening: no other process can take the port, and connections are refused.
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        result = run(
            "jobs",
            "list",
            folder=tmp_path,
            CRONFLOW_REDIS_URL=f"redis://127.0.0.1:{port}",
            CRONFLOW_MONGO_URL=f"mongodb://127.0.0.1:{port}",
        )
    assert result.returncode == 5, result.stderr
    assert f"127.0.0.1:{port} is unavailable" in result.stderr
    assert "check both servers: cronflow doctor" in result.stderr


def test_an_unexpected_error_shows_its_traceback_and_exits_1(tmp_path: Path) -> None:
    script = (
        "import cronflow.cli.connect as c\n"
        "def broken(settings): raise ZeroDivisionError('a mistake')\n"
        "c.open_service = broken\n"
        "from cronflow.cli.main import main; main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, "jobs", "list"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert result.stderr.startswith("Traceback")
    assert "ZeroDivisionError: a mistake" in result.stderr


def test_a_reader_that_closes_the_pipe_early_gets_no_traceback(tmp_path: Path) -> None:
    line = f"{sys.executable} -c 'from cronflow.cli.main import main; main()' cron explain '* * * * *' -n 1000 -o name"
    result = subprocess.run(
        ["/bin/sh", "-c", f"{line} | head -n 1"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert len(result.stdout.splitlines()) == 1
    assert result.stderr == ""


@pytest.mark.parametrize("theirs", ["0.0.1", None, "ours"])
def test_a_view_that_cannot_read_an_answer_blames_the_version_only_if_it_differs(
    cli: Cli, scene: Scene, monkeypatch: pytest.MonkeyPatch, theirs: str | None
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("words")

    monkeypatch.setattr("cronflow.cli.views.jobs.JobTable.print", fail)
    monkeypatch.setattr(connect, "api_version", lambda: version("cronflow") if theirs == "ours" else theirs)
    if theirs != "0.0.1":
        # A bug of this version: its traceback is shown.
        with pytest.raises(KeyError, match="words"):
            cli("jobs", "list")
        return
    result = cli("jobs", "list")
    assert result.exit_code == 1
    assert f"the API has version 0.0.1, this command has {version('cronflow')}" in result.stderr
    assert "KeyError: 'words' at test_errors.py:" in result.stderr
    assert "pip install cronflow==0.0.1" in result.stderr


@pytest.mark.usefixtures("scene")
def test_other_errors_never_blame_the_version(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("cronflow.cli.views.jobs.JobTable.print", fail)
    monkeypatch.setattr(connect, "api_version", lambda: "0.0.1")
    with pytest.raises(ZeroDivisionError):
        cli("jobs", "list")


def test_the_version_of_the_api_is_read_from_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    async def settings() -> dict[str, str]:
        return {"version": "0.7.0"}

    @asynccontextmanager
    async def open_client() -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(cluster=SimpleNamespace(settings=settings))

    monkeypatch.setattr(connect, "open_client", open_client)
    monkeypatch.setattr(connect, "api_in_use", None)
    assert connect.api_version() is None
    monkeypatch.setattr(connect, "api_in_use", "https://cron.example.com")
    assert connect.api_version() == "0.7.0"
