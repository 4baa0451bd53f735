"""The client on the servers themselves: the methods of the API client, and following on the memory backend."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cronflow.backends.clock import SystemClock
from cronflow.client import admin, aio, local, local_admin
from cronflow.client.local import LocalClient
from cronflow.domain.errors import NotFound
from cronflow.domain.run import OPEN, RunState
from cronflow.live.hub import Hub
from cronflow.live.state import ClusterConfig
from cronflow.ports import LogLine
from cronflow.testing.memory import MemoryBackends, memory_backends
from cronflow.usecases import UseCases
from tests.cli.scene import FENCE, RUNNING, RUNS, SUCCEEDED
from tests.contracts.builders import T0

WITHIN_S = 30.0


class Open:
    """A client whose live stream runs in this process."""

    def __init__(self) -> None:
        clock = SystemClock()
        self.backends: MemoryBackends = memory_backends(clock)
        self.service = UseCases(self.backends, clock)
        self.hub = Hub(self.backends, clock, ClusterConfig())

    @asynccontextmanager
    async def client(self) -> AsyncIterator[LocalClient]:
        await self.backends.runs.insert(RUNS)
        running = asyncio.create_task(self.hub.run())
        try:
            yield LocalClient(self.service, hub=self.hub)
        finally:
            running.cancel()
            await asyncio.wait({running})

    async def write(self, *numbers: int, published: bool) -> None:
        """Lines of the run: stored, and perhaps published too."""
        lines = [a_line(n) for n in numbers]
        if published:
            await self.backends.live_tail.publish(lines)
        await self.backends.logs.append(lines)

    def end(self) -> None:
        runs: Any = self.backends.documents.runs
        runs[RUNNING] = replace(runs[RUNNING], state=RunState.SUCCEEDED, ended_at=T0)


def a_line(n: int, level: str = "info") -> LogLine:
    at = T0 + timedelta(seconds=n)
    return LogLine(run=RUNNING, job="reindex-search", fence=FENCE, attempt=1, n=n, at=at, level=level, text=f"line {n}")


@pytest.fixture
def opened() -> Open:
    return Open()


async def test_a_run_is_followed_from_its_first_line_through_a_gap_to_its_end(opened: Open) -> None:
    found: list[str] = []
    async with opened.client() as client, asyncio.timeout(WITHIN_S):
        await opened.write(0, 1, published=False)
        async with aclosing(client.runs.follow(RUNNING)) as messages:
            async for message in messages:
                found.append(message["line"]["text"] if message["t"] == "line" else message["run"]["state"])
                if found[-1] == "line 1":
                    await opened.write(2, published=True)
                if found[-1] == "line 2":
                    await opened.write(3, published=False)
                    await opened.write(4, published=True)
                if found[-1] == "line 4":
                    await opened.write(5, published=False)
                    opened.end()
    assert found == ["running", *(f"line {n}" for n in range(6)), "succeeded"]


async def test_lines_are_searched_to_a_limit_and_followed(opened: Open) -> None:
    async with opened.client() as client, asyncio.timeout(WITHIN_S):
        await opened.write(0, 1, 2, published=False)
        lines = [line["text"] async for line in client.logs.search("LINE", job="reindex-search", limit=2)]
        assert lines == ["line 2", "line 1"]
        assert [line async for line in client.logs.search(level="warn", limit=2)] == []
        found = []
        async with aclosing(client.logs.follow(job="reindex-search", tail=1)) as messages:
            async for message in messages:
                assert message["t"] == "line"
                found.append(message["line"]["text"])
                if len(found) == 1:
                    await opened.write(3, published=True)
                else:
                    break
    assert found == ["line 2", "line 3"]


async def test_a_repeated_snapshot_has_a_gap_before_it(opened: Open) -> None:
    async with opened.client() as client, asyncio.timeout(WITHIN_S):
        assert {run["state"] async for run in client.runs.list(state=sorted(OPEN), limit=10)} == OPEN
        assert (await client.runs.get(SUCCEEDED))["id"] == SUCCEEDED
        assert [event async for event in client.events.list(limit=5)] == []
        with pytest.raises(NotFound):
            await anext(client.runs.follow("nothing@1"))
        seen = []
        async with aclosing(client.follow()) as messages:
            async for message in messages:
                seen.append(message["t"])
                if seen == ["snap"]:
                    opened.hub.generation += 1
                if seen[-2:] == ["gap", "snap"]:
                    break
        assert seen[0] == "snap"
        assert not opened.hub.sessions


@pytest.mark.parametrize("limit", [None, 1, 2, 3, 100])
async def test_lists_are_read_page_by_page_up_to_the_limit(
    opened: Open, monkeypatch: pytest.MonkeyPatch, limit: int | None
) -> None:
    monkeypatch.setattr(local_admin, "PAGE", 2)
    async with opened.client() as client:
        found = [run["id"] async for run in client.runs.list(limit=limit)]
    newest = sorted(RUNS, key=lambda run: (run.fire_at, run.id), reverse=True)
    assert found == [run.id for run in newest][:limit]


def test_its_methods_are_those_of_the_api_client() -> None:
    """With the parameters of the API client, except those that only a connection needs."""
    connection = {"since", "patience_s", "q", "follow"}
    compared = 0
    for ours, theirs in ((local, aio), (local_admin, admin)):
        for name, resource in inspect.getmembers(ours, inspect.isclass):
            counterpart = getattr(theirs, name.replace("LocalClient", "AsyncClient").removeprefix("Local"), None)
            if resource.__module__ != ours.__name__ or counterpart is None or name.startswith("_"):
                continue
            for method, function in inspect.getmembers(resource, inspect.isfunction):
                if method.startswith("_"):
                    continue
                mine = inspect.signature(function).parameters
                other = inspect.signature(getattr(counterpart, method)).parameters
                assert set(other) - connection <= set(mine) <= set(other), (name, method)
                assert all(mine[one].default == other[one].default for one in mine), (name, method)
                compared += 1
    assert compared > 40


def test_it_needs_no_http_library_no_web_framework_and_no_driver() -> None:
    """So that commands on the servers start fast."""
    script = "import sys, cronflow.client.local, cronflow.client.session; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    heavy = {"httpx2", "websockets", "fastapi", "pydantic", "redis", "motor", "pymongo"}
    assert heavy & set(done.stdout.split()) == set()
