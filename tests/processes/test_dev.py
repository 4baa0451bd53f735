"""`cronflow dev` with the examples on real servers."""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import tarfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cronflow.testing.embedded.server import free_port
from tests.children import ADMIN, PASSWORD, ROOT, child_environment, python
from tests.waiting import PATIENCE_S, eventually

EXAMPLES = ROOT / "docs" / "examples"

pytestmark = pytest.mark.chaos


def command(*arguments: str | Path) -> list[str]:
    """`cronflow dev …` of this checkout."""
    return python("-m", "cronflow", "dev", *arguments)


def dev(*arguments: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), env=child_environment(**more), capture_output=True, text=True, timeout=120, check=False
    )


@contextmanager
def started(folder: Path, *arguments: str | Path, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start it with its output in the files `out` and `err` of the directory."""
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        child = subprocess.Popen(command(*arguments), env=child_environment(**more), stdout=out, stderr=err)
        try:
            yield child
        finally:
            child.kill()
            child.wait()


async def stopped(child: subprocess.Popen[bytes], folder: Path) -> tuple[str, str]:
    """Wait until it has stopped. Returns stdout and stderr."""
    code = await eventually(lambda: child.poll() is not None and [child.returncode], what="it has exited")
    out, err = (folder / "out").read_text(), (folder / "err").read_text()
    assert code == [0], out + err
    return out, err


async def dev_until(
    condition: Callable[[], object], folder: Path, *arguments: str | Path, **more: str
) -> tuple[dict[str, Any], str]:
    """Run it until the condition holds. Returns the summary and stderr."""
    with started(folder, *arguments, "--for", "10m", "-o", "json", **more) as child:
        await eventually(lambda: condition() or child.poll() is not None, 2 * PATIENCE_S, "the condition")
        child.send_signal(signal.SIGTERM)
        out, err = await stopped(child, folder)
    found: dict[str, Any] = json.loads(out)
    return found, err


def ask(port: int, path: str, token: str = "", **body: str) -> Any:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    sent = json.dumps(body).encode() if body else None
    request = urllib.request.Request(f"http://127.0.0.1:{port}/api/v1{path}", data=sent, headers=headers)
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        return json.load(answer)


class Succeeded:
    """The number of successful runs of each job according to the API; empty while it does not listen."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._token = ""
        self._asked = 0.0
        self._found: Counter[str] = Counter()

    def __call__(self) -> Counter[str]:
        # Not on every poll, because the API limits the request rate.
        if time.monotonic() < self._asked + 1:
            return self._found
        self._asked = time.monotonic()
        try:
            if not self._token:
                self._token = ask(self._port, "/auth/token", username="admin", password=PASSWORD)["access_token"]
            runs = ask(self._port, "/runs?state=succeeded&limit=500", self._token)["items"]
        except urllib.error.HTTPError as refused:
            refused.close()
        except OSError:
            pass
        else:
            self._found = Counter(run["job"] for run in runs)
        return self._found


def examples_on(port: int, folder: Path) -> Path:
    """The example jobs, with the port of this test's API."""
    copy = folder / "jobs.yaml"
    copy.write_text((EXAMPLES / "jobs.yaml").read_text().replace("127.0.0.1:8500", f"127.0.0.1:{port}"))
    for module in ("heartbeat.py", "sales_report.py"):
        (folder / module).write_text((EXAMPLES / module).read_text())
    return copy


SCHEDULED = {"backup-folder", "check-livez", "sales-report", "fails-twice", "tick", "tock", "tea-is-ready"}
"""The examples with a schedule."""


async def test_the_examples_run_on_real_servers_and_again_on_the_same_data(tmp_path: Path, home: Path) -> None:
    port, data, scratch = free_port(), tmp_path / "data", tmp_path / "scratch"
    scratch.mkdir()
    # The working directory is like the root of the repository, but without a cronflow.toml.
    (home / "docs").symlink_to(ROOT / "docs")
    out = scratch / "cronflow-examples"
    jobs = examples_on(port, tmp_path)
    run: list[str | Path] = [jobs, EXAMPLES / "reminder.py", "--data", data, "--port", str(port)]
    own = {"TMPDIR": str(scratch), **ADMIN}
    succeeded = Succeeded(port)
    found, err = await dev_until(lambda: succeeded().keys() >= SCHEDULED, tmp_path, *run, **own)
    assert "with the password of the settings" in err
    assert PASSWORD not in err
    assert (found["lost"], found["doubled"], found["failovers"]) == (0, 0, 0)
    assert found["fires_due"] >= len(SCHEDULED)
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

    second = dev(*run, "--for", "5s", "-o", "json", **own)
    assert second.returncode == 0, second.stderr
    assert not [path for path in (data, *data.rglob("*")) if path.stat().st_mode & 0o077]
    password = (data / "servers-password").read_text().strip()
    assert password not in second.stderr
    assert (
        data / "redis-url"
    ).read_text() == f"redis://:{password}@127.0.0.1:{(data / 'redis.port').read_text().strip()}/0\n"
    again = json.loads(second.stdout)
    # The second run continues where the first stopped: fires missed in between are covered.
    assert (again["lost"], again["doubled"]) == (0, 0)
    assert again["fires_due"] > 5 + 2


def exposed(secret: str) -> list[str]:
    """The processes in whose environment everyone of their user can read the secret."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if secret in environ.read_text(errors="replace"):
                found.append((environ.parent / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


async def test_no_job_fires_before_the_api_listens_and_a_killed_node_is_restarted(tmp_path: Path) -> None:
    port, key = free_port(), base64.b64encode(secrets.token_bytes(32)).decode()
    late, jobs = tmp_path / "late", tmp_path / "jobs.yaml"
    late.mkdir()
    (late / "sitecustomize.py").write_text("import sys, time\nif 'api' in sys.orig_argv: time.sleep(5)\n")
    asks = f"{{http: {{url: 'http://127.0.0.1:{port}/livez', expect: [200]}}}}"
    rest = "schedule: {every: 1s}, retry: {max: 0}, overlap: queue"
    jobs.write_text(f"jobs: [{{name: tick, run: {{shell: 'true'}}, {rest}}}, {{name: ask, run: {asks}, {rest}}}]\n")
    limits = {"CRONFLOW_LEADER_TTL": "3s", "CRONFLOW_LEADER_RENEW": "1s"}
    limits |= {"CRONFLOW_NODE_TTL": "2s", "CRONFLOW_HEARTBEAT": "500ms"}
    succeeded = Succeeded(port)
    words: list[str | Path] = [jobs, "--data", tmp_path / "data", "--port", str(port), "--for", "10m"]
    path = f"{late}{os.pathsep}{ROOT}"
    with started(tmp_path, *words, **limits, **ADMIN, CRONFLOW_SECRETS_KEY=key, PYTHONPATH=path) as child:

        def node_pids() -> list[int]:
            found = subprocess.run(
                ["pgrep", "-P", str(child.pid), "-f", "cronflow node --name"],
                capture_output=True,
                text=True,
                check=False,
            )
            return [int(word) for word in found.stdout.split()]

        await eventually(lambda: succeeded()["ask"] >= 3, 2 * PATIENCE_S, "the first runs")
        token = ask(port, "/auth/token", username="admin", password=PASSWORD)["access_token"]
        assert ask(port, "/runs?dead=true", token)["items"] == []
        victims = await eventually(
            lambda: len(found) == 3 and found if (found := node_pids()) else None, what="three nodes"
        )
        assert victims
        os.kill(victims[0], signal.SIGKILL)
        await eventually(lambda: len(node_pids()) == 3 and victims[0] not in node_pids(), what="three nodes again")
        before = succeeded()["tick"]
        await eventually(lambda: succeeded()["tick"] > before + 3, what="more runs")
        # Neither dev nor its servers, nodes and API, once they have started.
        await eventually(lambda: not exposed(key), what="no process shows the key")
        child.send_signal(signal.SIGTERM)
        text = "".join(await stopped(child, tmp_path))
    assert "was killed by SIGKILL; restarting" in text
    assert "every fire has exactly one run" in text


async def test_without_servers_it_runs_in_memory_with_a_warning_and_a_password_of_its_own(tmp_path: Path) -> None:
    jobs, ticks = tmp_path / "jobs.yaml", tmp_path / "ticks"
    job = {"name": "tick", "schedule": {"every": "1s"}, "run": {"shell": f"echo >>{ticks}"}, "retry": {"max": 0}}
    jobs.write_text(json.dumps({"jobs": [job]}))
    ticks.touch()
    port = free_port()
    # The summary does not count fires from before the nodes were up.
    words: list[str | Path] = [jobs, "--memory", "--port", str(port), "--for", "10m", "-o", "json"]
    with started(tmp_path, *words) as child:
        await eventually(lambda: len(ticks.read_text()) > 3, 2 * PATIENCE_S, "the first runs")
        found = re.search(r"log in as admin with the password (\S{16})\n", (tmp_path / "err").read_text())
        assert found
        given = ask(port, "/auth/token", username="admin", password=found[1])
        assert ask(port, "/users", given["access_token"]) == {"items": [], "next_cursor": None}
        ask(port, "/secrets", given["access_token"], name="TOKEN", value="a value")
        for password in ("wrong horse", ""):
            with pytest.raises(urllib.error.HTTPError, match=r"401|422"):
                ask(port, "/auth/token", username="admin", password=password)
        child.send_signal(signal.SIGTERM)
        out, err = await stopped(child, tmp_path)
    assert "RUNNING IN MEMORY" in err
    summary = json.loads(out)
    assert summary["lost"] == 0
    assert summary["runs"]["succeeded"] >= 1


def test_a_file_with_an_error_is_rejected_before_anything_starts(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text("jobs:\n  - name: never\n    schedule: {cron: '0 0 31 2 *'}\n    run: {shell: 'true'}\n")
    done = dev(jobs, "--data", tmp_path / "data", "--for", "3s")
    assert done.returncode == 2
    assert "jobs.yaml:3" in done.stderr
    assert "never fires" in done.stderr
    assert not (tmp_path / "data").exists()


def test_a_port_in_use_is_rejected_with_a_remedy(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = dev("--data", tmp_path / "data", "--port", str(taken.getsockname()[1]), "--for", "3s")
    assert done.returncode == 2
    assert "is in use" in done.stderr
    assert "--port" in done.stderr
