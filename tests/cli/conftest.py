"""Runs the command line on a cluster in memory, without servers or local settings, and with a fixed time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import pytest
import typer
from typer.testing import CliRunner, Result

from cronflow.cli import connect
from cronflow.cli.main import app
from cronflow.cli.process_log import LogFormat, configure
from cronflow.cli.terminal import times
from tests.cli.scene import NOON, Scene

Cli = Callable[..., Result]

_built_once = cache(typer.main.get_command)
"""The tree of all commands, as a process has it: to build it takes as long as a short command."""


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give each test its own configuration folder, an empty working directory, a fixed time, and a time zone."""
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(times, "now", lambda: NOON)


@pytest.fixture
def logged_to_stderr() -> None:
    """The logs of an API in this process are no output of a command."""
    configure("warn", LogFormat.TEXT)


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs a command: `cli("jobs", "list", columns=80)`. Without columns the output is that of a pipe."""
    runner = CliRunner()
    monkeypatch.setattr("typer.testing._get_command", _built_once)

    def run(*args: str, columns: int | None = None, stdin: str | None = None) -> Result:
        env = {} if columns is None else {"COLUMNS": str(columns)}
        result = runner.invoke(app, args, env=env, input=stdin, prog_name="cronflow")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """An empty cluster, which all commands of the test use."""
    scene = Scene()
    monkeypatch.setattr(connect, "open_service", scene.open_service)
    return scene


@pytest.fixture
def scene(empty: Scene) -> Scene:
    """The cluster of `tests.cli.scene`."""
    asyncio.run(empty.fill())
    return empty


def parsed(result: Result) -> Any:
    """Stdout as JSON, which must contain nothing else."""
    assert result.exit_code == 0, result.output
    return orjson.loads(result.stdout_bytes)


def row(result: Result, word: str) -> str:
    """The only line of stdout with this word."""
    [line] = [line for line in result.stdout.splitlines() if word in line.split()]
    return line
