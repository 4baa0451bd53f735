"""The websocket of the live stream, `/api/v1/stream`; `docs/concepts/stream.md` describes its messages.

Nothing is sent before a ticket is accepted, which is valid once and never part of a URL. A page of another origin
cannot connect. A key that is limited to certain jobs follows lines of these alone. A socket whose client reads too
slowly is closed and delays no other. `check` resolves a ticket; this module handles no passwords.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson
from fastapi import FastAPI, WebSocket, WebSocketDisconnect

from cronflow.domain.access import Principal
from cronflow.domain.errors import BackendUnavailable, Conflict, InvalidInput, Problem
from cronflow.live.hub import Hub
from cronflow.live.session import StreamSession
from cronflow.live.subscriptions import Topic, topic_of
from cronflow.schemas.stream import StreamErrorSchema

PATH = "/api/v1/stream"
CLUSTER = "cluster"
"""The topic of every session."""
LOGIN_OVER, TOO_SLOW, TOO_MANY, STOPPING = 4401, 4408, 4429, 1012
LARGEST_MESSAGE = 64 * 1024
"""Messages of clients are short; in bytes."""
HELLO_WITHIN_S = 10.0
READY_WITHIN_S = 5.0
CLOSE_WITHIN_S = 30.0

CheckTicket = Callable[[str], Awaitable[Principal | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLimits:
    """`login_s`: how long a ticket is valid; then the client sends `auth` with a fresh one. `slow_s`: how long sending
    one message may take. `messages_s`: how many messages of a client are processed per second after its `burst`; the
    others wait in its connection.
    """

    sockets: int = 500
    sockets_each: int = 20
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
        self, hub: Hub, check: CheckTicket, *, origins: Collection[str] = (), limits: StreamLimits | None = None
    ) -> None:
        self._hub = hub
        self._check = check
        self._origins = frozenset(origins)
        self._limits = limits or StreamLimits()
        self._open = 0
        self._each: Counter[str] = Counter()

    @property
    def connected(self) -> int:
        """The number of open sockets."""
        return self._open

    async def __call__(self, socket: WebSocket) -> None:
        """Serve one socket until it is closed."""
        if not self._is_ours(socket):
            # Closing before accepting: the browser gets a 403.
            await socket.close()
            return
        await socket.accept()
        try:
            await self._serve(socket)
        except Over as over:
            await _close(socket, over)
        except BackendUnavailable as error:
            await _close(socket, Over(STOPPING, f"{error.service} is unreachable"))
        except WebSocketDisconnect:
            return

    def _is_ours(self, socket: WebSocket) -> bool:
        origin = socket.headers.get("origin")
        return origin is None or origin in self._origins or urlsplit(origin).netloc == socket.headers.get("host")

    async def _serve(self, socket: WebSocket) -> None:
        if self._open >= self._limits.sockets:
            raise Over(TOO_MANY, "too many sockets on this server")
        self._open += 1
        try:
            try:
                async with asyncio.timeout(HELLO_WITHIN_S):
                    hello = await _receive(socket)
            except TimeoutError:
                raise Over(LOGIN_OVER, "no hello received") from None
            if hello.get("op") != "hello":
                raise Over(LOGIN_OVER, "the first message must be hello with a ticket")
            principal = await self._admit(hello)
            if self._each[principal.name] >= self._limits.sockets_each:
                raise Over(TOO_MANY, f"too many sockets of {principal.name}")
            self._each[principal.name] += 1
            try:
                await self._talk(socket, principal, hello)
            finally:
                self._each[principal.name] -= 1
        finally:
            self._open -= 1

    async def _admit(self, message: dict[str, Any]) -> Principal:
        ticket = message.get("ticket")
        principal = await self._check(ticket) if isinstance(ticket, str) else None
        if principal is None:
            raise Over(LOGIN_OVER, "the ticket is invalid or has expired")
        return principal

    async def _talk(self, socket: WebSocket, principal: Principal, hello: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(READY_WITHIN_S):
                await self._hub.ready.wait()
        except TimeoutError:
            raise Over(STOPPING, "the live stream is not available") from None
        since = hello.get("since")
        session = self._hub.open(since if isinstance(since, str) else None)
        login = StreamLogin(principal, self._limits.login_s)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._write(socket, session), name="stream writer")
                group.create_task(self._read(socket, session, login, hello), name="stream reader")
                group.create_task(login.over(), name="stream login")
        except* WebSocketDisconnect:
            pass
        except* Over as overs:
            raise overs.exceptions[0] from None
        finally:
            self._hub.close(session)

    async def _write(self, socket: WebSocket, session: StreamSession) -> None:
        while True:
            text = await session.next()
            try:
                async with asyncio.timeout(self._limits.slow_s):
                    await socket.send_text(text)
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
                session.send(_refused(message, f"{error.service} is unreachable", again=True))

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
        self._until = asyncio.get_running_loop().time() + self._seconds

    def check(self, topic: Topic) -> None:
        """Raises InvalidInput for lines of jobs that the principal has no access to."""
        if not self._principal.may_read(topic.job):
            what = f"{self._principal.name} is limited to jobs such as {self._principal.jobs[0]}"
            raise InvalidInput(Problem("topic", what, "choose one of these"))

    async def over(self) -> None:
        """Wait until the login expires. Raises Over."""
        loop = asyncio.get_running_loop()
        while (left := self._until - loop.time()) > 0:
            await asyncio.sleep(left)
        raise Over(LOGIN_OVER, "the login has expired")


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


async def _close(socket: WebSocket, over: Over) -> None:
    try:
        # A client that does not read does not acknowledge the close either: then the connection is dropped.
        async with asyncio.timeout(CLOSE_WITHIN_S):
            await socket.close(over.code, over.reason)
    except (TimeoutError, WebSocketDisconnect, RuntimeError):
        return
