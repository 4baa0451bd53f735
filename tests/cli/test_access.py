"""`cronflow users`, `keys` and `secrets`, the audit log of commands, and credentials of `cronflow dev`."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from cronflow.auth.vault import Vault
from cronflow.cli.dev.inputs import complete
from cronflow.config import Settings, credentials
from cronflow.domain.access import AuditEntry, Role
from cronflow.domain.errors import CronFlowError
from cronflow.ports import AuditQuery
from cronflow.usecases import UseCases
from tests.cli.conftest import Cli, parsed, row
from tests.cli.scene import FAILED, RETRYING, Scene
from tests.cli.served import serving

GOOD = "a good password\n"


@pytest.fixture(autouse=True)
def _ann(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "ann")
    monkeypatch.setattr("socket.gethostname", lambda: "laptop")


def audit(scene: Scene) -> list[AuditEntry]:
    """The oldest first."""
    return asyncio.run(scene.service.backends.audit.find(AuditQuery(by="ann@laptop")))[::-1]


def test_a_user_is_created_changed_and_deleted(cli: Cli, empty: Scene) -> None:
    assert "cronflow users create NAME" in cli("users", "list").stdout
    made = parsed(cli("users", "create", "ada", "--role", "operator", "-o", "json", stdin=GOOD))
    assert (made["name"], made["role"], made["enabled"]) == ("ada", "operator", True)
    assert "operator" in row(cli("users", "list"), "ada")
    assert "disabled" in row(cli("users", "change", "ada", "--disable", "--role", "admin"), "ada")
    assert cli("users", "change", "ada", "--password", stdin="another good one\n").exit_code == 0
    assert cli("users", "delete", "ada").exit_code == 0
    assert cli("users", "delete", "ada").exit_code == 3
    assert [(entry.action, entry.target) for entry in audit(empty)] == [
        ("user.create", "user:ada"),
        ("user.change", "user:ada"),
        ("user.change", "user:ada"),
        ("user.delete", "user:ada"),
    ]
    assert "good" not in repr(audit(empty))


@pytest.mark.usefixtures("empty")
def test_an_invalid_user_is_refused(cli: Cli) -> None:
    assert "no password given" in cli("users", "create", "ada", stdin="").stderr
    short = cli("users", "create", "ada", stdin="short\n")
    assert (short.exit_code, "8 to 1024 characters" in short.stderr, "short" in short.stderr) == (2, True, False)
    assert "ADMIN_USER" in cli("users", "create", "admin", stdin=GOOD).stderr
    assert cli("users", "create", "ada", "--role", "root", stdin=GOOD).exit_code == 2
    assert "nothing to change" in cli("users", "change", "ada").stderr
    assert cli("users", "change", "ada", "--enable").exit_code == 3


def test_an_unreadable_duration_names_its_option(cli: Cli) -> None:
    refused = cli("keys", "create", "ci", "--role", "operator", "--expires-in", "3q")
    assert refused.exit_code == 2
    assert "--expires-in: '3q' is not a duration" in refused.stderr


def test_a_key_is_printed_once(cli: Cli, empty: Scene) -> None:
    made = cli("keys", "create", "ci", "--role", "operator", "--job", "billing-*", "--expires-in", "90d")
    text = made.stdout.strip()
    assert text.startswith("cfk.ci.")
    assert "cannot be shown again" in made.stderr
    [listed] = parsed(cli("keys", "list", "-o", "json"))
    assert (listed["jobs"], listed["expires_at"], listed["created_by"]) == (
        ["billing-*"],
        "2027-02-19T12:00:00Z",
        "ann@laptop",
    )
    line = row(cli("keys", "list"), "ci")
    assert "billing-*" in line
    assert text not in line
    assert asyncio.run(empty.service.keys.principal(text)) is not None
    assert cli("keys", "create", "ci").exit_code == 1
    assert cli("keys", "delete", "ci").exit_code == 0
    assert asyncio.run(empty.service.keys.principal(text)) is None
    assert [entry.action for entry in audit(empty)] == ["key.create", "key.delete"]
    assert cli("keys", "create", "other", "-o", "name").stdout.startswith("cfk.other.")


def test_the_key_of_an_editor_is_what_ci_needs(cli: Cli, empty: Scene, home: Path) -> None:
    file = home / "jobs.yaml"
    file.write_text("jobs: [{name: billing-report, run: {shell: 'true'}}]")
    with serving() as served:
        replica = served.serve(empty)
        for name in ("ci", "plain"):
            _, key = asyncio.run(
                replica.service.keys.create(name, Role.EDITOR, jobs=("billing-*",), allow_shell=name == "ci")
            )
            assert cli("login", served.url, "--key-stdin", stdin=f"{key}\n").exit_code == 0
            if name == "plain":
                break
            assert "billing-report" in cli("jobs", "apply", "-f", str(file), "--dry-run").stdout
            assert cli("jobs", "apply", "-f", str(file)).exit_code == 0
            # The key may not list the nodes, which is no reason to report that the run has failed.
            ran = cli("jobs", "run", "billing-report", "-o", "name")
            assert (ran.exit_code, ran.stdout[:22]) == (0, "billing-report@manual-"), ran.stderr
            assert cli("jobs", "list", "-o", "name").stdout == "billing-report\n"
            assert cli("jobs", "delete", "billing-report").exit_code == 0
        for words in (["--dry-run"], []):
            refused = cli("jobs", "apply", "-f", str(file), *words)
            assert (refused.exit_code, refused.stderr.count("error:")) == (1, 1)
            assert "key:plain may not write billing-report, which runs a command" in refused.stderr
            assert "--allow-shell" in refused.stderr


def test_a_secret_comes_from_stdin_and_is_never_shown(cli: Cli, empty: Scene) -> None:
    empty.service = UseCases(empty.backends, empty.clock, vault=Vault([b"0" * 32]))
    value = "line one\nline two"
    assert "secret DB_PASSWORD created" in cli("secrets", "set", "DB_PASSWORD", stdin=value + "\n").stdout
    [secret] = asyncio.run(empty.backends.secrets.find())
    assert Vault([b"0" * 32]).open(secret) == value
    assert "replaced" in cli("secrets", "set", "DB_PASSWORD", stdin="another").stdout
    assert "ann@laptop" in row(cli("secrets", "list"), "DB_PASSWORD")
    assert parsed(cli("secrets", "list", "-o", "json"))[0].keys() == {"name", "updated_at", "updated_by"}
    assert cli("secrets", "set", "DB_PASSWORD", "a value").exit_code == 2
    assert cli("secrets", "delete", "DB_PASSWORD").exit_code == 0
    assert cli("secrets", "delete", "DB_PASSWORD").exit_code == 3
    assert [entry.action for entry in audit(empty)] == ["secret.set", "secret.set", "secret.delete"]


@pytest.mark.usefixtures("empty")
def test_without_a_key_a_secret_is_refused_with_the_remedy(cli: Cli) -> None:
    refused = cli("secrets", "set", "token", stdin="a value")
    assert refused.exit_code == 2
    assert "openssl rand -base64 32" in refused.stderr
    assert "SECRETS_KEY" in refused.stderr


def test_every_command_that_changes_something_is_in_the_audit_log(cli: Cli, scene: Scene) -> None:
    for words in (
        ["jobs", "pause", "sync-tokens"],
        ["jobs", "resume", "sync-tokens"],
        ["jobs", "run", "rebuild-cache"],
        ["jobs", "delete", "clean-uploads"],
        ["runs", "cancel", RETRYING],
        ["runs", "retry", FAILED],
        ["nodes", "drain", "node-b"],
        ["nodes", "undrain", "node-b"],
        ["cluster", "stepdown"],
    ):
        result = cli(*words)
        assert result.exit_code == 0, (words, result.stderr)
    assert [entry.action for entry in audit(scene)] == [
        "job.pause",
        "job.resume",
        "job.run",
        "job.delete",
        "run.cancel",
        "run.retry",
        "node.drain",
        "node.undrain",
        "cluster.stepdown",
    ]
    assert {entry.address for entry in audit(scene)} == {None}


def test_the_api_does_not_start_without_an_admin_and_a_signing_secret(cli: Cli) -> None:
    refused = cli("api")
    assert refused.exit_code == 2
    assert "CRONFLOW_ADMIN_PASSWORD: is not set, and there is no default password" in refused.stderr
    assert "CRONFLOW_JWT_SECRET: is not set" in refused.stderr


# ------------------------------------------------------------------------------------------ a development cluster's own


def test_a_data_folder_has_credentials_of_its_own_that_only_its_owner_can_read(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    first, again, other = complete(Settings(), one), complete(Settings(), one), complete(Settings(), two)
    assert (first.password, first.for_api, first.for_all) == (again.password, again.for_api, again.for_all)
    assert first.password != other.password
    assert first.settings.jwt_secret != other.settings.jwt_secret
    assert credentials(first.settings).password == first.password
    assert first.for_all.keys() == {"CRONFLOW_SECRETS_KEY"}
    assert first.for_api.keys() == {"CRONFLOW_ADMIN_PASSWORD", "CRONFLOW_JWT_SECRET"}
    files = sorted(one.iterdir())
    assert [file.name for file in files] == ["admin-password", "jwt-secret", "secrets-key"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_credentials_from_the_settings_are_used_and_not_printed(tmp_path: Path) -> None:
    given = Settings(admin_password="of the settings", jwt_secret="x" * 32, secrets_key=(b"0" * 32,))
    found = complete(given, tmp_path)
    assert (found.settings, found.password, found.for_api, found.for_all) == (given, None, {}, {})
    assert list(tmp_path.iterdir()) == []


def test_in_memory_credentials_are_new_each_time() -> None:
    assert complete(Settings(), None).password != complete(Settings(), None).password


def test_an_unusable_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CronFlowError, match="admin-password cannot be used"):
        complete(Settings(), tmp_path / "gone")


def test_the_audit_log_is_listed_by_user_and_age(cli: Cli, scene: Scene) -> None:
    asyncio.run(scene.clock.advance(60))
    begin = scene.clock.now()
    asyncio.run(scene.service.jobs.pause("sync-tokens", by="grace"))
    asyncio.run(scene.service.users.create("new", Role.VIEWER, "a long password", by="ada"))
    line = row(cli("audit", "list", "--who", "grace"), "job:sync-tokens")
    assert "job.pause" in line
    assert "paused: false → true" in line
    since = parsed(cli("audit", "list", "--since", begin.isoformat(), "-o", "json"))
    assert [(entry["by"], entry["action"]) for entry in since] == [("ada", "user.create"), ("grace", "job.pause")]
    assert len(parsed(cli("audit", "list", "-n", "1", "-o", "json"))) == 1
    assert "No changes match." in cli("audit", "list", "--who", "nobody").stdout
