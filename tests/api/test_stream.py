"""The websocket over real sockets: uvicorn and the package websockets, on a free port."""

from __future__ import annotations

import asyncio
import socket as sockets
import zlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial
from typing import Any

import httpx2
import orjson
import pytest
import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as websocket
from websockets.exceptions import ConnectionClosed, InvalidStatus

from cronflow.api.stream import Stream, StreamLimits, add_stream
from cronflow.backends.clock import SystemClock
from cronflow.bootstrap.api import api_application
from cronflow.bootstrap.backends import open_backends
from cronflow.config import Settings
from cronflow.domain.access import Principal, Role
from cronflow.domain.metrics import MetricSource
from cronflow.live.hub import Hub
from cronflow.live.state import ClusterConfig
from cronflow.monitoring.prometheus import PrometheusMeter
from cronflow.ports import Backends, LogLine
from cronflow.testing.memory import memory_backends
from cronflow.usecases import UseCases
from tests.contracts.builders import T0, a_report
from tests.waiting import PATIENCE_S, eventually

connect = partial(websocket, proxy=None, open_timeout=PATIENCE_S)
"""A client without a timeout."""


class Tickets:
    """`good-<name>` is a valid one-time ticket for that name, limited to `jobs`. `ended` has the names whose login has
    ended.
    """

    def __init__(self, *jobs: str) -> None:
        self.jobs = jobs
        self.used: set[str] = set()
        self.ended: set[str] = set()

    async def is_current(self, principal: Principal) -> bool:
        return principal.name not in self.ended

    async def redeem(self, ticket: str) -> Principal | None:
        if not ticket.startswith("good-") or ticket in self.used:
            return None
        self.used.add(ticket)
        return Principal(ticket.removeprefix("good-").partition(".")[0], Role.VIEWER, self.jobs)


class Replica:
    """An API replica: a hub and a server."""

    def __init__(
        self,
        backends: Backends,
        tickets: Tickets | None = None,
        limits: StreamLimits | None = None,
        *,
        hub: Hub | None = None,
        app: ASGIApp | None = None,
    ) -> None:
        self.hub = hub or Hub(backends, SystemClock(), ClusterConfig())
        if app is None:
            app = api = FastAPI()
            add_stream(api, Stream(self.hub, tickets or Tickets(), limits=limits))
        config = uvicorn.Config(
            app, log_config=None, lifespan="off", timeout_graceful_shutdown=5, ws_per_message_deflate=False
        )
        self.server = uvicorn.Server(config)
        self.server.capture_signals = nullcontext  # type: ignore[method-assign, assignment]
        self.listening = sockets.create_server(("127.0.0.1", 0))
        self.url = f"ws://127.0.0.1:{self.listening.getsockname()[1]}/api/v1/stream"

    async def __aenter__(self) -> Replica:
        self.hub_task = asyncio.create_task(self.hub.run())
        self.server_task = asyncio.create_task(self.server.serve(sockets=[self.listening]))
        await eventually(lambda: self.server.started, what="the server has started")
        # Clients wait at most five seconds for it.
        await eventually(self.hub.ready.is_set, what="the hub has read the cluster")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.should_exit = True
        async with asyncio.timeout(PATIENCE_S):
            await self.server_task
        self.hub_task.cancel()
        await asyncio.wait({self.hub_task})
        self.listening.close()


async def receive(client: ClientConnection) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_S):
        found: dict[str, Any] = orjson.loads(await client.recv())
        return found


async def say(client: ClientConnection, **message: object) -> None:
    await client.send(orjson.dumps(message).decode())


@asynccontextmanager
async def a_client(replica: Replica, ticket: str = "good-eva", **hello: object) -> AsyncIterator[ClientConnection]:
    """A client that has sent hello."""
    async with connect(replica.url) as client:
        try:
            await say(client, op="hello", ticket=ticket, **hello)
        except ConnectionClosed:
            # The server closed it already; the test checks the code.
            pass
        yield client


async def refusal(client: ClientConnection) -> dict[str, Any]:
    """The next error; ticks are skipped."""
    async with asyncio.timeout(PATIENCE_S):
        while (found := await receive(client))["t"] != "error":
            pass
    return found


async def closed(client: ClientConnection) -> int | None:
    """The close code from the server."""
    async with asyncio.timeout(PATIENCE_S):
        try:
            while True:
                await client.recv()
        except ConnectionClosed as error:
            return None if error.rcvd is None else error.rcvd.code


@pytest.fixture(params=["memory", "servers"])
async def backends(request: pytest.FixtureRequest, namespace: str) -> AsyncIterator[Backends]:
    """In memory, and on a real Redis and MongoDB."""
    if request.param == "memory":
        yield memory_backends(SystemClock())
        return
    urls = request.getfixturevalue("redis_url"), request.getfixturevalue("mongo_url")
    async with open_backends(*urls, namespace) as found:
        yield found


