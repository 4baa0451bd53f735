"""The websocket of the live stream, `/api/v1/stream`; `docs/concepts/stream.md` describes its messages.

Nothing is sent before a ticket is accepted, which is valid once and never part of a URL. A page of another origin
cannot connect. Each address may have a few sockets without a ticket, for a short time; they take no place of others. A
key that is limited to certain jobs follows lines of these alone. A socket whose client reads too slowly is closed and
delays no other, and one whose login has ended is closed within seconds. `Tickets` knows logins; this module handles no
passwords.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import orjson
from fastapi import FastAPI, WebSocket, WebSocketDisconnect

from cronflow.api.access import is_own_origin
from cronflow.domain.access import Principal
from cronflow.domain.errors import BackendUnavailable, Conflict, InvalidInput, Problem
from cronflow.live.hub import Hub
from cronflow.live.session import StreamSession
from cronflow.live.subscriptions import Topic, topic_of
from cronflow.schemas.stream import StreamErrorSchema
from cronflow.usecases.logins import network_of

PATH = "/api/v1/stream"
DEFLATE = "deflate"
"""The `encoding` of a client that accepts compressed messages."""
CLUSTER = "cluster"
"""The topic of every session."""
LOGIN_OVER, TOO_SLOW, TOO_MANY, STOPPING = 4401, 4408, 4429, 1012
LARGEST_MESSAGE = 64 * 1024
"""Messages of clients are short; in bytes."""
READY_WITHIN_S = 5.0
CLOSE_WITHIN_S = 30.0

Result = TypeVar("Result")


class Tickets(Protocol):
    """What opens the stream, and whether its login still exists."""

    async def redeem(self, ticket: str) -> Principal | None:
        """The principal of a ticket, once; None if it is not valid."""

    async def is_current(self, principal: Principal) -> bool:
        """Whether the login of the principal still exists and gives the same rights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLimits:
    """`sockets` have sent a valid ticket, `sockets_each` of one principal. `waiting_each` of one address have not yet;
    each has `hello_s` to do so. `login_s`: how long a ticket is valid; then the client sends `auth` with a fresh one.
    `check_s`: how often a socket checks that its login still exists. `slow_s`: how long sending one message may take.
    `messages_s`: how many messages of a client are processed per second after its `burst`; the others wait in its
    connection.
    """

    sockets: int = 500
    sockets_each: int = 20
    waiting_each: int = 20
    hello_s: float = 3.0
    check_s: float = 3.0
    messages_s: float = 10.0
    burst: int = 40
    login_s: float = 900.0
    slow_s: float = 10.0


class Over(Exception):
    """The socket must be closed with this code."""

    def __init__(self, code: int, reason: str) -> None:
        self.code, self.reason = code, reason
        super().__init__(reason)


