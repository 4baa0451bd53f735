"""The command line on a cluster in memory: no server, no setting of the machine, and a time that stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner, Result

from cronflow.cli import connect
from cronflow.cli.main import app
from cronflow.cli.terminal import times
from tests.cli.scene import NOON, Scene

Cli = Callable[..., Result]


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A login of the test's own, an empty working directory, and a time that stands still."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(times, "now", lambda: NOON)


@pytest.fixture
def cli() -> Cli:
    """Runs a command: `cli("jobs", "list", columns=80)`. Without columns the output is as it is when it is piped."""
    runner = CliRunner()

    def run(*args: str, columns: int | None = None, stdin: str | None = None) -> Result:
        env = {} if columns is None else {"COLUMNS": str(columns)}
        result = runner.invoke(app, args, env=env, input=stdin, prog_name="cronflow")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A cluster without anything, where every command of the test ends up."""
    scene = Scene()
    monkeypatch.setattr(connect, "open_service", scene.open_service)
    return scene


@pytest.fixture
def scene(empty: Scene) -> Scene:
    """The cluster of `tests.cli.scene`."""
    asyncio.run(empty.fill())
    return empty


def parsed(result: Result) -> Any:
    """Stdout as JSON; nothing but JSON may stand there."""
    assert result.exit_code == 0, result.output
    return orjson.loads(result.stdout_bytes)


def row(result: Result, word: str) -> str:
    """The only line of stdout that has this word."""
    [line] = [line for line in result.stdout.splitlines() if word in line.split()]
    return line
