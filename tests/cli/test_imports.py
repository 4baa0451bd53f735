"""Commands import only what they use, so that help is fast."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from cronflow.cli.main import COMMANDS
from tests.cli.conftest import Cli

HEAVY = {
    "redis",
    "motor",
    "pymongo",
    "bson",
    "fastapi",
    "starlette",
    "uvicorn",
    "httpx2",
    "pydantic",
    "psutil",
    "websockets",
    "rich.live",
    "rich.progress",
    "jwt",
    "cryptography",
    "cronflow.usecases",
}

SCRIPT = """
import sys
sys.argv[0] = "cronflow"
from cronflow.cli.main import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
finally:
    print("\\n" + " ".join(sys.modules))
"""


@pytest.mark.parametrize(
    "command",
    [
        ["--help"],
        ["jobs", "--help"],
        ["jobs", "apply", "--help"],
        ["runs", "--help"],
        ["logs", "--help"],
        ["cluster", "--help"],
        ["node", "--help"],
        ["api", "--help"],
        ["version"],
        ["cron", "explain", "0 2 * * *"],
    ],
    ids=" ".join,
)
def test_commands_import_no_driver_no_web_framework_and_no_use_case(command: list[str], tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, *command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    loaded = set(result.stdout.splitlines()[-1].split())
    assert "typer" in loaded
    # typer loads pydantic to parse the parameters of a command.
    allowed = set() if command == ["--help"] else {"pydantic"}
    assert sorted(HEAVY & loaded - allowed) == []


def test_help_of_the_root_imports_no_command(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, "--help"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    loaded = set(result.stdout.splitlines()[-1].split())
    assert "cronflow.cli.main" in loaded
    assert not {f"cronflow.cli.{entry.address.partition(':')[0]}" for entry in COMMANDS.values()} & loaded


def test_the_help_of_the_root_names_every_command(cli: Cli) -> None:
    shown = cli("--help").stdout
    for name in COMMANDS:
        assert f"│ {name} " in shown


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "dev"])
def test_every_command_of_the_root_can_be_loaded_and_has_help(cli: Cli, name: str) -> None:
    result = cli(name, "--help")
    assert result.exit_code == 0
    assert f"Usage: cronflow {name}" in result.stdout


def test_a_command_that_does_not_exist_is_a_usage_error_with_a_suggestion(cli: Cli) -> None:
    result = cli("job", "list")
    assert result.exit_code == 2
    assert "'jobs'" in result.stderr


def test_version_prints_the_installed_versions(cli: Cli) -> None:
    answer = orjson.loads(cli("version", "-o", "json").stdout)
    assert set(answer) == {"cronflow", "python", "platform"}
    assert answer["python"] == sys.version.split()[0]
    assert cli("version", "-o", "name").stdout.strip() == answer["cronflow"]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["runs", "list", "--limit", "0"], "--limit"),
        (["jobs", "next", "x", "-n", "1001"], "-n"),
        (["jobs", "list", "-o", "jsn"], "'json'"),
        (["jobs", "show"], "NAME"),
    ],
)
def test_usage_errors_of_the_real_commands_exit_2(cli: Cli, args: list[str], expected: str) -> None:
    result = cli(*args)
    assert result.exit_code == 2
    assert expected in result.stderr