on_memory = pytest.mark.parametrize("backends", ["memory"], indirect=True)


async def test_a_snapshot_then_ticks_on_two_replicas_with_the_same_ids(backends: Backends) -> None:
    await backends.membership.report(a_report("n1"), 60.0)
    tickets = Tickets()
    async with (
        Replica(backends, tickets) as one,
        Replica(backends, tickets) as two,
        a_client(one, "good-eva.1") as first,
        a_client(two, "good-eva.2") as second,
    ):
        snapshot = await receive(first)
        assert snapshot["t"] == "snap"
        assert [node["name"] for node in snapshot["doc"]["nodes"]] == ["n1"]
        assert (await receive(second))["t"] == "snap"
        ids = [[(await receive(client))["seq"] for _ in range(4)] for client in (first, second)]
        assert len(set(ids[0]) & set(ids[1])) >= 2


@on_memory
async def test_a_client_that_asks_for_it_gets_compressed_messages(backends: Backends) -> None:
    tickets = Tickets()
    async with (
        Replica(backends, tickets) as replica,
        a_client(replica, "good-eva.1", encoding="deflate") as packed,
        a_client(replica, "good-eva.2", encoding="zstd") as plain,
    ):
        async with asyncio.timeout(PATIENCE_S):
            first, second = await packed.recv(decode=False), await packed.recv(decode=False)
        assert [orjson.loads(zlib.decompress(message))["t"] for message in (first, second)] == ["snap", "tick"]
        assert (await receive(plain))["t"] == "snap", "an unknown encoding is not used"


async def test_a_client_resumes_without_a_gap_after_its_replica_restarts(backends: Backends) -> None:
    tickets = Tickets()
    async with Replica(backends, tickets) as one:
        async with a_client(one, "good-eva.1") as client:
            await receive(client)
            seen = (await receive(client))["seq"]
        async with Replica(backends, tickets) as two, a_client(two, "good-eva.2") as other:
            await receive(other)
            await receive(other)
            await receive(other)
    async with Replica(backends, tickets) as again, a_client(again, "good-eva.3", since=seen) as client:
        found = [await receive(client) for _ in range(3)]
        entries = await backends.feed.read("")
        assert entries is not None
        order = [entry.id for entry in entries if entry.kind == "tick"]
        begin = order.index(seen) + 1
        assert [message["seq"] for message in found] == order[begin : begin + 3]
        assert {message["t"] for message in found} == {"tick"}


async def test_the_lines_of_a_run_come_with_their_history(backends: Backends) -> None:
    def a_line(n: int) -> LogLine:
        return LogLine(run="r@1", job="r", fence=7, attempt=1, n=n, at=T0, level="info", text=f"line {n}")

    await backends.logs.append([a_line(0), a_line(1), a_line(2)])
    async with Replica(backends, Tickets()) as replica, a_client(replica) as client:
        await receive(client)
        await say(client, op="sub", topic="run:r@1", tail=2)
        await eventually(backends.live_tail.has_viewer, what="the run is followed")
        found: list[str] = []
        for n in (3, 4):
            assert await backends.live_tail.publish([a_line(n)])
            await backends.logs.append([a_line(n)])
        while len(found) < 4:
            for chunk in (await receive(client))["logs"]:
                assert chunk["gap"] == 0
                found += [line["text"] for line in chunk["lines"]]
        assert found == ["line 1", "line 2", "line 3", "line 4"]
        await say(client, op="unsub", topic="run:r@1")


@on_memory
async def test_a_client_that_does_not_read_is_disconnected_and_the_others_continue(backends: Backends) -> None:
    for n in range(150):
        await backends.membership.report(a_report(f"n{n}"), 600.0)
    limits = StreamLimits(slow_s=0.5)
    async with Replica(backends, Tickets(), limits) as replica, a_client(replica, "good-eva") as good:
        await receive(good)
        [of_good] = replica.hub.sessions
        # Small buffers that are never read.
        slow = sockets.socket()
        slow.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 2048)
        slow.setblocking(False)
        await asyncio.get_running_loop().sock_connect(slow, ("127.0.0.1", replica.listening.getsockname()[1]))
        lazy = await connect(replica.url, sock=slow, max_queue=1, close_timeout=0.1, max_size=None)
        await say(lazy, op="hello", ticket="good-max")
        await eventually(lambda: len(replica.hub.sessions) == 2, what="both are connected")
        lazy.transport.pause_reading()
        for session in replica.hub.sessions:
            # More than any buffer can hold.
            session.send({"t": "error", "detail": "x" if session is of_good else "x" * 20_000_000})
        assert (await refusal(good))["detail"] == "x"
        await eventually(lambda: len(replica.hub.sessions) == 1, what="the slow one is disconnected")
        assert (await receive(good))["t"] == "tick"
        lazy.transport.resume_reading()
        assert await closed(lazy) == 4408