class Stream:
    """The endpoint over a hub. `origins` may connect, besides the pages of this host."""

    def __init__(
        self, hub: Hub, tickets: Tickets, *, origins: Collection[str] = (), limits: StreamLimits | None = None
    ) -> None:
        self._hub = hub
        self._tickets = tickets
        self._origins = frozenset(origins)
        self._limits = limits or StreamLimits()
        self._waiting = Places(self._limits.waiting_each)
        self._admitted = Places(self._limits.sockets_each, self._limits.sockets)

    @property
    def connected(self) -> int:
        """The number of sockets with a valid ticket."""
        return self._admitted.taken

    async def __call__(self, socket: WebSocket) -> None:
        """Serve one socket until it is closed."""
        address = network_of(socket.client.host if socket.client else "")
        if not is_own_origin(socket.headers, self._origins) or not self._waiting.room(address):
            # Closing before accepting: the browser gets a 403.
            await socket.close()
            return
        with self._waiting.place(address):
            admitted = await _closing(socket, self._greet(socket))
        if admitted is not None:
            principal, hello = admitted
            with self._admitted.place(principal.name):
                await _closing(socket, self._talk(socket, principal, hello))

    async def _greet(self, socket: WebSocket) -> tuple[Principal, dict[str, Any]]:
        """The principal and its hello. Raises Over."""
        await socket.accept()
        try:
            async with asyncio.timeout(self._limits.hello_s):
                hello = await _receive(socket)
        except TimeoutError:
            raise Over(LOGIN_OVER, "no hello received") from None
        if hello.get("op") != "hello":
            raise Over(LOGIN_OVER, "the first message must be hello with a ticket")
        principal = await self._admit(hello)
        if not self._admitted.room(principal.name):
            raise Over(TOO_MANY, f"too many sockets of {principal.name}, or on this server")
        return principal, hello

    async def _admit(self, message: dict[str, Any]) -> Principal:
        ticket = message.get("ticket")
        principal = await self._tickets.redeem(ticket) if isinstance(ticket, str) else None
        if principal is None:
            raise Over(LOGIN_OVER, "the ticket is invalid or has expired")
        return principal

    async def _talk(self, socket: WebSocket, principal: Principal, hello: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(READY_WITHIN_S):
                await self._hub.ready.wait()
        except TimeoutError:
            raise Over(STOPPING, "the live stream is unavailable") from None
        since = hello.get("since")
        since = since if isinstance(since, str) else None
        await self._hub.reach(since)
        session = self._hub.open(since, compressed=hello.get("encoding") == DEFLATE)
        login = StreamLogin(principal, self._limits.login_s)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._write(socket, session), name="stream writer")
                group.create_task(self._read(socket, session, login, hello), name="stream reader")
                group.create_task(self._watch(login), name="stream login")
        except* WebSocketDisconnect:
            pass
        except* Over as overs:
            raise overs.exceptions[0] from None
        finally:
            self._hub.close(session)

    async def _watch(self, login: StreamLogin) -> None:
        """Wait until the login has expired or ended. Raises Over."""
        while (left_s := login.left_s) > 0:
            await asyncio.sleep(min(left_s, self._limits.check_s))
            try:
                current = await self._tickets.is_current(login.principal)
            except BackendUnavailable:
                # The next check finds out; without MongoDB no login can change.
                continue
            if not current:
                raise Over(LOGIN_OVER, "the login has ended")
        raise Over(LOGIN_OVER, "the login has expired")

    async def _write(self, socket: WebSocket, session: StreamSession) -> None:
        while True:
            message = await session.next()
            try:
                async with asyncio.timeout(self._limits.slow_s):
                    await (socket.send_text(message) if isinstance(message, str) else socket.send_bytes(message))
            except TimeoutError:
                raise Over(TOO_SLOW, "the client reads too slowly") from None

    async def _read(self, socket: WebSocket, session: StreamSession, login: StreamLogin, hello: dict[str, Any]) -> None:
        topics = hello.get("topics")
        wanted = deque(
            {"op": "sub", "topic": topic, "tail": hello.get("tail", 0)}
            for topic in (topics if isinstance(topics, list) else ())
            if topic != CLUSTER
        )
        pace = Pace(self._limits.messages_s, self._limits.burst)
        while True:
            message = wanted.popleft() if wanted else await _receive(socket)
            await pace.wait()
            try:
                await self._obey(message, session, login)
            except (InvalidInput, Conflict) as error:
                session.send(_refused(message, str(error), again=False))
            except BackendUnavailable as error:
                session.send(_refused(message, f"{error.service} is unavailable", again=True))

    async def _obey(self, message: dict[str, Any], session: StreamSession, login: StreamLogin) -> None:
        topic, tail = message.get("topic"), message.get("tail", 0)
        match message.get("op"):
            case "sub" if isinstance(topic, str) and isinstance(tail, int):
                login.check(topic_of(topic))
                await self._hub.following.subscribe(session, topic, tail)
            case "unsub" if isinstance(topic, str):
                self._hub.following.unsubscribe(session, topic)
            case "auth":
                login.renew(await self._admit(message))
            case _:
                raise InvalidInput("send sub or unsub with a topic, or auth with a ticket")


