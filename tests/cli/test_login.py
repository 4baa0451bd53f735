"""`cronflow login`, `logout` and `whoami`, and whether later commands use the API."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cronflow.auth.tokens import ACCESS_S
from cronflow.cli import connect
from cronflow.cli.commands import login
from cronflow.domain.access import Role
from tests.auth.bench import PASSWORD, Replica
from tests.children import child_environment
from tests.cli.conftest import Cli, parsed, row
from tests.cli.scene import Scene
from tests.cli.served import Served, serving
from tests.cli.test_imports import HEAVY, SCRIPT

pytestmark = pytest.mark.usefixtures("logged_to_stderr")


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with serving() as served:
        yield served


@pytest.fixture
def replica(scene: Scene, server: Served) -> Replica:
    return server.serve(scene)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The login file."""
    return tmp_path / "config" / "cronflow" / "login.json"


@pytest.fixture
def key(replica: Replica) -> str:
    """The API key of a script, limited to the jobs of one team."""
    return asyncio.run(replica.service.keys.create("deploy", Role.OPERATOR, jobs=("night*",)))[1]


def test_commands_use_the_api_from_login_to_logout(
    cli: Cli, replica: Replica, server: Served, scene: Scene, kept: Path
) -> None:
    logged_in = cli("login", f"{server.url}/", "--user", "admin", "--password-stdin", stdin=f"{PASSWORD}\n")
    assert logged_in.stdout == f"✓ ok  admin, admin, via {server.url}\n"
    assert str(kept) in logged_in.stderr
    assert PASSWORD not in kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert len(parsed(cli("jobs", "list", "-o", "json"))) == 12
    assert scene.opened == 0
    assert connect.api_in_use == server.url
    me = parsed(cli("whoami", "-o", "json"))
    assert me == {
        "url": server.url,
        "name": "admin",
        "role": "admin",
        "jobs": [],
        "allow_shell": False,
        "allow_secrets": False,
        "source": str(kept),
    }
    session = connect.current_login()
    assert session is not None
    assert cli("logout").stdout == f"Logged out of {server.url}.\n"
    assert not kept.exists()
    assert asyncio.run(replica.lets_in(session[0].token)) is False
    assert cli("jobs", "list").exit_code == 0
    assert scene.opened == 1
    refused = cli("whoami")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "not logged in" in refused.stderr
    assert cli("logout").stdout == "Not logged in.\n"


@pytest.mark.usefixtures("replica")
def test_on_a_terminal_the_password_is_read_from_a_hidden_prompt(
    cli: Cli, server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, bool]] = []

    def prompt(what: str, *, hide_input: bool = False, **_: Any) -> str:
        asked.append((what, hide_input))
        return PASSWORD if hide_input else "admin"

    monkeypatch.setattr("typer.prompt", prompt)
    monkeypatch.setattr(login, "interactive", lambda: True)
    monkeypatch.setattr("cronflow.cli.terminal.output.interactive", lambda: True)
    assert cli("login", server.url).exit_code == 0
    assert asked == [("User", False), ("Password", True)]


@pytest.mark.usefixtures("replica")
def test_a_wrong_password_is_refused_and_keeps_the_previous_login(cli: Cli, server: Served, kept: Path) -> None:
    server.log_in(cli)
    before = kept.read_bytes()
    result = cli("login", "--user", "admin", "--password-stdin", stdin="not the password\n")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"{server.url} refused the login of admin: wrong username or password" in result.stderr
    assert kept.read_bytes() == before


def test_a_second_login_ends_the_session_of_the_first(cli: Cli, replica: Replica, server: Served) -> None:
    server.log_in(cli)
    first = connect.current_login()
    server.log_in(cli)
    second = connect.current_login()
    assert first is not None
    assert second is not None
    assert asyncio.run(replica.lets_in(first[0].token)) is False
    assert asyncio.run(replica.lets_in(second[0].token)) is True


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["login"], "give the address of the API"),
        (["login", "cron.example.com"], "write https://host"),
        (["login", "https://ada:geheim@cron.example.com"], "must not contain a password"),
        (["login", "http://cron.example.com", "--user", "ada", "--password-stdin"], "use https://"),
        (["login", "https://cron.example.com", "--password-stdin"], "give the user name"),
        (["login", "https://cron.example.com", "--user", "ada"], "no terminal to ask"),
        (["login", "https://cron.example.com", "--user", "ada", "--key-stdin"], "an API key has no user"),
        (["login", "https://cron.example.com", "--key-stdin"], "stdin: no API key given"),
    ],
)
def test_an_invalid_login_is_refused_before_any_prompt(cli: Cli, words: list[str], message: str) -> None:
    result = cli(*words, stdin="")
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert "geheim@" not in result.stderr


