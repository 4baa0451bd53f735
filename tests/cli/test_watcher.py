"""`cronflow watcher`: its exit codes and its output, and options that are refused before anything is contacted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from cronflow.backends.clock import SystemClock
from cronflow.bootstrap import watcher as process
from cronflow.testing.memory import MemoryBackends, memory_backends
from tests.cli.conftest import Cli

SERVERS = {"CRONFLOW_REDIS_URL": "redis://127.0.0.1:1", "CRONFLOW_MONGO_URL": "mongodb://127.0.0.1:1/?replicaSet=rs0"}


@pytest.fixture
def backends(monkeypatch: pytest.MonkeyPatch) -> MemoryBackends:
    """Servers in memory instead of those of the settings."""
    for name, value in SERVERS.items():
        monkeypatch.setenv(name, value)
    found = memory_backends(SystemClock())
    monkeypatch.setattr(process, "adapters", lambda *_: found)
    return found


def test_a_single_round_without_findings_exits_0(cli: Cli, backends: MemoryBackends) -> None:
    result = cli("watcher", "--once")
    assert (result.exit_code, result.stdout.strip()) == (0, "✓ ok 0 jobs")
    answer = orjson.loads(cli("watcher", "--once", "-o", "json").stdout)
    assert (answer["ok"], answer["findings"], answer["jobs"]) == (True, [], 0)


def test_a_single_round_with_a_finding_exits_1_and_prints_it(cli: Cli, backends: MemoryBackends) -> None:
    backends.faults.fail_before("MongoDB", 1000)
    result = cli("watcher", "--once", "-o", "json")
    [found] = orjson.loads(result.stdout)["findings"]
    assert (result.exit_code, found["kind"]) == (1, "mongodb_away")
    assert set(orjson.loads(result.stdout)["unknown"]) >= {"no_leader", "instants_without_run"}
    shown = cli("watcher", "--once").stdout
    assert "mongodb_away" in shown
    assert cli("watcher", "--once", "-o", "name").stdout.split() == ["mongodb_away"]


def test_rounds_share_what_they_found_through_the_snapshot(cli: Cli, backends: MemoryBackends, tmp_path: Path) -> None:
    backends.faults.fail_before("MongoDB", 1000)
    words = ("watcher", "--once", "--snapshot", str(tmp_path / "snapshot"), "-o", "json")
    first, second = (orjson.loads(cli(*words).stdout)["findings"][0] for _ in range(2))
    assert first["since"] == second["since"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--grace", "1s"], "--grace: 1s is too short; it must be at least 5s"),
        (["--every", "2h"], "--every: 2h is too long; it must be at most 1h"),
        (["--repeat", "soon"], "--repeat: "),
        (["--ping", "ftp://x"], "--ping: not an http:// or https:// address"),
        (["--secret", "HOOKS"], "--secret: 'HOOKS' is not NAME=FILE"),
        (["--secret", "HOOKS=missing"], "--secret HOOKS: missing cannot be read: No such file"),
        (["--alerts", "missing.yaml"], "missing.yaml: no such file"),
        (["--snapshot", "no/where"], "--snapshot no/where: cannot be written"),
        (["-o", "json"], "--output: has no effect without --once"),
    ],
)
def test_options_that_nobody_could_mean_exit_2(
    cli: Cli, backends: MemoryBackends, words: list[str], message: str
) -> None:
    result = cli("watcher", *words)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("receiver", "message"),
    [
        (
            "{name: a, webhook: {url: 'https://x.example'}, on: [failed]}",
            "receivers[0].on: has no effect for a watcher",
        ),
        ("{name: a, webhook: {url: 'https://x.example'}, jobs: [x]}", "leave it out: a watcher sends every finding"),
        ("{name: a}", "receivers[0].webhook: "),
        ("{name: a, webhook: {url: 'https://x.example', secret: '${secret:HOOKS}'}}", "the receivers need HOOKS"),
        ("{name: a, webhook: {url: '${secret:CHAT}', format: slack}}", "give its file: --secret CHAT=FILE"),
    ],
)
def test_a_receiver_that_could_not_work_is_refused(
    cli: Cli, backends: MemoryBackends, tmp_path: Path, receiver: str, message: str
) -> None:
    file = tmp_path / "watcher.yaml"
    file.write_text(f"receivers:\n  - {receiver}\n", "utf-8")
    result = cli("watcher", "--once", "--alerts", str(file))
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_a_snapshot_of_another_cluster_exits_2(cli: Cli, backends: MemoryBackends, tmp_path: Path) -> None:
    (tmp_path / "snapshot").write_text('{"format": 1, "namespace": "other"}')
    result = cli("watcher", "--once", "--snapshot", str(tmp_path / "snapshot"))
    assert result.exit_code == 2
    assert "is a snapshot of the cluster 'other'" in result.stderr


def test_its_process_has_nothing_of_the_leader_and_the_workers() -> None:
    script = "import sys, cronflow.bootstrap.watcher; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    shared = ("cronflow.leader", "cronflow.worker", "cronflow.api", "cronflow.usecases", "cronflow.testing", "fastapi")
    assert "cronflow.watcher.watcher" in loaded
    assert [name for name in loaded if name.startswith(shared)] == []
