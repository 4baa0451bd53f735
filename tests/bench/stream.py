"""The cost of the live stream: ticks of a hundred nodes, sockets on one API process, and the delay of log lines."""

from __future__ import annotations

import asyncio
import subprocess
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from time import process_time

import httpx2
import orjson
import psutil
from websockets.asyncio.client import ClientConnection, connect

from cronflow.backends.clock import SystemClock
from cronflow.bootstrap.backends import open_backends
from cronflow.domain.access import Role
from cronflow.domain.cluster import NodeReport
from cronflow.domain.job import Job, PythonTarget
from cronflow.live.hub import Hub
from cronflow.live.state import ClusterConfig
from cronflow.testing.embedded.server import free_port
from cronflow.usecases import UseCases
from tests.bench.words import say, spread
from tests.children import ADMIN, cluster_environment, python

A_KEY = 20
"""The limit of sockets per login."""


def a_report(n: int) -> NodeReport:
    """The report of a busy node."""
    return NodeReport(
        name=f"node-{n:03}",
        incarnation="a",
        cpu=0.31,
        memory=0.42,
        slots=64,
        in_flight=n % 64,
        lag_s=0.0021,
        labels={"region": "eu"},
    )


async def ticks(redis_url: str, mongo_url: str, *, nodes: int, count: int = 200) -> None:
    """The CPU time of this process to build a tick and add it to the buffer of a replica."""
    async with open_backends(redis_url, mongo_url, "ticks") as backends:
        for n in range(nodes):
            await backends.membership.report(a_report(n), 3600)
        hub = Hub(backends, SystemClock(), ClusterConfig())
        await hub._builder.step()
        await hub.step()
        times, began = [], process_time()
        for _ in range(count):
            start = asyncio.get_running_loop().time()
            await hub._builder.step()
            await hub.step()
            times.append(timedelta(seconds=asyncio.get_running_loop().time() - start))
        spent = (process_time() - began) / count
        say(f"a tick of {nodes} nodes, {len(hub.ticks[-1].text) / 1024:.1f} KiB", f"{spread(times)}")
        say("… CPU time, without the servers", f"{spent * 1000:.1f} ms")


@asynccontextmanager
async def api(redis_url: str, mongo_url: str, namespace: str) -> AsyncIterator[tuple[str, psutil.Process]]:
    """The URL of an API process, and the process."""
    port = free_port()
    environment = cluster_environment(redis_url, mongo_url, namespace, **ADMIN, CRONFLOW_LOG_LEVEL="error")
    child = subprocess.Popen(python("-m", "cronflow", "api", "--port", str(port)), env=environment)
    try:
        async with httpx2.AsyncClient(trust_env=False) as http:
            while True:
                try:
                    if (await http.get(f"http://127.0.0.1:{port}/readyz")).status_code == 200:
                        break
                except httpx2.TransportError:
                    # Not listening yet.
                    pass
                await asyncio.sleep(0.1)
        yield f"http://127.0.0.1:{port}", psutil.Process(child.pid)
    finally:
        child.terminate()
        child.wait(20)


async def sockets(service: UseCases, url: str, process: psutil.Process, *, count: int, seconds: int) -> None:
    """What an API process uses with no socket and with many; the difference is theirs."""
    alone = await _used(process, seconds)
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx2.AsyncClient(trust_env=False))
        clients = []
        for n in range(count):
            if n % A_KEY == 0:
                _, key = await service.keys.create(f"bench-{n}", Role.VIEWER)
            clients.append(await _socket(stack, http, url, key))
        received: Counter[ClientConnection] = Counter()
        readers = [asyncio.create_task(_read(client, received)) for client in clients]
        crowded = await _used(process, seconds)
        memory = process.memory_info().rss / 2**20
        for reader in readers:
            reader.cancel()
        await asyncio.wait(readers)
    say("an API process without sockets", f"{alone:.1f} % of a core")
    sent = f"{received.total() / seconds:,.0f} messages/s, at least {min(received.values())} each"
    say(f"… with {count} sockets", f"{crowded:.1f} % of a core, {memory:.0f} MiB, {sent}")


async def lines(service: UseCases, url: str, *, count: int) -> None:
    """The delay of a log line, from its creation to its arrival at a following socket."""
    _, key = await service.keys.create("lines", Role.VIEWER)
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx2.AsyncClient(trust_env=False))
        client = await _socket(stack, http, url, key, topics=["logs"])
        await client.recv()
        target = PythonTarget("tests.bench.jobs:talk", {"lines": count})
        await service.jobs.apply([Job(name="talk", target=target, timeout=timedelta(seconds=count))])
        await service.jobs.trigger("talk")
        late: list[timedelta] = []
        while len(late) < count:
            message = orjson.loads(await client.recv())
            now = datetime.now(UTC)
            for chunk in message.get("logs", ()):
                late += [now - datetime.fromisoformat(line["at"]) for line in chunk["lines"]]
        say(f"delay of {count} log lines", spread(late))


async def _used(process: psutil.Process, seconds: int) -> float:
    before = sum(process.cpu_times()[:2])
    await asyncio.sleep(seconds)
    return 100 * (sum(process.cpu_times()[:2]) - before) / seconds


async def _socket(
    stack: AsyncExitStack, http: httpx2.AsyncClient, url: str, key: str, **hello: object
) -> ClientConnection:
    answer = await http.post(f"{url}/api/v1/auth/ws-ticket", headers={"Authorization": f"Bearer {key}"})
    answer.raise_for_status()
    client = await stack.enter_async_context(connect(f"ws{url.removeprefix('http')}/api/v1/stream", proxy=None))
    await client.send(orjson.dumps({"op": "hello", "ticket": answer.json()["ticket"], **hello}).decode())
    return client


async def _read(client: ClientConnection, received: Counter[ClientConnection]) -> None:
    async for _ in client:
        received[client] += 1
