"""Compressed responses: for whom, and which."""

from __future__ import annotations

import asyncio
import gzip
import threading
import zlib
from datetime import timedelta
from typing import Any

import httpx2
import orjson
import pytest
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from cronflow.api.compression import IN_THREAD, Compressed
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import memory_backends
from tests.auth.bench import Replica
from tests.contracts.builders import T0, a_job, a_run

LONG = b'{"name":"nightly-report"}' * 100
JSON = "application/json"


async def answer(
    accepted: str, *, method: str = "GET", path: str = "/api/v1/jobs", body: bytes = LONG, **headers: str
) -> tuple[httpx2.Headers, bytes]:
    """The headers and the bytes of a response with this body."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        made = Response(body, media_type=JSON, headers={name.replace("_", "-"): text for name, text in headers.items()})
        await made(scope, receive, send)

    return await sent(Compressed(app), method, path, accepted)


async def sent(app: Any, method: str, path: str, accepted: str) -> tuple[httpx2.Headers, bytes]:
    transport = httpx2.ASGITransport(app=app)
    async with (
        httpx2.AsyncClient(transport=transport, base_url="http://api") as client,
        client.stream(method, path, headers={"Accept-Encoding": accepted}) as found,
    ):
        return found.headers, b"".join([chunk async for chunk in found.aiter_raw()])


@pytest.mark.parametrize("accepted", ["gzip", "br, GZIP;q=0.5", "gzip, deflate, br, zstd", "*", "*;q=0.1, br"])
async def test_a_response_is_compressed_for_a_client_that_accepts_gzip(accepted: str) -> None:
    headers, body = await answer(accepted)
    assert gzip.decompress(body) == LONG
    assert (headers["content-encoding"], headers["vary"]) == ("gzip", "Accept-Encoding")
    assert int(headers["content-length"]) == len(body)


@pytest.mark.parametrize(
    "accepted", ["", "identity", "br", "gzip;q=0", "gzip;q=0.0, *", "*;q=0", "gzip;q=much", "xgzip"]
)
async def test_it_is_not_for_one_that_does_not_but_a_cache_is_told_that_it_varies(accepted: str) -> None:
    headers, body = await answer(accepted)
    assert body == LONG
    assert "content-encoding" not in headers
    assert headers["vary"] == "Accept-Encoding"


@pytest.mark.parametrize(
    "one",
    [
        {"method": "POST"},
        {"path": "/api/v1/auth/me"},
        {"ETag": '"3"'},
        {"Cache_Control": "no-store, No-Transform"},
        {"Content_Encoding": "br"},
        {"Vary": "Origin, Accept-Encoding"},
        {"body": b'{"status":"ok"}'},
    ],
    ids=str,
)
async def test_a_response_stays_as_it_is(one: dict[str, Any]) -> None:
    headers, body = await answer("gzip", **one)
    assert body == one.get("body", LONG)
    assert headers.get("content-encoding") == one.get("Content_Encoding")
    assert headers.get("vary") == one.get("Vary")


async def test_a_stream_is_compressed_and_sent_part_by_part() -> None:
    release = asyncio.Event()

    async def parts() -> Any:
        yield LONG
        await release.wait()
        yield LONG

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await StreamingResponse(parts(), media_type=JSON)(scope, receive, send)

    found = zlib.decompressobj(16 + zlib.MAX_WBITS)
    got = b""

    async def send(message: Any) -> None:
        nonlocal got
        got += found.decompress(message.get("body", b""))
        if got == LONG:
            release.set()

    async def receive() -> Any:
        await asyncio.Event().wait()

    scope = {"type": "http", "method": "GET", "path": "/x", "headers": [(b"accept-encoding", b"gzip")]}
    async with asyncio.timeout(30):
        await Compressed(app)(scope, receive, send)
    assert got == LONG * 2


async def test_a_large_body_is_compressed_in_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []
    make = zlib.compressobj

    def noting(*options: Any) -> Any:
        threads.append(threading.current_thread())
        return make(*options)

    monkeypatch.setattr(zlib, "compressobj", noting)
    large = b"x" * IN_THREAD
    assert gzip.decompress((await answer("gzip", body=large))[1]) == large
    assert gzip.decompress((await answer("gzip", body=large[:-1]))[1]) == large[:-1]
    assert [thread is threading.main_thread() for thread in threads] == [False, True]


async def test_the_lists_of_an_api_are_compressed_and_its_tokens_are_not() -> None:
    clock = FakeClock()
    memory = memory_backends(clock)
    api = Replica(memory, clock)
    await api.service.jobs.apply([a_job(f"job-{n}") for n in range(20)])
    await memory.runs.insert([a_run(fire=T0 + timedelta(seconds=n)) for n in range(20)])
    tokens = await api.login()
    token = tokens.json()["access_token"]
    lists = [await api.send("GET", path, token=token) for path in ("/jobs", "/runs")]
    assert [found.headers.get("content-encoding") for found in lists] == ["gzip", "gzip"]
    assert all(len(orjson.loads(found.content)["items"]) == 20 for found in lists)
    key = await api.send("POST", "/api-keys", {"name": "k" * 60, "role": "viewer"}, token=token)
    job = await api.send("GET", "/jobs/job-1", token=token)
    for found in (tokens, key, job, await api.send("GET", "/auth/me", token=token)):
        assert found.is_success
        assert "content-encoding" not in found.headers
