"""`cronflow dev` as a person runs it: the examples, for a while, on real servers."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from cronflow.testing.embedded.server import free_port
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"

pytestmark = pytest.mark.chaos


def environment(**more: str) -> dict[str, str]:
    """This process's, without settings of its own."""
    return {key: value for key, value in os.environ.items() if not key.startswith("CRONFLOW_")} | more


def command(*arguments: str | Path) -> list[str]:
    """`cronflow dev …` of this checkout."""
    return [sys.executable, "-m", "cronflow", "dev", *map(str, arguments)]


def dev(*arguments: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    return subprocess.run(
        command(*arguments), cwd=ROOT, env=environment(**more), capture_output=True, text=True, timeout=120, check=False
    )


def examples_on(port: int, folder: Path) -> Path:
    """The example jobs, with the address of this test's API."""
    copy = folder / "jobs.yaml"
    copy.write_text((EXAMPLES / "jobs.yaml").read_text().replace("127.0.0.1:8500", f"127.0.0.1:{port}"))
    for module in ("heartbeat.py", "sales_report.py"):
        (folder / module).write_text((EXAMPLES / module).read_text())
    return copy


def summary(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The object at the end."""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_examples_run_on_real_servers_and_again_on_the_data_that_was_kept(tmp_path: Path) -> None:
    port, data, scratch = free_port(), tmp_path / "data", tmp_path / "scratch"
    scratch.mkdir()
    out = scratch / "cronflow-examples"
    jobs = examples_on(port, tmp_path)
    run: list[str | Path] = [jobs, EXAMPLES / "reminder.py", "--data", data, "--port", str(port), "-o", "json"]
    first = dev(*run, "--for", "25s", TMPDIR=str(scratch))
    assert first.returncode == 0, first.stderr
    found = summary(first)
    assert (found["lost"], found["doubled"], found["failovers"]) == (0, 0, 0)
    assert found["fires_due"] >= 25 + 12 + 2 + 1 + 1 + 1 + 1
    assert found["dead"] == []
    assert set(found["runs"]) <= {"succeeded", "running", "dispatched", "retrying"}
    assert sum(found["runs"].values()) - found["runs"]["succeeded"] == len(found["open"])
    archives = sorted((out / "backups").glob("orders-*.tar.gz"))
    assert archives
    with tarfile.open(archives[-1]) as archive:
        assert "orders/sales.csv" in archive.getnames()
    report = next(out.glob("sales-*.txt")).read_text()
    totals = [line.split() for line in report.splitlines()[1:]]
    assert [region for region, _ in totals if region in {"north", "south", "east", "west"}] == [r for r, _ in totals]
    assert len(totals) == 4
    assert not list(out.glob("*.tmp"))

    second = dev(*run, "--for", "5s", TMPDIR=str(scratch))
    assert second.returncode == 0, second.stderr
    again = summary(second)
    # The second counts from where the first left off: what fell due in between is covered, not forgotten.
    assert (again["lost"], again["doubled"]) == (0, 0)
    assert again["fires_due"] > 5 + 2


def test_no_job_fires_before_the_api_listens_that_it_may_ask(tmp_path: Path) -> None:
    port, late = free_port(), tmp_path / "late"
    late.mkdir()
    (late / "sitecustomize.py").write_text("import sys, time\nif 'api' in sys.orig_argv: time.sleep(5)\n")
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text(
        "jobs: [{name: ask, schedule: {every: 1s}, retry: {max: 0}, overlap: queue, "
        f"run: {{http: {{url: 'http://127.0.0.1:{port}/livez', expect: [200]}}}}}}]"
    )
    done = dev(
        jobs, "--data", tmp_path / "data", "--port", str(port), "--for", "4s", "-o", "json", PYTHONPATH=str(late)
    )
    assert done.returncode == 0, done.stderr
    found = summary(done)
    assert found["dead"] == []
    assert found["runs"]["succeeded"] >= 3


async def test_a_killed_node_is_started_again_and_nothing_is_lost(tmp_path: Path) -> None:
    port = free_port()
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text('jobs: [{name: tick, schedule: {every: 1s}, run: {shell: "true"}, retry: {max: 0}}]')
    child = subprocess.Popen(
        command(jobs, "--data", tmp_path / "data", "--port", str(port), "--for", "25s"),
        cwd=ROOT,
        env=environment(
            CRONFLOW_LEADER_TTL="3s", CRONFLOW_LEADER_RENEW="1s", CRONFLOW_NODE_TTL="2s", CRONFLOW_HEARTBEAT="500ms"
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:

        def node_pids() -> list[int]:
            found = subprocess.run(
                ["pgrep", "-P", str(child.pid), "-f", "cronflow node --name"],
                capture_output=True,
                text=True,
                check=False,
            )
            return [int(word) for word in found.stdout.split()]

        def alive() -> bool:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
                    return bool(answer.status == 200)
            except OSError:
                return False

        await eventually(alive, 30, "the API is ready")
        victims = await eventually(
            lambda: len(found) == 3 and found if (found := node_pids()) else None, 20, "three nodes"
        )
        assert victims
        os.kill(victims[0], signal.SIGKILL)
        await eventually(lambda: len(node_pids()) == 3 and victims[0] not in node_pids(), 20, "three nodes again")
        text, _ = child.communicate(timeout=90)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 0, text
    assert "was killed by SIGKILL; it is started again" in text
    assert "every fire has exactly one run" in text


def test_without_servers_it_runs_in_memory_and_says_so_loudly(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text("jobs: [{name: tick, schedule: {every: 1s}, run: {shell: 'true'}, retry: {max: 0}}]")
    done = dev(jobs, "--memory", "--for", "3s", "--port", str(free_port()), "-o", "json")
    assert done.returncode == 0, done.stderr
    assert "RUNNING IN MEMORY" in done.stderr
    assert re.search(r"log in as admin with the password \S{16}\n", done.stderr)
    assert summary(done)["lost"] == 0
    assert summary(done)["runs"]["succeeded"] >= 3


async def test_the_admin_logs_in_with_the_password_of_the_environment(tmp_path: Path) -> None:
    port = free_port()
    child = subprocess.Popen(
        command("--memory", "--for", "60s", "--port", str(port)),
        cwd=tmp_path,
        env=environment(CRONFLOW_ADMIN_PASSWORD="correct horse", PYTHONPATH=str(ROOT)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )

    def ask(path: str, token: str = "", **body: str) -> Any:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        sent = json.dumps(body).encode() if body else None
        request = urllib.request.Request(f"http://127.0.0.1:{port}/api/v1{path}", data=sent, headers=headers)
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            return json.load(answer)

    def up() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=2).close()
        except OSError:
            return False
        return True

    try:
        await eventually(up, 30, "the API listens")
        given = ask("/auth/token", username="admin", password="correct horse")
        assert ask("/users", given["access_token"]) == {"items": [], "next_cursor": None}
        ask("/secrets", given["access_token"], name="TOKEN", value="a value")
        for password in ("wrong horse", ""):
            with pytest.raises(urllib.error.HTTPError, match=r"401|422"):
                ask("/auth/token", username="admin", password=password)
        child.send_signal(signal.SIGTERM)
        text, _ = child.communicate(timeout=60)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 0, text
    assert "with the password of the settings" in text
    assert "horse" not in text


def test_a_file_with_an_error_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text("jobs:\n  - name: never\n    schedule: {cron: '0 0 31 2 *'}\n    run: {shell: 'true'}\n")
    done = dev(jobs, "--data", tmp_path / "data", "--for", "3s")
    assert done.returncode == 2
    assert "jobs.yaml:3" in done.stderr
    assert "never fires" in done.stderr
    assert not (tmp_path / "data").exists()


def test_a_port_that_is_taken_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = dev("--data", tmp_path / "data", "--port", str(taken.getsockname()[1]), "--for", "3s")
    assert done.returncode == 2
    assert "is taken" in done.stderr
    assert "--port" in done.stderr
