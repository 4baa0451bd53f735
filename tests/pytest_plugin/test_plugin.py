"""The pytest plugin: it disturbs no suite that does not use it, and its cluster is real."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cronflow.pytest_plugin import SERVERS
from tests.children import child_environment
from tests.testing.jobs import app

if TYPE_CHECKING:
    from cronflow.pytest_plugin.cluster import JobCluster

WITHOUT_IT = """
import sys

def test_nothing_of_cronflow_is_imported(request):
    found = {name for name in sys.modules if name.partition(".")[0] == "cronflow"}
    assert found == {"cronflow", "cronflow.pytest_plugin"}
    assert request.fixturenames == ["request"]
"""
WITHOUT_SERVERS = """
import pytest
from cronflow.testing.embedded import CannotStart, RedisServer

@pytest.fixture(scope="session", autouse=True)
def no_server():
    def start(self):
        raise CannotStart("Redis", "no program was found", remedy="pip install 'cronflow[embedded]'")
    RedisServer.start = start

def test_a_server_is_missing(cronflow_cluster): ...
"""


@pytest.fixture(scope="session")
def cronflow_servers(redis_url: str, mongo_url: str) -> tuple[str, str]:
    """The servers of this suite."""
    return redis_url, mongo_url


def suite(folder: Path, text: str) -> tuple[int, str]:
    """A suite of somebody else, in which warnings are errors."""
    (folder / "test_it.py").write_text(text, "utf-8")
    others = [f"-pno:{name}" for name in ("asyncio", "cacheprovider", "hypothesispytest", "schemathesis", "valkey")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-Werror", *others, str(folder)],
        cwd=folder,
        env=child_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_suite_that_does_not_use_it_is_not_disturbed(tmp_path: Path) -> None:
    code, output = suite(tmp_path, WITHOUT_IT)
    assert code == 0, output
    assert "warning" not in output


def test_without_servers_the_error_has_both_remedies(tmp_path: Path) -> None:
    code, output = suite(tmp_path, WITHOUT_SERVERS)
    assert code == 1
    assert "the fixture cronflow_servers needs Redis." in output
    assert "pip install 'cronflow[embedded]'" in output
    assert f"Or set {SERVERS[0]} to the URL of a running server." in output


def test_a_cluster_has_nodes_here_and_in_processes_and_some_simulate_failures(
    cronflow_cluster: JobCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cronflow_cluster.define(app, {"name": "nowhere", "run": {"python": "absent:function"}})
    cronflow_cluster.start_node(app, labels={"at": "home"})
    (node,) = cronflow_cluster.client.nodes.list()
    assert node["labels"] == {"at": "home"}
    run = cronflow_cluster.run("report", {"region": "us"})
    assert (run["state"], run["result"]) == ("succeeded", {"region": "us", "at": run["fire_at"].replace("Z", "+00:00")})
    with pytest.raises(TimeoutError, match="it is retrying; waits for: no node has absent:function; start one"):
        cronflow_cluster.run("nowhere", timeout_s=0.5)
    cronflow_cluster.stop_node()
    monkeypatch.setenv("PYTHONPATH", child_environment()["PYTHONPATH"])
    monkeypatch.setenv("CRONFLOW_SIMULATE_FAILURE", "true")  # not taken over by a child
    cronflow_cluster.start_node("tests.testing.jobs:app", name="child")
    assert cronflow_cluster.run("printing")["state"] == "succeeded"
    with pytest.raises(RuntimeError, match=r"(?s)node wrong ended with exit code 2.*there is no module 'nowhere'"):
        cronflow_cluster.start_node("nowhere:app", name="wrong")
    cronflow_cluster.stop_node("child")
    cronflow_cluster.environment["CRONFLOW_SIMULATE_FAILURE"] = "true"
    cronflow_cluster.define(
        {"name": "fails", "run": {"python": "tests.testing.jobs:printing"}, "retry": {"max": 1, "initial": "0s"}}
    )
    cronflow_cluster.start_node("tests.testing.jobs:app", name="failing")
    failed = cronflow_cluster.run("fails")
    assert (failed["state"], [attempt["outcome"] for attempt in failed["attempts"]]) == ("failed", ["error", "error"])
    assert str(failed["error"]).endswith("simulated failure for testing (SIMULATE_FAILURE)")
    assert list(cronflow_cluster.client.runs.logs(failed["id"])) == []