def test_a_key_logs_in_and_reaches_only_its_jobs(cli: Cli, server: Served, key: str, kept: Path) -> None:
    result = cli("login", server.url, "--key-stdin", stdin=f"{key}\n")
    assert result.stdout == f"✓ ok  key:deploy, operator for jobs such as night*, via {server.url}\n"
    assert cli("jobs", "show", "nightly-report").exit_code == 0
    assert cli("jobs", "pause", "nightly-report").exit_code == 0
    other = cli("jobs", "pause", "sync-tokens")
    assert (other.exit_code, other.stdout) == (1, "")
    assert "key:deploy may only access jobs that match night*, one at a time" in other.stderr
    assert cli("logout").exit_code == 0
    assert not kept.exists()


def test_the_api_of_the_environment_takes_precedence_over_a_login(
    cli: Cli, server: Served, key: str, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.log_in(cli)
    monkeypatch.setenv("CRONFLOW_API_URL", server.url)
    assert cli("whoami", "-o", "name").stdout == "admin\n", "the login is for that address"
    monkeypatch.setenv("CRONFLOW_API_KEY", key)
    assert cli("whoami", "-o", "name").stdout == "key:deploy\n"
    monkeypatch.delenv("CRONFLOW_API_KEY")
    (tmp_path / "key").write_text(f"{key}\n")
    monkeypatch.setenv("CRONFLOW_API_KEY_FILE", str(tmp_path / "key"))
    assert cli("whoami", "-o", "name").stdout == "key:deploy\n"
    monkeypatch.setenv("CRONFLOW_API_KEY", key)
    assert "both set" in cli("whoami").stderr
    monkeypatch.delenv("CRONFLOW_API_KEY_FILE")
    monkeypatch.delenv("CRONFLOW_API_URL")
    assert "CRONFLOW_API_URL is not" in cli("whoami").stderr
    monkeypatch.delenv("CRONFLOW_API_KEY")
    kept.unlink()
    monkeypatch.setenv("CRONFLOW_API_URL", "https://cron.example.com")
    refused = cli("jobs", "list")
    assert refused.exit_code == 2
    assert "you are not logged in there" in refused.stderr
    monkeypatch.setenv("CRONFLOW_API_KEY_FILE", str(tmp_path / "nothing"))
    assert "cannot be read" in cli("jobs", "list").stderr
    monkeypatch.delenv("CRONFLOW_API_KEY_FILE")
    monkeypatch.setenv("CRONFLOW_API_KEY", key)
    monkeypatch.setenv("CRONFLOW_API_URL", "http://cron.example.com")
    assert "CRONFLOW_API_INSECURE" in cli("jobs", "list").stderr


@pytest.mark.parametrize(
    "variable",
    ["CRONFLOW_REDIS_URL=redis://:geheim@here:6379/0", "CRONFLOW_MONGO_URL=mongodb://here/?replicaSet=rs0", "DB_URL"],
)
@pytest.mark.usefixtures("replica")
def test_servers_of_the_environment_win_over_a_saved_login_and_the_command_says_so(
    cli: Cli, server: Served, scene: Scene, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    server.log_in(cli)
    monkeypatch.setenv("CRONFLOW_REDIS_URL", "redis://here:6379/0")
    monkeypatch.setenv("CRONFLOW_MONGO_URL", "mongodb://here/?replicaSet=rs0")
    name, _, value = variable.partition("=")
    monkeypatch.setenv(name, value or "mongodb://here/?replicaSet=rs0")
    monkeypatch.setenv("CRONFLOW_NAMESPACE", "staging")
    server.requests.clear()
    line = f"namespace staging at .*here.* and .*here.*; ignored: the saved login at {server.url}"
    for words in (["jobs", "pause", "sync-tokens", "-o", "name"], ["jobs", "list", "-o", "name"]):
        result = cli(*words)
        assert result.exit_code == 0, result.stderr
        assert re.fullmatch(f"cluster: {line}\n", result.stderr)
        assert "geheim" not in result.stderr
    assert f"commands do not use the saved login at {server.url}, but namespace staging at" in cli("whoami").stderr
    assert server.requests == []
    assert scene.opened == 2


@pytest.mark.usefixtures("replica")
def test_an_incomplete_choice_in_the_environment_is_refused_instead_of_using_the_saved_login(
    cli: Cli, server: Served, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.log_in(cli)
    monkeypatch.setenv("CRONFLOW_NAMESPACE", "staging")
    server.requests.clear()
    refused = cli("jobs", "pause", "sync-tokens")
    assert (refused.exit_code, server.requests, scene.opened) == (2, [], 0)
    assert "CRONFLOW_NAMESPACE: selects the servers of the settings, but CRONFLOW_REDIS_URL and" in refused.stderr
    assert "choose a saved login with --context NAME" in refused.stderr
    assert cli("jobs", "pause", "sync-tokens", "--context", "default").exit_code == 0


@pytest.mark.usefixtures("replica")
def test_a_cronflow_toml_does_not_move_commands_away_from_a_saved_login(
    cli: Cli, server: Served, scene: Scene, tmp_path: Path
) -> None:
    server.log_in(cli)
    (tmp_path / "cronflow.toml").write_text('redis_url = "redis://here:6379/0"\n')
    result = cli("jobs", "list")
    assert result.stderr == f"cluster: {server.url} as admin, context default; ignored: REDIS_URL in cronflow.toml\n"
    assert scene.opened == 0


def test_contexts_are_named_listed_chosen_and_deleted(
    cli: Cli, replica: Replica, server: Served, key: str, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.log_in(cli)
    named = cli("login", server.url, "--context", "prod", "--key-stdin", stdin=f"{key}\n")
    prod = kept.parent / "contexts" / "prod.json"
    assert f"stored as context prod in {prod}" in named.stderr
    assert (prod.stat().st_mode & 0o777, prod.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert parsed(cli("context", "list", "-o", "json")) == [
        {"name": "default", "url": server.url, "user": "admin", "current": False},
        {"name": "prod", "url": server.url, "user": None, "current": True},
    ]
    assert row(cli("context", "list"), "prod").split() == ["*", "prod", server.url, "API", "key"]
    assert cli("whoami", "-o", "name").stdout == "key:deploy\n"
    assert cli("whoami", "-o", "name", "--context", "default").stdout == "admin\n"
    assert cli("--context", "default", "whoami", "-o", "name").stdout == "admin\n"
    paused = cli("jobs", "pause", "nightly-report", "-o", "name", "--context", "prod")
    assert (paused.stdout, paused.stderr) == ("nightly-report\n", f"cluster: {server.url}, context prod\n")
    monkeypatch.setenv("CRONFLOW_CONTEXT", "default")
    assert cli("whoami", "-o", "name").stdout == "admin\n"
    assert cli("whoami", "-o", "name", "--context", "prod").stdout == "key:deploy\n", "a flag comes first"
    monkeypatch.setenv("CRONFLOW_REDIS_URL", "redis://here:6379/0")
    assert "context default; ignored: CRONFLOW_REDIS_URL\n" in cli("jobs", "list").stderr
    monkeypatch.delenv("CRONFLOW_REDIS_URL")
    used = cli("context", "use", "prod")
    assert used.stdout == f"Now using context prod at {server.url}.\n"
    assert "commands use" in used.stderr
    assert "flags and environment come before a saved login" in used.stderr
    monkeypatch.delenv("CRONFLOW_CONTEXT")
    unknown = cli("context", "use", "prd")
    assert unknown.exit_code == 3
    assert "did you mean prod?" in unknown.stderr
    assert "there is no saved login 'test'" in cli("jobs", "list", "--context", "test").stderr
    assert cli("context", "delete", "prod").stdout == "- context prod deleted\n"
    assert not prod.exists()
    assert "not logged in" in cli("whoami").stderr, "another cluster does not become the current one by itself"
    assert cli("context", "use", "default").exit_code == 0
    found = connect.current_login()
    assert found is not None
    assert cli("context", "delete", "default").exit_code == 0
    assert asyncio.run(replica.lets_in(found[0].token)) is False, "the session has ended"
    assert parsed(cli("context", "list", "-o", "json")) == []


def test_a_login_file_of_a_version_without_contexts_is_the_default_context(
    cli: Cli, server: Served, key: str, kept: Path
) -> None:
    kept.parent.mkdir(parents=True)
    content = {"url": server.url, "user": "", "token": key, "refresh": None, "insecure": False}
    kept.write_text(json.dumps(content))
    kept.chmod(0o600)
    assert cli("whoami", "-o", "name").stdout == "key:deploy\n"
    assert row(cli("context", "list"), "default").startswith("* ")


def test_an_expired_access_token_is_renewed_and_stored(
    cli: Cli, replica: Replica, server: Served, scene: Scene, kept: Path
) -> None:
    server.log_in(cli)
    before = kept.read_bytes()
    for _ in range(2):
        scene.clock.step(timedelta(seconds=ACCESS_S + 1))
        assert cli("jobs", "list").exit_code == 0
        assert kept.read_bytes() != before
    asyncio.run(replica.service.users.create("ada", Role.VIEWER, "a long password"))
    server.log_in(cli, "ada", "a long password")
    asyncio.run(replica.service.users.change("ada", enabled=False))
    ended = cli("jobs", "list")
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert ended.stderr.splitlines() == [
        f"error: the login of ada at {server.url} has ended",
        f"  → log in again: cronflow login {server.url}",
    ]


def test_an_unreachable_api_is_reported_with_its_address_and_code_5(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("cronflow.client.calls.FIRST_PAUSE_S", 0.0)
    monkeypatch.setenv("CRONFLOW_API_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("CRONFLOW_API_KEY", "cfk.deploy.x")
    away = cli("jobs", "list")
    assert (away.exit_code, away.stdout) == (5, "")
    assert "the API at http://127.0.0.1:1 is unavailable" in away.stderr
    assert "via http://127.0.0.1:1" in away.stderr
    (tmp_path / "jobs.yaml").write_text("jobs: [{name: a}]")
    wrong = cli("jobs", "apply", "-f", "jobs.yaml")
    assert wrong.exit_code == 2, "errors in a file are reported first"
    (tmp_path / "jobs.yaml").write_text("jobs: [{name: a, run: {shell: x}}]")
    assert cli("jobs", "apply", "-f", "jobs.yaml").exit_code == 5


def test_jobs_without_a_retry_get_that_of_the_api(
    cli: Cli, replica: Replica, server: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server.log_in(cli)
    monkeypatch.setenv("CRONFLOW_RETRY_MAX", "9")
    (tmp_path / "jobs.yaml").write_text("jobs: [{name: a, run: {shell: x}}]")
    assert cli("jobs", "apply", "-f", "jobs.yaml").exit_code == 0
    assert asyncio.run(replica.service.jobs.get("a")).job.retry.max == 3
    cli("logout")


@pytest.mark.usefixtures("replica")
def test_config_shows_whether_commands_use_the_api(
    cli: Cli, server: Served, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert row(cli("config", "show"), "API_URL").split() == ["API_URL", "unset", "default"]
    server.log_in(cli)
    shown = cli("config", "show")
    assert row(shown, "API_URL").split() == ["API_URL", server.url, "login", str(kept)]
    assert f"commands use the API at {server.url} as admin" in shown.stderr
    checked = cli("config", "check")
    assert f"commands use the API at {server.url}" in checked.stderr
    assert "unset" not in checked.stderr
    kept.chmod(0o644)
    assert "chmod 600" in cli("config", "show").stderr
    assert cli("config", "check").exit_code == 2
    kept.unlink()
    monkeypatch.setenv("CRONFLOW_API_KEY", "cfk.deploy.x")
    monkeypatch.setenv("CRONFLOW_API_URL", "https://cron.example.com")
    shown = cli("config", "show")
    assert row(shown, "API_KEY").split() == ["API_KEY", "***", "environment", "CRONFLOW_API_KEY"]
    assert "use the API at https://cron.example.com with an API key" in shown.stderr


@pytest.mark.usefixtures("replica")
@pytest.mark.parametrize(
    "command", [["jobs", "list"], ["runs", "list"], ["cluster", "status"], ["keys", "list"]], ids=" ".join
)
def test_through_the_api_no_driver_and_no_framework_is_imported(
    cli: Cli, server: Served, command: list[str], tmp_path: Path
) -> None:
    server.log_in(cli)
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, *command],
        cwd=tmp_path,
        env=child_environment(XDG_CONFIG_HOME=os.environ["XDG_CONFIG_HOME"]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    loaded = set(result.stdout.splitlines()[-1].split())
    assert "httpx2" in loaded
    assert sorted((HEAVY - {"httpx2", "pydantic"}) & loaded) == []
