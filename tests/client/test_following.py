"""Following against real API processes that are killed, a real node and real servers: every line once, in order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import ExitStack, aclosing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import cronflow
from cronflow.client import following
from cronflow.testing.embedded.server import free_port
from cronflow.testing.tcp_proxy import TcpProxy
from tests.api.test_process import status
from tests.children import ADMIN, PASSWORD, Child, cluster_environment
from tests.forked import process
from tests.waiting import eventually

WITHIN_S = 240.0
LINES = "for n in $(seq {} {}); do echo line $n; done"
UNTIL = "until [ -e {} ]; do sleep 0.1; done"

pytestmark = pytest.mark.chaos


class Replicas:
    """API processes over the same servers, with one node; and a proxy that leads to one of them."""

    def __init__(self, environment: dict[str, str], folder: Path, stack: ExitStack) -> None:
        self._environment = environment
        self._folder = folder
        self._stack = stack
        self._children: dict[int, Child] = {}
        self.proxy = TcpProxy("127.0.0.1", 0)

    async def start(self, port: int | None = None) -> int:
        """An API. Returns its port once it is ready."""
        port = port or free_port()
        log = self._folder / f"api-{port}-{len(self._children)}.log"
        child = process(["cronflow", "api", "--port", str(port)], self._environment, log)
        self._children[port] = self._stack.enter_context(child)
        await eventually(lambda: status(f"http://127.0.0.1:{port}/readyz")[0] == 200, 120, "the API is ready")
        return port

    def kill(self, port: int) -> None:
        """Without a word."""
        self._children[port].send_signal(signal.SIGKILL)
        self._children[port].wait(30)

    @property
    def url(self) -> str:
        """Of the proxy."""
        return f"http://127.0.0.1:{self.proxy.port}"


@pytest.fixture
async def replicas(redis_url: str, mongo_url: str, namespace: str, tmp_path: Path) -> AsyncIterator[Replicas]:
    """A node, and no API yet."""
    own = {"CRONFLOW_ALLOW_SHELL": "true", "CRONFLOW_LOG_LINES_PER_RUN": "30000"}
    environment = cluster_environment(redis_url, mongo_url, namespace, **ADMIN, **own)
    with ExitStack() as stack:
        stack.enter_context(process(["cronflow", "node"], environment, tmp_path / "node.log"))
        made = Replicas(environment, tmp_path, stack)
        async with made.proxy:
            yield made


async def logged_in(url: str) -> cronflow.AsyncClient:
    client = cronflow.AsyncClient(url)
    await client.login("admin", PASSWORD)
    return client


async def begun(client: cronflow.AsyncClient, name: str, shell: str) -> str:
    """A run of this command, on request."""
    await client.jobs.put({"name": name, "run": {"shell": shell}, "timeout": "10m"})
    return (await client.jobs.run(name))["id"]


class Follower:
    """Follows a run to its end, and keeps what it was told."""

    def __init__(self, client: cronflow.AsyncClient, run: str) -> None:
        self.states: list[str] = []
        self.lines: list[str] = []
        self.task = asyncio.create_task(self._follow(client, run))

    async def _follow(self, client: cronflow.AsyncClient, run: str) -> None:
        async with aclosing(client.runs.follow(run)) as messages:
            async for message in messages:
                if message["t"] == "line":
                    self.lines.append(message["line"]["text"])
                else:
                    self.states.append(message["run"]["state"])

    async def has(self, count: int) -> None:
        await eventually(lambda: self.task.done() or len(self.lines) >= count, WITHIN_S, f"{count} lines")

    async def ended(self) -> None:
        async with asyncio.timeout(WITHIN_S):
            await self.task


def lines(last: int, first: int = 1) -> list[str]:
    return [f"line {n}" for n in range(first, last + 1)]


async def test_a_run_is_followed_through_the_death_of_its_api_on_another_replica_and_on_the_same_one_again(
    replicas: Replicas, tmp_path: Path
) -> None:
    one, two = await replicas.start(), await replicas.start()
    replicas.proxy.redirect(one)
    gates = [tmp_path / f"gate-{n}" for n in range(2)]
    first_part, second, third = (LINES.format(n - 49, n) for n in (50, 100, 150))
    shell = "; ".join([first_part, UNTIL.format(gates[0]), second, UNTIL.format(gates[1]), third])
    async with await logged_in(replicas.url) as client:
        run = await begun(client, "long", shell)
        first = Follower(client, run)
        await first.has(50)
        replicas.kill(one)
        replicas.proxy.redirect(two)
        # Written while nobody is connected, or right after.
        gates[0].touch()
        await first.has(100)
        late = Follower(client, run)
        await late.has(100)
        replicas.kill(two)
        replicas.proxy.redirect(await replicas.start(one))
        gates[1].touch()
        for follower in (first, late):
            await follower.ended()
            assert follower.lines == lines(150)
            assert follower.states[-2:] == ["running", "succeeded"]
        found = [line["text"] async for line in client.logs.search("line ", job="long")]
        assert found[::-1] == lines(150)


@pytest.mark.prove  # a run is followed to another replica as well
async def test_ticks_go_on_without_a_gap_on_another_replica(replicas: Replicas) -> None:
    one, two = await replicas.start(), await replicas.start()
    replicas.proxy.redirect(one)
    async with await logged_in(replicas.url) as client, aclosing(client.follow()) as messages:
        told: list[Any] = []

        async def read(count: int) -> None:
            async with asyncio.timeout(WITHIN_S):
                while len(told) < count:
                    told.append(await anext(messages))

        await read(4)
        replicas.kill(one)
        replicas.proxy.redirect(two)
        await client.jobs.put({"name": "made-meanwhile", "run": {"shell": "true"}})
        await read(14)
        assert [message["t"] for message in told] == ["snap"] + ["tick"] * 13
        assert all(before["seq"] < after["seq"] for before, after in pairwise(told))
        events = [event["text"] for message in told[1:] for event in message["events"]]
        assert sum("made-meanwhile was created" in text for text in events) == 1
        # Whoever comes with the place of another client goes on there as well.
        async with aclosing(client.follow(since=told[5]["seq"])) as again:
            async with asyncio.timeout(WITHIN_S):
                found: list[Any] = [await anext(again) for _ in range(5)]
            assert [message["seq"] for message in found] == [message["seq"] for message in told[6:11]]
        assert "job_created" in [event["kind"] async for event in client.events.list(kind=["job_created"])]


@pytest.mark.prove  # the lines take a minute to write and read on two slow cores
async def test_a_run_of_twenty_thousand_lines_is_followed_and_found_whole(replicas: Replicas, tmp_path: Path) -> None:
    replicas.proxy.redirect(await replicas.start())
    gate = tmp_path / "gate"
    async with await logged_in(replicas.url) as client:
        run = await begun(client, "loud", "; ".join([LINES.format(1, 5), UNTIL.format(gate), LINES.format(6, 20_000)]))
        follower = Follower(client, run)
        await follower.has(5)
        gate.touch()
        await follower.has(6000)
        middle = Follower(client, run)
        for one in (follower, middle):
            await one.ended()
            assert one.lines == lines(20_000)
        found = [line["text"] async for line in client.logs.search(job="loud")]
        assert sorted(found, key=lambda text: int(text.split()[1])) == lines(20_000)


async def test_lines_of_a_level_are_followed_each_once_by_the_blocking_client_too(
    replicas: Replicas, tmp_path: Path
) -> None:
    port = await replicas.start()
    replicas.proxy.redirect(port)
    gate = tmp_path / "gate"

    found: list[str] = []

    def follow() -> None:
        """In a thread: the last line before, and those after, through the death of the API."""
        with cronflow.Client(replicas.url) as client:
            client.login("admin", PASSWORD)
            for message in client.logs.follow(level="warn", job="grave", tail=1):
                assert message["t"] == "line", message
                found.append(message["line"]["text"])
                if found[-1] == "wrong 30":
                    return

    async with await logged_in(replicas.url) as client:
        shell = "echo wrong 1 >&2; echo fine; until [ -e {} ]; do sleep 0.1; done; {}".format(
            gate, "for n in $(seq 2 30); do echo wrong $n >&2; done"
        )
        run = await begun(client, "grave", shell)
        await eventually(lambda: _count(client, run), WITHIN_S, "the first line is stored")
        following_it = asyncio.create_task(asyncio.to_thread(follow))
        asked = Follower(client, run)
        await asked.has(2)
        await eventually(lambda: following_it.done() or found, WITHIN_S, "the thread follows")
        replicas.kill(port)
        await replicas.start(port)
        gate.touch()
        async with asyncio.timeout(WITHIN_S):
            await following_it
        assert found == [f"wrong {n}" for n in range(1, 31)]
        await asked.ended()


async def _count(client: cronflow.AsyncClient, run: str) -> int:
    return len([line async for line in client.runs.logs(run)])


async def test_a_login_is_renewed_and_an_ended_one_is_reported(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicas.proxy.redirect(await replicas.start())
    # At each message.
    monkeypatch.setattr(following, "RENEW_S", 0.0)
    async with await logged_in(replicas.url) as client:
        async with aclosing(client.follow()) as messages, asyncio.timeout(WITHIN_S):
            assert [(await anext(messages))["t"] for _ in range(4)] == ["snap", "tick", "tick", "tick"]
            await client.logout()
            with pytest.raises(cronflow.ApiError, match="401"):
                await _all(messages)
        with pytest.raises(cronflow.ApiError, match="401"):
            await anext(client.follow())
        await client.login("admin", PASSWORD)
        with pytest.raises(cronflow.ApiError, match="unknown topic 'nonsense'"):
            await _all(client.follow("nonsense"))


async def _all(messages: AsyncIterator[object]) -> None:
    async for _ in messages:
        pass


async def test_it_gives_up_when_the_api_does_not_answer() -> None:
    client = cronflow.AsyncClient(f"http://127.0.0.1:{free_port()}", "token")
    with pytest.raises(cronflow.ApiError, match="had no live stream for"):
        await anext(client.follow(patience_s=0.5))
    await client.aclose()
