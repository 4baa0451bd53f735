"""A web server of the test on the loopback, and a request to it as a job would send it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from cronflow.domain.job import HttpTarget
from cronflow.domain.run import AttemptResult
from cronflow.executors.http import HttpExecutor
from tests.executors import Lines, assignment


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Answer = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Server:
    """Answers each path with the bytes it was given, or lets a coroutine do it; remembers what it was asked."""

    port: int = 0
    answers: dict[str, Answer] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    closed: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, path, _ = head[0].split(" ")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:-2])}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.requests.append(Request(method, path, headers, body))
                found = self.answers.get(path.partition("?")[0], answer(404))
                if isinstance(found, bytes):
                    writer.write(found)
                    await writer.drain()
                else:
                    await found(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.closed += 1
            writer.close()


def answer(status: int, body: str = "", **headers: str) -> bytes:
    named = {"Content-Length": str(len(body)), **{name.replace("_", "-"): value for name, value in headers.items()}}
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in named.items())]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


async def send(
    executor: HttpExecutor,
    url: str,
    lines: Lines | None = None,
    *,
    method: str = "GET",
    timeout: str = "20s",
    headers: Mapping[str, str] | None = None,
    body: str | None = None,
    expect: tuple[int, ...] = (),
) -> AttemptResult:
    target = HttpTarget(url, method=method, headers=headers or {}, body=body, expect=expect)
    return await executor.run(assignment(target, timeout=timeout), "node-1", lines or Lines())