class Places:
    """Counts sockets by key: at most `each` of one key, and `most` in all."""

    def __init__(self, each: int, most: int | None = None) -> None:
        self._each, self._most = each, most
        self._taken: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        return self._taken.total()

    def room(self, key: str) -> bool:
        """Whether there is a place for one more of this key."""
        return self._taken[key] < self._each and (self._most is None or self.taken < self._most)

    @contextmanager
    def place(self, key: str) -> Iterator[None]:
        """Hold a place."""
        self._taken[key] += 1
        try:
            yield
        finally:
            self._taken[key] -= 1
            if not self._taken[key]:
                del self._taken[key]


class Pace:
    """A token bucket: `per_s` messages per second, and `burst` at once."""

    def __init__(self, per_s: float, burst: int) -> None:
        self._gap_s = 1 / per_s
        self._burst_s = burst / per_s
        self._next = asyncio.get_running_loop().time() - self._burst_s

    async def wait(self) -> None:
        """Wait until the next message may be processed."""
        now = asyncio.get_running_loop().time()
        self._next = max(self._next, now - self._burst_s) + self._gap_s
        await asyncio.sleep(self._next - now)


class StreamLogin:
    """The principal of a socket, and until when the login is valid."""

    def __init__(self, principal: Principal, seconds: float) -> None:
        self._principal = principal
        self._seconds = seconds
        self.renew(principal)

    def renew(self, principal: Principal) -> None:
        """Extend the login. Raises Over when the user or the role is another one."""
        if principal != self._principal:
            raise Over(LOGIN_OVER, "the ticket belongs to another login")
        self._principal = principal
        self._until = asyncio.get_running_loop().time() + self._seconds

    @property
    def principal(self) -> Principal:
        return self._principal

    @property
    def left_s(self) -> float:
        """Seconds until the login expires."""
        return self._until - asyncio.get_running_loop().time()

    def check(self, topic: Topic) -> None:
        """Raises InvalidInput for lines of jobs that the principal has no access to."""
        if not self._principal.may_read(topic.job):
            what = f"{self._principal.name} may only access jobs that match {' or '.join(self._principal.jobs)}"
            raise InvalidInput(Problem("topic", what, "choose one of these"))


def add_stream(api: FastAPI, stream: Stream) -> None:

    async def endpoint(socket: WebSocket) -> None:
        await stream(socket)

    api.add_api_websocket_route(PATH, endpoint)


def _refused(message: dict[str, Any], detail: str, *, again: bool) -> StreamErrorSchema:
    return {"t": "error", "op": message.get("op"), "detail": detail, "again": again}


async def _receive(socket: WebSocket) -> dict[str, Any]:
    try:
        found = orjson.loads(await socket.receive_text())
    except (ValueError, KeyError):
        raise Over(1007, "a message must be one JSON object as text") from None
    if not isinstance(found, dict):
        raise Over(1007, "a message must be one JSON object as text")
    return found


async def _closing(socket: WebSocket, serving: Awaitable[Result]) -> Result | None:
    """What serving the socket returns; None when the socket was closed instead."""
    try:
        return await serving
    except Over as over:
        await _close(socket, over)
    except BackendUnavailable as error:
        await _close(socket, Over(STOPPING, f"{error.service} is unavailable"))
    except WebSocketDisconnect:
        pass
    return None


async def _close(socket: WebSocket, over: Over) -> None:
    try:
        # A client that does not read does not acknowledge the close either: then the connection is dropped.
        async with asyncio.timeout(CLOSE_WITHIN_S):
            await socket.close(over.code, over.reason)
    except (TimeoutError, WebSocketDisconnect, RuntimeError):
        return
