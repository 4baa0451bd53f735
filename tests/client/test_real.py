"""The clients against a real API process, a real node and real servers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import cronflow
from cronflow.testing.embedded.server import free_port
from tests.api.test_process import status
from tests.children import ADMIN, PASSWORD, cluster_environment
from tests.forked import process
from tests.waiting import eventually

JOB = {"name": "nightly-report", "run": {"shell": 'echo "for $CRONFLOW_RUN_ID"; echo wrong >&2'}, "timeout": "1m"}

pytestmark = pytest.mark.chaos


@pytest.fixture
async def url(redis_url: str, mongo_url: str, namespace: str, tmp_path: Path) -> AsyncIterator[str]:
    """Of an API with one node."""
    port = free_port()
    own = {"CRONFLOW_ALLOW_SHELL": "true"}
    environment = cluster_environment(redis_url, mongo_url, namespace, **ADMIN, **own)
    api = ["cronflow", "api", "--port", str(port)]
    with process(api, environment, tmp_path / "api.log"), process(["cronflow", "node"], environment, tmp_path / "log"):
        await eventually(lambda: status(f"http://127.0.0.1:{port}/readyz")[0] == 200, what="the API is ready")
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
