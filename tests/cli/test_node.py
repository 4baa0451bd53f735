"""`cronflow node` and `cronflow api`: what they pass to bootstrap."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from cronflow.bootstrap import api, node
from cronflow.domain.errors import BackendUnavailable
from tests.cli.conftest import Cli


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the import path of the process."""
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, dict[str, Any]]]:
    """Record the arguments instead of running a process."""
    calls: list[tuple[Any, dict[str, Any]]] = []

    async def run_node(settings: Any, **rest: Any) -> None:
        calls.append((settings, rest))

    def serve_api(settings: Any, host: str, port: int, chaos: object) -> None:
        calls.append((settings, {"host": host, "port": port, "chaos": type(chaos).__name__}))

    monkeypatch.setattr(node, "run_node", run_node)
    monkeypatch.setattr(api, "serve_api", serve_api)
    return calls


def test_a_node_gets_its_apps_labels_and_settings(
    cli: Cli, started: list[tuple[Any, dict[str, Any]]], tmp_path: Path
) -> None:
    (tmp_path / "apps_of_a_node.py").write_text("from cronflow import App\nshop = App('shop')\n")
    flags = ["--app", "apps_of_a_node:shop", "--label", "region=eu", "--label", "disk=", "--slots", "3"]
    result = cli("node", *flags, "--name", "worker-1", "--log-level", "warn")
    assert result.exit_code == 0, result.output
    [(settings, rest)] = started
    assert [app.name for app in rest["apps"]] == ["shop"]
    assert rest["labels"] == {"region": "eu", "disk": ""}
    assert (settings.slots, settings.node_name, settings.log_level) == (3, "worker-1", "warn")
    assert settings.sources["slots"] == "flag"
    assert settings.processes == 1


def test_apps_and_labels_come_from_the_settings_unless_there_are_flags(
    cli: Cli, started: list[tuple[Any, dict[str, Any]]], tmp_path: Path
) -> None:
    (tmp_path / "apps_of_settings.py").write_text("from cronflow import App\nshop, club = App('shop'), App('club')\n")
    (tmp_path / "cronflow.toml").write_text('app = "apps_of_settings:shop"\nlabels = "region=eu"\n')
    assert cli("node").exit_code == 0
    assert cli("node", "--app", "apps_of_settings:club", "--label", "disk=ssd").exit_code == 0
    assert [[app.name for app in rest["apps"]] for _, rest in started] == [["shop"], ["club"]]
    assert [rest["labels"] for _, rest in started] == [{"region": "eu"}, {"disk": "ssd"}]


def test_a_node_with_handler_processes_leaves_its_apps_to_them(
    cli: Cli, started: list[tuple[Any, dict[str, Any]]], tmp_path: Path
) -> None:
    (tmp_path / "apps_of_processes.py").write_text("from cronflow import App\nshop = App('shop')\n")
    result = cli("node", "--app", "apps_of_processes:shop", "--processes", "2")
    assert result.exit_code == 0, result.output
    [(settings, rest)] = started
    assert settings.processes == 2
    assert (rest["apps"], rest["app_addresses"]) == ([], ("apps_of_processes:shop",))
    assert "apps_of_processes" not in sys.modules
    assert sys.path[0] == str(tmp_path)


def test_all_problems_are_reported_before_a_server_is_contacted(
    cli: Cli, started: list[tuple[Any, dict[str, Any]]]
) -> None:
    flags = ["--app", "nowhere_at_all:app", "--label", "eu", "--label", "a=1", "--label", "a=2", "--slots", "0"]
    result = cli("node", *flags)
    assert result.exit_code == 2
    assert started == []
    lines = result.stderr.splitlines()
    assert len(lines) == 4
    assert "nowhere_at_all" in lines[0]
    assert "'eu' is not KEY=VALUE" in lines[1]
    assert "a is given twice" in lines[2]
    assert lines[3].startswith("error: --slots:")


def test_a_node_that_cannot_reach_its_servers_at_startup_exits_5(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: Any, **__: Any) -> None:
        raise ExceptionGroup("roles", [BackendUnavailable("Redis", "r:6379", "refused")])

    monkeypatch.setattr(node, "run_node", away)
    result = cli("node")
    assert result.exit_code == 5
    assert "Redis at r:6379 is unavailable" in result.stderr


def test_the_api_gets_its_address(cli: Cli, started: list[tuple[Any, dict[str, Any]]]) -> None:
    assert cli("api").exit_code == 0
    assert cli("api", "--host", "0.0.0.0", "--port", "9000").exit_code == 0
    assert cli("api", "--chaos", ".").exit_code == 0
    assert [rest for _, rest in started] == [
        {"host": "127.0.0.1", "port": 8500, "chaos": "NoneType"},
        {"host": "0.0.0.0", "port": 9000, "chaos": "NoneType"},
        {"host": "127.0.0.1", "port": 8500, "chaos": "DevChaos"},
    ]
    assert cli("api", "--port", "70000").exit_code == 2