@on_memory
@pytest.mark.parametrize(
    "hello",
    [{"op": "hello", "ticket": "bad"}, {"op": "hello"}, {"op": "sub", "topic": "run:x"}, {"op": "hello", "ticket": 7}],
)
async def test_without_a_valid_ticket_nothing_is_sent(backends: Backends, hello: dict[str, object]) -> None:
    async with Replica(backends, Tickets()) as replica, connect(replica.url) as client:
        await say(client, **hello)
        with pytest.raises(ConnectionClosed):
            await receive(client)
        assert await closed(client) == 4401


@on_memory
async def test_a_ticket_is_valid_once_and_a_login_expires(backends: Backends) -> None:
    async with (
        Replica(backends, Tickets(), StreamLimits(login_s=0.5)) as replica,
        a_client(replica, "good-eva") as client,
        a_client(replica, "good-eva") as thief,
    ):
        assert (await closed(thief), await closed(client)) == (4401, 4401)
    async with Replica(backends, Tickets()) as replica, a_client(replica) as client:
        await say(client, op="auth", ticket="good-eva.2")
        await say(client, op="auth", ticket="bad")
        assert await closed(client) == 4401


@on_memory
async def test_renewing_a_login_extends_it(backends: Backends) -> None:
    now = asyncio.get_running_loop().time
    limits = StreamLimits(login_s=6.0)
    async with Replica(backends, Tickets(), limits) as replica, a_client(replica, "good-eva.1") as client:
        begun = now()
        while (await receive(client))["t"] != "tick":
            pass
        renewed = now()
        assert renewed > begun
        await say(client, op="auth", ticket="good-eva.2")
        assert await closed(client) == 4401
        assert now() >= renewed + limits.login_s


@on_memory
async def test_too_many_sockets_are_refused(backends: Backends) -> None:
    limits = StreamLimits(sockets=3, sockets_each=2)
    async with Replica(backends, Tickets(), limits) as replica:
        async with (
            a_client(replica, "good-eva.1") as one,
            a_client(replica, "good-eva.2") as two,
        ):
            await receive(one)
            await receive(two)
            async with a_client(replica, "good-eva.3") as third:
                assert await closed(third) == 4429
            async with a_client(replica, "good-max.1") as other:
                await receive(other)
                async with a_client(replica, "good-zoe.1") as fifth:
                    assert await closed(fifth) == 4429
        async with a_client(replica, "good-eva.4") as again:
            assert (await receive(again))["t"] == "snap"


@on_memory
async def test_sockets_without_a_ticket_take_no_place_of_others(backends: Backends) -> None:
    limits = StreamLimits(sockets=2, waiting_each=3, hello_s=PATIENCE_S)
    address = "127.0.0.2"
    async with Replica(backends, Tickets(), limits) as replica, AsyncExitStack() as silent:
        for _ in range(3):
            await silent.enter_async_context(connect(replica.url, local_addr=(address, 0)))
        with pytest.raises(InvalidStatus) as refused:
            await connect(replica.url, local_addr=(address, 0))
        assert refused.value.response.status_code == 403
        async with a_client(replica, "good-eva.1") as one, a_client(replica, "good-max.1") as two:
            assert [(await receive(client))["t"] for client in (one, two)] == ["snap", "snap"]


@on_memory
async def test_a_socket_that_does_not_say_hello_is_closed_and_leaves_its_place(backends: Backends) -> None:
    assert StreamLimits().hello_s == 3
    limits = StreamLimits(waiting_each=1, hello_s=0.2)
    async with Replica(backends, Tickets(), limits) as replica:
        async with connect(replica.url) as silent:
            assert await closed(silent) == 4401
        async with a_client(replica) as client:
            assert (await receive(client))["t"] == "snap"


@on_memory
async def test_a_socket_is_closed_when_its_login_has_ended(backends: Backends) -> None:
    # A check that takes its turn soon after closes within five seconds.
    assert StreamLimits().check_s <= 3
    tickets = Tickets()
    async with (
        Replica(backends, tickets, StreamLimits(check_s=0.05)) as replica,
        a_client(replica, "good-eva") as client,
        a_client(replica, "good-max") as other,
    ):
        await receive(client)
        tickets.ended.add("eva")
        assert await closed(client) == 4401
        assert (await receive(other))["t"] == "snap"


