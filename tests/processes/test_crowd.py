"""Two hundred sockets on one API process for a minute, some of them misbehaving."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode

from cronflow.api.stream import LOGIN_OVER, STOPPING, StreamLimits
from cronflow.backends.clock import SystemClock
from cronflow.domain.access import Role
from cronflow.domain.job import CommandTarget, Job, Overlap
from cronflow.domain.schedule.kinds import Every
from cronflow.testing.embedded.server import free_port
from cronflow.usecases import UseCases
from tests.api.test_process import status
from tests.children import ADMIN, cluster_environment
from tests.forked import process
from tests.processes.conftest import Processes, process_cluster
from tests.waiting import eventually

CROWD, MINUTE = 200, 60
SLOWNESS = 5
LIMITS = StreamLimits()

pytestmark = [pytest.mark.chaos, pytest.mark.prove]


@dataclass
class Client:
    """A socket, and the messages it received."""

    socket: ClientConnection
    ticks: list[dict[str, Any]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    errors: int = 0
    code: int | None = None

    async def read(self, until: asyncio.Event | None = None) -> None:
        """Read all messages until the server closes the socket, or one message each time `until` is set."""
        try:
            while until is None or await until.wait():
                message = orjson.loads(await self.socket.recv())
                match message["t"]:
                    case "tick":
                        self.ticks.append(message)
                        self.lines += [line["text"] for chunk in message["logs"] for line in chunk["lines"]]
                    case "error":
                        self.errors += 1
                if until is not None:
                    until.clear()
        except ConnectionClosed as closed:
            self.code = None if closed.rcvd is None else closed.rcvd.code

    async def send(self, **message: object) -> None:
        await self.socket.send(orjson.dumps(message).decode())


class Sockets:
    """Opens sockets with tickets from the API, with as many keys as they need."""

    def __init__(self, url: str, keys: list[str]) -> None:
        self._url, self._keys, self._given = url, keys, 0
        self._http = httpx2.AsyncClient(base_url=url, trust_env=False, timeout=60)

    async def __aenter__(self) -> Sockets:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def client(self, stack: AsyncExitStack, **hello: object) -> Client:
        """A socket that has sent hello."""
        client = await self.unauthenticated(stack)
        key = self._keys[self._given // LIMITS.sockets_each]
        self._given += 1
        answer = await self._http.post("/api/v1/auth/ws-ticket", headers={"Authorization": f"Bearer {key}"})
        assert answer.status_code == 200, answer.text
        await client.send(op="hello", ticket=answer.json()["ticket"], **hello)
        return client

    async def unauthenticated(self, stack: AsyncExitStack) -> Client:
        """A socket that has sent nothing."""
        url = f"ws{self._url.removeprefix('http')}/api/v1/stream"
        return Client(await stack.enter_async_context(connect(url, proxy=None, ping_interval=None)))


@pytest.fixture
async def cluster(redis_url: str, mongo_url: str, namespace: str, tmp_path: Path) -> AsyncIterator[Processes]:
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as found:
        yield found


@pytest.fixture
async def api(cluster: Processes, tmp_path: Path) -> AsyncIterator[tuple[str, Any]]:
    """The URL of an API process on the servers of the cluster, and the process."""
    port = free_port()
    environment = cluster_environment(
        cluster.redis_url, cluster.mongo_url, cluster.namespace, **cluster.limits, **ADMIN
    )
    with process(["cronflow", "api", "--port", str(port)], environment, tmp_path / "api.log") as child:
        url = f"http://127.0.0.1:{port}"
        await eventually(lambda: status(f"{url}/readyz")[0] == 200, what="the API is ready")
        yield url, child


async def test_two_hundred_sockets_for_a_minute_with_a_slow_a_silent_and_a_flooding_one(
    cluster: Processes, api: tuple[str, Any]
) -> None:
    url, child = api
    await cluster.up("a")
    service = UseCases(cluster.backends, SystemClock())
    keys = [(await service.keys.create(f"key-{n}", Role.VIEWER))[1] for n in range(CROWD // LIMITS.sockets_each + 1)]
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        entrance = await stack.enter_async_context(Sockets(url, keys))
        began = loop.time()
        silent = await entrance.unauthenticated(stack)
        await entrance.client(stack)  # It never reads.
        slow, flooding = await entrance.client(stack), await entrance.client(stack)
        followers = [await entrance.client(stack, topics=["cluster", "logs"]) for _ in range(10)]
        good = followers + [await entrance.client(stack) for _ in range(CROWD - 14)]
        readers = [asyncio.create_task(client.read()) for client in (*good, silent, flooding)]
        chatty = CommandTarget('for n in 1 2 3; do echo "$CRONFLOW_RUN_ID $n"; done')
        turn = asyncio.Event()
        readers.append(asyncio.create_task(slow.read(turn)))

        async def flood() -> None:
            while True:
                await flooding.send(op="sub", topic="nothing of the kind")

        flooder = asyncio.create_task(flood())
        await eventually(lambda: all(client.ticks for client in good), MINUTE, "everybody was sent a tick")
        await cluster.apply(Job(name="chatty", target=chatty, schedule=Every("2s"), overlap=Overlap.QUEUE))

        def a_minute_has_passed() -> bool:
            if len(good[0].ticks) // SLOWNESS > len(slow.ticks):
                turn.set()
            return min(len(client.ticks) for client in good) >= MINUTE

        await eventually(a_minute_has_passed, 3 * MINUTE, "everybody was sent a minute of ticks")
        flooder.cancel()
        await asyncio.wait({flooder})
        took = loop.time() - began

        everything = [tick["seq"] for tick in good[0].ticks]
        for client in good:
            seqs = [tick["seq"] for tick in client.ticks]
            first = everything.index(seqs[0])
            common = min(len(seqs), len(everything) - first)
            assert seqs[:common] == everything[first : first + common]
            assert {tick["dropped"] for tick in client.ticks} == {0}
        assert silent.code == LOGIN_OVER
        # A client that is so far behind that it does not answer a ping is disconnected for that.
        assert {slow.code, flooding.code} <= {None, CloseCode.INTERNAL_ERROR}
        assert slow.ticks
        # The server handled as many of its commands as the rate limit allows.
        assert 0 < flooding.errors <= LIMITS.burst + LIMITS.messages_s * took

        await service.jobs.pause("chatty")
        runs = [run.id for run in await cluster.runs()]
        printed = [f"{run} {n}" for run in runs for n in (1, 2, 3)]
        assert len(runs) > 1
        await eventually(
            lambda: min(len(client.lines) for client in followers) >= len(printed), what="every line has arrived"
        )
        assert [line.text for run in runs for line in await cluster.backends.logs.read(run)] == printed
        for client in followers:
            assert client.lines == printed

        child.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(child.wait, 20) == 0
        await asyncio.wait(readers[:-1], timeout=20)
        assert {client.code for client in good} == {STOPPING}
        turn.set()
        readers[-1].cancel()
        await asyncio.wait(readers)
