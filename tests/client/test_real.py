"""The clients against a real API process, a real node and real servers."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import cronflow
from cronflow.embedded.server import free_port
from tests.api.test_process import ROOT, process, status
from tests.waiting import eventually

PASSWORD = "only-for-this-test"
JOB = {"name": "nightly-report", "run": {"shell": 'echo "for $CRONFLOW_RUN_ID"; echo wrong >&2'}, "timeout": "1m"}

pytestmark = pytest.mark.chaos


@pytest.fixture
async def url(redis_url: str, mongo_url: str, namespace: str, tmp_path: Path) -> AsyncIterator[str]:
    """Of an API with one node."""
    port = free_port()
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("CRONFLOW_")},
        "CRONFLOW_REDIS_URL": redis_url,
        "CRONFLOW_MONGO_URL": mongo_url,
        "CRONFLOW_NAMESPACE": namespace,
        "CRONFLOW_ADMIN_PASSWORD": PASSWORD,
        "CRONFLOW_JWT_SECRET": "of-thirty-two-bytes-or-some-more",
        "CRONFLOW_ALLOW_SHELL": "true",
        "CRONFLOW_SPOOL_DIR": str(tmp_path / "spool"),
        "PYTHONPATH": str(ROOT),
    }
    api = ["cronflow", "api", "--port", str(port)]
    with process(api, environment, tmp_path / "api.log"), process(["cronflow", "node"], environment, tmp_path / "log"):
        await eventually(lambda: status(f"http://127.0.0.1:{port}/readyz")[0] == 200, 60, "the API is ready")
        yield f"http://127.0.0.1:{port}"


async def test_a_job_is_defined_run_and_looked_at(url: str) -> None:
    async with cronflow.AsyncClient(url) as client:
        await client.login("admin", PASSWORD)
        [planned] = await client.jobs.plan([JOB])
        assert planned["result"] == "created"
        job = await client.jobs.put(JOB)
        assert [found["name"] async for found in client.jobs.list("report")] == ["nightly-report"]
        changed = await client.jobs.patch("nightly-report", {"timeout": "2m"}, version=job["version"])
        with pytest.raises(cronflow.ApiError, match="409"):
            await client.jobs.patch("nightly-report", {"timeout": "3m"}, version=job["version"])
        assert changed["timeout"] == "2m"
        asked = await client.jobs.run("nightly-report", key="once")
        assert (await client.jobs.run("nightly-report", key="once"))["id"] == asked["id"]
        done = await client.runs.wait(asked["id"], timeout_s=60)
        assert (done["state"], done["late"]) == ("succeeded", [])
        lines = [(line["level"], line["text"]) async for line in client.runs.logs(asked["id"])]
        assert sorted(lines) == [("info", f"for {asked['id']}"), ("warn", "wrong")]
        assert [run["id"] async for run in client.runs.list(job="nightly-report", state=["succeeded"])] == [asked["id"]]
        [node] = [node async for node in client.nodes.list()]
        assert (await client.cluster.get())["leader"] == node["name"]
        with pytest.raises(cronflow.ApiError, match="404"):
            await client.jobs.get("nobody")
        await client.logout()
        with pytest.raises(cronflow.ApiError, match="401"):
            await client.cluster.get()


async def test_the_example_of_the_readme_runs(url: str, tmp_path: Path) -> None:
    async with cronflow.AsyncClient(url) as client:
        await client.login("admin", PASSWORD)
        await client.jobs.put(JOB | {"run": {"python": "billing:nightly_report"}, "retry": {"max": 0}})
        assert client.tokens is not None
        token = client.tokens.access
    text = (ROOT / "README.md").read_text("utf-8")
    [example] = [block for block in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S) if "Client(" in block]
    program = tmp_path / "example.py"
    program.write_text(example.replace("http://127.0.0.1:8500", url).replace("cfk.deploy.…", token))
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, str(program)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # The node has no such function, and says so.
    assert "nightly-report@manual-" in done.stdout
    assert "not allowed on this node" in done.stdout


async def test_the_how_to_on_following_runs(url: str, tmp_path: Path) -> None:
    async with cronflow.AsyncClient(url) as client:
        await client.login("admin", PASSWORD)
        shell = "echo reading 3 rows; echo almost nothing >&2"
        await client.jobs.put({"name": "nightly-report", "run": {"shell": shell}})
    text = (ROOT / "docs" / "how-to" / "follow.md").read_text("utf-8")
    said = []
    for number, example in enumerate(re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)):
        program = tmp_path / f"example-{number}.py"
        program.write_text(example)
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, str(program)],
            env=os.environ | {"PYTHONPATH": str(ROOT), "API": url, "PASSWORD": PASSWORD},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        said.append(done.stdout.splitlines())
    first, second = said
    assert {"info reading 3 rows", "warn almost nothing", "found reading 3 rows"} <= set(first)
    assert "the run is succeeded" in first
    assert any("nightly-report was created" in one for one in first)
    assert second[0].startswith("leader ")
    assert "logs?level=warn ['almost nothing']" in second
