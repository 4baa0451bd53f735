"""Nothing of the person who runs the tests reaches a test, and nothing that a test starts outlives the tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.children import PERSONAL_HOME, ROOT, child_environment, clean, cluster_environment, python
from tests.servers import MONGO_URL, REDIS_URL
from tests.waiting import eventually

CLOSED = "127.0.0.1:1"
POISON = {
    "CRONFLOW_REDIS_URL": f"redis://{CLOSED}",
    "CRONFLOW_MONGO_URL": f"mongodb://{CLOSED}",
    "CRONFLOW_NAMESPACE": "of-somebody-else",
    "CRONFLOW_SLOTS": "many",
    "DB_URL": f"mongodb://{CLOSED}",
    "HTTP_PROXY": f"http://{CLOSED}",
    "https_proxy": f"http://{CLOSED}",
    "ALL_PROXY": f"http://{CLOSED}",
    "FORCE_COLOR": "1",
    "NO_COLOR": "1",
    "COLUMNS": "20",
    "TERM": "xterm-256color",
    "TZ": "Asia/Kathmandu",
    "LC_ALL": "de_DE.UTF-8",
    "NOTIFY_SOCKET": "/nowhere",
    "WATCHDOG_USEC": "1",
}
REPRESENTATIVE = (
    "tests/cli/test_errors.py",
    "tests/cli/test_tables.py",
    "tests/api/test_process.py::test_the_api_process_serves_rejects_and_stops",
    "tests/test_children.py::test_a_command_is_for_the_servers_of_the_test",
)


@pytest.fixture
def poisoned(tmp_path: Path) -> dict[str, str]:
    """The environment of a person with settings, and with a login to an API that does not answer."""
    login = tmp_path / "ada" / ".config" / "cronflow" / "login.json"
    login.parent.mkdir(parents=True, mode=0o700)
    kept = {"url": f"http://{CLOSED}", "user": "ada", "token": "t", "refresh": None, "insecure": False}
    login.write_text(json.dumps(kept))
    login.chmod(0o600)
    (tmp_path / "ada" / "cronflow.toml").write_text('slots = "many"\n')
    return {
        **child_environment(),
        **POISON,
        "HOME": str(tmp_path / "ada"),
        "XDG_CONFIG_HOME": str(tmp_path / "ada" / ".config"),
    }


def test_a_command_is_for_the_servers_of_the_test(redis_url: str, mongo_url: str, namespace: str) -> None:
    command = python("-m", "cronflow", "jobs", "list", "-o", "json")
    environment = cluster_environment(redis_url, mongo_url, namespace)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [job["name"] for job in json.loads(done.stdout) if not job["name"].startswith("_sys:")] == []


def test_the_login_of_a_person_would_be_found(poisoned: dict[str, str]) -> None:
    environment = child_environment() | {"HOME": poisoned["HOME"]}
    command = python("-m", "cronflow", "jobs", "list")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 5
    assert CLOSED in done.stderr


@pytest.mark.prove
def test_tests_pass_for_a_person_with_settings_and_a_login(
    poisoned: dict[str, str], redis_url: str, mongo_url: str, tmp_path: Path
) -> None:
    servers = {REDIS_URL: redis_url, MONGO_URL: mongo_url}
    tests: list[str | Path] = ["-c", ROOT / "pyproject.toml", *(ROOT / name for name in REPRESENTATIVE)]
    done = subprocess.run(
        python("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--basetemp", tmp_path / "inner", *tests),
        # The folder has a cronflow.toml.
        cwd=poisoned["HOME"],
        env=poisoned | servers,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


def test_little_is_kept_of_an_environment() -> None:
    kept = {"PATH": "/usr/bin", "CI": "true", REDIS_URL: "redis://r"}
    assert clean(POISON | kept | {"XDG_STATE_HOME": "/x", "PYTHONPATH": "/x"}) == {
        **kept,
        "TZ": "UTC",
        "LANG": "C.UTF-8",
    }


def test_a_test_has_a_home_a_folder_and_a_time_zone_of_its_own(home: Path) -> None:
    assert Path.home() == Path.cwd() == home
    assert list(home.iterdir()) == []
    assert time.tzname == ("UTC", "UTC")
    assert {name for name in os.environ if name.startswith("CRONFLOW_")} <= {REDIS_URL, MONGO_URL}


@pytest.mark.parametrize("home", [{}, {"HOME": PERSONAL_HOME}], ids=["no home", "the home of the person"])
def test_a_child_with_an_environment_of_another_make_is_refused(home: dict[str, str]) -> None:
    with pytest.raises(AssertionError, match=r"use tests\.children"):
        subprocess.run([sys.executable, "-c", ""], env={"PATH": "/usr/bin", **home}, check=False)


@pytest.mark.chaos
@pytest.mark.parametrize(
    ("workers", "number"), [("1", signal.SIGKILL), pytest.param("0", signal.SIGTERM, marks=pytest.mark.prove)]
)
async def test_nothing_is_left_of_tests_that_are_killed(workers: str, number: signal.Signals, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    options: list[str | Path] = ["-q", "-n", workers, "-p", "no:cacheprovider", "--basetemp", inner]
    with (tmp_path / "log").open("wb") as log:
        tests = subprocess.Popen(
            python("-m", "pytest", *options, "tests/interrupted.py"),
            cwd=ROOT,
            env=child_environment(),
            stdout=log,
            stderr=log,
        )
    try:
        what = "servers and a node are up"
        await eventually(lambda: [*inner.rglob("up")] or tests.poll() is not None, 120, what)
        assert tests.poll() is None, (tmp_path / "log").read_text()
        started = psutil.Process(tests.pid).children(recursive=True)
        # Two Redis, one MongoDB, a master with its replica and three sentinels, a forked node and its server.
        assert len(started) >= 10
    finally:
        tests.send_signal(number)
        tests.wait()
    await eventually(lambda: not any(map(alive, started)), what="all of them are gone")


def alive(process: psutil.Process) -> bool:
    """Whether it is there and no zombie."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
