"""Chaos routes of a development cluster: required role, audit entries, and their absence in every other API."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path

import psutil
import pytest

from cronflow.api.bodies import Deployment
from cronflow.api.routes.chaos import Chaos
from cronflow.backends.redis.connection import RedisConnection
from cronflow.cli.dev.processes import DevChaos
from cronflow.domain.errors import NotFound
from cronflow.testing.child_process import Child
from tests.api.conftest import Client, Document, api_of, client_of, the_document
from tests.cli.scene import Scene
from tests.waiting import eventually
from tools.docs.api import document


class RecordingChaos(Chaos):
    """Breaks nothing and records the calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.paused = {"node-1": False, "node-2": False}

    def nodes(self) -> dict[str, bool]:
        return self.paused

    def kill(self, name: str) -> None:
        self.calls.append(f"kill {name}")

    def pause(self, name: str) -> None:
        if name not in self.paused:
            raise NotFound("node", name)
        self.paused[name] = True

    def resume(self, name: str) -> None:
        self.paused[name] = False

    async def flush(self) -> int:
        return 7


@pytest.fixture
def chaos() -> RecordingChaos:
    return RecordingChaos()


@cache
def document_of_dev() -> Document:
    return Document(document(Deployment(chaos=RecordingChaos())))


@pytest.fixture
async def dev(scene: Scene, chaos: RecordingChaos) -> AsyncIterator[Client]:
    """The API of a development cluster."""
    async with client_of(scene.service, api_of(scene.service, Deployment(chaos=chaos))) as client:
        client.document = document_of_dev()
        yield client


ROUTES = [
    ("GET", "/chaos/nodes"),
    ("POST", "/chaos/leader/kill"),
    ("POST", "/chaos/nodes/node-1/pause"),
    ("POST", "/chaos/nodes/node-1/resume"),
    ("POST", "/chaos/redis/flush"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_only_the_api_of_dev_has_the_routes_and_only_for_admins(
    client: Client, dev: Client, chaos: RecordingChaos, method: str, path: str
) -> None:
    assert not [known for known in the_document().content["paths"] if "chaos" in known]
    assert "chaos" not in {tag["name"] for tag in the_document().content["tags"]}
    assert (await client.ask(method, path)).status_code == 404
    for who, status in ((None, 401), ("viewer", 403), ("operator", 403)):
        assert (await dev.ask(method, path, who=who)).status_code == status
    assert chaos.calls == []
    assert (await dev.ask(method, path)).status_code == 200


async def test_the_settings_show_whether_chaos_is_available(client: Client, dev: Client) -> None:
    assert (await client.get("/cluster/settings"))["chaos"] is False
    assert (await dev.get("/cluster/settings", who="viewer"))["chaos"] is True


async def test_chaos_actions_are_performed_and_recorded_in_the_audit_log(
    scene: Scene, dev: Client, chaos: RecordingChaos
) -> None:
    leader = (await scene.service.cluster.status()).leader
    killed = await dev.post("/chaos/leader/kill")
    assert (killed["killed"], chaos.calls) == (leader, [f"kill {leader}"])
    assert await dev.post("/chaos/nodes/node-2/pause") == {"name": "node-2", "paused": True}
    assert await dev.all("/chaos/nodes") == [
        {"name": "node-1", "paused": False},
        {"name": "node-2", "paused": True},
    ]
    assert await dev.post("/chaos/nodes/node-2/resume") == {"name": "node-2", "paused": False}
    await dev.post("/chaos/nodes/node-9/pause", status=404)
    assert await dev.post("/chaos/redis/flush") == {"keys": 7}
    entries = [(entry["action"], entry["target"], entry["by"]) for entry in await dev.all("/audit")][:4]
    assert entries == [
        ("chaos.flush", "redis", "the-admin"),
        ("chaos.resume", "node:node-2", "the-admin"),
        ("chaos.pause", "node:node-2", "the-admin"),
        ("chaos.kill", f"node:{leader}", "the-admin"),
    ]


async def test_only_processes_listed_in_the_directory_are_paused_resumed_and_killed(tmp_path: Path) -> None:
    folder = tmp_path / "processes"
    folder.mkdir()
    (tmp_path / "outside").write_text("1")
    breaks = DevChaos(folder, "", "default")
    child = await asyncio.create_subprocess_exec("sleep", "600")
    try:
        (folder / "node-1").write_text(str(child.pid))
        (folder / "node-2").write_text("")  # it is starting
        assert breaks.nodes() == {"node-1": False}
        breaks.pause("node-1")
        await eventually(lambda: psutil.Process(child.pid).status() == psutil.STATUS_STOPPED, what="it is paused")
        assert breaks.nodes() == {"node-1": True}
        breaks.resume("node-1")
        await eventually(lambda: breaks.nodes() == {"node-1": False}, what="it runs again")
        for name in ("node-2", "node-3", "../outside"):
            with pytest.raises(NotFound):
                breaks.kill(name)
        breaks.kill("node-1")
        assert await child.wait() == -signal.SIGKILL
        assert breaks.nodes() == {}
        with pytest.raises(NotFound):
            breaks.kill("node-1")
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()


async def test_flushing_deletes_only_the_keys_of_this_cluster(redis_url: str) -> None:
    async with RedisConnection(redis_url, "flushed") as redis, RedisConnection(redis_url, "flushed2") as other:
        for one in (redis, other):
            for key in (one.keys.redis_epoch, one.keys.leader, one.keys.nodes):
                await one.command("SET", key, "x")
        assert await DevChaos(Path(), redis_url, "flushed").flush() == 3
        assert await redis.command("EXISTS", redis.keys.redis_epoch, redis.keys.leader, redis.keys.nodes) == 0
        assert await other.command("EXISTS", other.keys.redis_epoch, other.keys.leader, other.keys.nodes) == 3
        assert await DevChaos(Path(), redis_url, "flushed2").flush() == 3


async def test_a_process_has_a_pid_file_while_it_runs_and_can_be_stopped_while_paused(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "processes"
    folder.mkdir()
    output: list[str] = []
    child = Child("node-1", [], {}, tmp_path / "log", lambda _, line: output.append(line), folder / "node-1")
    child._command = ["/bin/sleep", "600"]
    running = asyncio.create_task(child.run())
    breaks = DevChaos(folder, "", "default")
    await eventually(lambda: breaks.nodes() == {"node-1": False}, what="it runs")
    breaks.pause("node-1")
    await eventually(lambda: breaks.nodes() == {"node-1": True}, what="it is paused")
    await child.stop(30)
    await running
    assert child._process is not None
    assert child._process.returncode == -signal.SIGTERM, "not that of SIGKILL, which is the last resort"
    assert (list(folder.iterdir()), output) == ([], [])
