"""`cronflow config …`."""

from __future__ import annotations

from importlib.metadata import version as installed
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, parsed, row


def test_settings_are_shown_with_their_sources_and_without_passwords(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CRONFLOW_REDIS_URL", "redis://me:geheim@redis:6379/0")
    (tmp_path / "cronflow.toml").write_text('slots = 4\nleader_ttl = "20s"\nleader_renew = "10s"\n')
    result = cli("config", "show")
    assert "geheim" not in result.output
    assert row(result, "REDIS_URL").split() == [
        "REDIS_URL",
        "redis://me:***@redis:6379/0",
        "environment",
        "CRONFLOW_REDIS_URL",
    ]
    assert row(result, "SLOTS").split() == ["SLOTS", "4", "cronflow.toml"]
    assert row(result, "HEARTBEAT").split() == ["HEARTBEAT", "5s", "default"]
    listed = parsed(cli("config", "show", "-o", "json"))
    assert {"name": "SLOTS", "value": "4", "source": "cronflow.toml"} in listed


def test_check_reports_every_problem_and_exits_2(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRONFLOW_SLOTS", "many")
    monkeypatch.setenv("CRONFLOW_LEADR_TTL", "20s")
    monkeypatch.setenv("CRONFLOW_HEARTBEAT", "soon")
    result = cli("config", "check")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert sorted(line.split(": ")[1] for line in result.stderr.splitlines()) == [
        "CRONFLOW_HEARTBEAT",
        "CRONFLOW_LEADR_TTL",
        "CRONFLOW_SLOTS",
    ]
    assert "did you mean CRONFLOW_LEADER_TTL?" in result.stderr


def test_checking_valid_settings_exits_0_and_names_unset_urls(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRONFLOW_MONGO_URL", "mongodb://db:27017")
    result = cli("config", "check")
    assert result.exit_code == 0
    assert "✓ ok" in result.stdout
    assert "environment CRONFLOW_MONGO_URL" in result.stdout
    assert "REDIS_URL is not set" in result.stderr
    assert "MONGO_URL unset" not in result.stderr


def test_settings_without_effect_are_noted(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_URL", "postgres://host/db")
    assert "DB_URL has no effect" in cli("config", "check").stderr
    assert "DB_URL has no effect" in cli("config", "show").stderr


def test_a_setting_that_nothing_would_follow_stops_every_command(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRONFLOW_SCHEDULER_NODE", "2")
    for command in ("node", "api"):
        refused = cli(command)
        assert refused.exit_code == 2
        assert "CRONFLOW_SCHEDULER_NODE: is not supported by this version" in refused.stderr


@pytest.mark.parametrize("words", [("--version",), ("version", "-o", "name")])
def test_the_version_is_an_option_and_a_command(cli: Cli, words: tuple[str, ...]) -> None:
    result = cli(*words)
    assert (result.exit_code, result.stdout.split()[-1]) == (0, installed("cronflow"))