@on_memory
async def test_pages_of_other_origins_cannot_connect(backends: Backends) -> None:
    async with Replica(backends, Tickets()) as replica:
        with pytest.raises(InvalidStatus) as refused:
            await connect(replica.url, origin="https://evil.example")  # type: ignore[arg-type]
        assert refused.value.response.status_code == 403
        own = replica.url.replace("ws://", "http://").removesuffix("/api/v1/stream")
        async with connect(replica.url, origin=own) as client:  # type: ignore[arg-type]
            await say(client, op="hello", ticket="good-eva")
            assert (await receive(client))["t"] == "snap"


@on_memory
async def test_a_key_limited_to_jobs_follows_only_their_lines(backends: Backends) -> None:
    async with Replica(backends, Tickets("billing-*")) as replica, a_client(replica) as client:
        await receive(client)
        for topic in ("run:payroll@1", "run:payroll@billing-a", "logs", "logs?level=warn", "logs?job=payroll"):
            await say(client, op="sub", topic=topic)
            found = await refusal(client)
            assert "may only access jobs that match billing-*" in found["detail"]
        for topic in ("run:billing-a@1", "logs?job=billing-a&level=warn"):
            await say(client, op="sub", topic=topic)
        # It is read after the other two.
        await say(client, op="jump")
        found = await refusal(client)
        assert found["op"] == "jump"


@on_memory
async def test_a_login_is_not_renewed_by_the_ticket_of_another_user(backends: Backends) -> None:
    async with Replica(backends, Tickets()) as replica, a_client(replica, "good-eva") as client:
        await receive(client)
        await say(client, op="auth", ticket="good-max")
        assert await closed(client) == 4401


@on_memory
async def test_the_api_serves_the_stream_to_logins_and_to_allowed_origins(
    backends: Backends,
) -> None:
    ours = "https://ops.example.com"
    settings = Settings(admin_password="correct horse", jwt_secret="s" * 32, allow_origins=(ours,))
    clock = SystemClock()
    hub = Hub(backends, clock, ClusterConfig())
    app = await api_application(
        settings, UseCases(backends, clock), backends, clock, hub, PrometheusMeter([MetricSource.API])
    )
    async with Replica(backends, hub=hub, app=app) as replica:
        base = replica.url.replace("ws://", "http://").removesuffix("/stream")
        async with httpx2.AsyncClient(timeout=PATIENCE_S) as http:
            login = {"username": "admin", "password": "correct horse"}
            token = (await http.post(f"{base}/auth/token", json=login)).json()["access_token"]
            asked = await http.post(f"{base}/auth/ws-ticket", headers={"Authorization": f"Bearer {token}"})
        ticket = asked.json()["ticket"]
        with pytest.raises(InvalidStatus) as refused:
            await connect(replica.url, origin="https://evil.example")  # type: ignore[arg-type]
        assert refused.value.response.status_code == 403
        async with connect(replica.url, origin=ours) as client:  # type: ignore[arg-type]
            await say(client, op="hello", ticket=ticket)
            assert (await receive(client))["t"] == "snap"
        async with a_client(replica, ticket) as thief:
            assert await closed(thief) == 4401


@on_memory
async def test_invalid_commands_are_errors_and_unreadable_messages_close_the_socket(backends: Backends) -> None:
    async with Replica(backends, Tickets()) as replica, a_client(replica, topics=["cluster", "logs"]) as client:
        await receive(client)
        for message in ({"op": "sub", "topic": "moon"}, {"op": "sub"}, {"op": "jump"}):
            await say(client, **message)
            found = await refusal(client)
            assert found["op"] == message["op"]
        for n in range(20):
            await say(client, op="sub", topic=f"run:r@{n}")
        found = await refusal(client)
        assert "at most 20 topics" in found["detail"]
        await client.send("no json")
        assert await closed(client) == 1007


@on_memory
async def test_commands_above_the_rate_limit_are_delayed_while_ticks_continue(backends: Backends) -> None:
    async with (
        Replica(backends, Tickets(), StreamLimits(messages_s=0.001, burst=3)) as replica,
        a_client(replica) as client,
    ):
        assert (await receive(client))["t"] == "snap"
        for n in range(5):
            await say(client, op=f"jump {n}")
        found = [await receive(client) for _ in range(6)]
        assert [message["op"] for message in found if message["t"] == "error"] == ["jump 0", "jump 1", "jump 2"]


@on_memory
async def test_a_server_stops_while_sockets_are_open(backends: Backends) -> None:
    async with Replica(backends, Tickets()) as replica:
        client = await connect(replica.url)
        await say(client, op="hello", ticket="good-eva")
        await receive(client)
    assert await closed(client) == 1012
    await client.close()
