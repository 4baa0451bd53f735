"""What stands before the routes: headers, CORS, the limit of bodies, and whose address counts."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from cronflow.api.middleware import LARGEST_BODY, guarded
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends
from tests.auth.bench import Replica

MIB = 1024 * 1024


async def chunks(size: int) -> AsyncIterator[bytes]:
    """A body that does not say how large it is."""
    while size > 0:
        yield b"x" * min(size, 64 * 1024)
        size -= 64 * 1024


@pytest.mark.parametrize("path", ["/livez", "/jobs", "/nothing", "/auth/token"])
async def test_every_response_has_the_security_headers(api: Replica, path: str) -> None:
    answer = await api.send("GET", path)
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert "Strict-Transport-Security" not in answer.headers


async def test_answers_with_tokens_are_not_stored(api: Replica) -> None:
    assert (await api.login()).headers["Cache-Control"] == "no-store"


async def test_https_is_to_be_used_again_where_it_was_used(api: Replica) -> None:
    answer = await api.send("GET", "/livez", scheme="https")
    assert "max-age=" in answer.headers["Strict-Transport-Security"]


async def test_a_page_may_have_a_policy_of_its_own_and_is_never_framed() -> None:
    import httpx2

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        own = {"Content-Security-Policy": "default-src 'self'"} if scope["path"] == "/own" else {}
        answer: Response = HTMLResponse("<p>", headers=own)
        await answer(scope, receive, send)

    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=guarded(app)), base_url="http://api") as client:
        assert (await client.get("/own")).headers["Content-Security-Policy"] == "default-src 'self'"
        plain = (await client.get("/")).headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in plain
        assert "default-src" not in plain


async def test_an_unexpected_error_has_the_security_headers_too() -> None:
    import httpx2
    from fastapi import FastAPI

    api = FastAPI(openapi_url=None)

    @api.get("/broken")
    async def broken() -> None:
        raise RuntimeError("broken")

    transport = httpx2.ASGITransport(app=guarded(api), raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://api") as client:
        answer = await client.get("/broken")
    assert (answer.status_code, answer.headers["X-Content-Type-Options"]) == (500, "nosniff")


# --------------------------------------------------------------------------------------------------------------- CORS

ORIGIN = {"Origin": "https://ops.example.com"}
PREFLIGHT = {**ORIGIN, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}


async def test_no_other_origin_may_read_answers(api: Replica) -> None:
    for headers in (ORIGIN, PREFLIGHT):
        answer = await api.send("OPTIONS" if headers is PREFLIGHT else "GET", "/jobs", headers=headers)
        assert not any(name.startswith("access-control-") for name in answer.headers)


async def test_an_origin_that_is_named_may_and_no_other(memory: MemoryBackends, clock: FakeClock) -> None:
    api = Replica(memory, clock, guards={"origins": ["https://ops.example.com"]})
    answer = await api.send("OPTIONS", "/jobs", headers=PREFLIGHT)
    assert answer.status_code == 200
    assert answer.headers["Access-Control-Allow-Origin"] == "https://ops.example.com"
    assert "Access-Control-Allow-Credentials" not in answer.headers
    answer = await api.send("GET", "/jobs", headers=ORIGIN)
    assert answer.status_code == 401
    assert answer.headers["Access-Control-Allow-Origin"] == "https://ops.example.com"
    for other in ("https://evil.example.com", "http://ops.example.com", "https://ops.example.com.evil.test", "null"):
        answer = await api.send("OPTIONS", "/jobs", headers={**PREFLIGHT, "Origin": other})
        assert answer.status_code == 400
        assert "Access-Control-Allow-Origin" not in answer.headers


# ------------------------------------------------------------------------------------------------------------- bodies


def echo(replica: Replica) -> None:
    """An application that answers how much it was sent."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body = await Request(scope, receive).body()
        await PlainTextResponse(str(len(body)))(scope, receive, send)

    replica.app = guarded(app)


async def test_a_body_of_the_limit_passes_whole_and_one_byte_more_is_413(api: Replica) -> None:
    echo(api)
    assert LARGEST_BODY == MIB
    for content in (b"x" * MIB, chunks(MIB)):
        assert (await api.send("POST", "/jobs", content=content)).text == str(MIB)
    for content in (b"x" * (MIB + 1), chunks(MIB + 1), chunks(50 * MIB)):
        answer = await api.send("POST", "/jobs", content=content)
        assert answer.status_code == 413
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == 413
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_a_body_larger_than_its_content_length_is_413(api: Replica) -> None:
    echo(api)
    answer = await api.send("POST", "/jobs", content=chunks(MIB + 1), headers={"Content-Length": "5"})
    assert answer.status_code == 413


async def test_bodies_of_requests_that_need_no_login_are_at_most_4_kib(api: Replica) -> None:
    for path in ("/auth/token", "/auth/refresh", "/auth/logout", "/auth/session"):
        for content in (b" " * 4097, chunks(50 * MIB)):
            answer = await api.send("POST", path, content=content, headers={"X-CronFlow-Page": "1"})
            assert (answer.status_code, answer.headers["connection"]) == (413, "close"), path
            assert answer.json()["detail"] == "the body is larger than 4,096 bytes"
    filled = b'{"username": "admin", "password": "correct horse battery"}'
    assert (await api.send("POST", "/auth/token", content=filled + b" " * (4096 - len(filled)))).status_code == 200


async def test_a_body_is_not_read_before_the_login(api: Replica) -> None:
    read = []

    async def body() -> AsyncIterator[bytes]:
        read.append(b"{}")
        yield b"{}"

    assert (await api.send("POST", "/jobs", content=body())).status_code == 401
    assert not read


async def test_a_request_without_a_body_passes(api: Replica) -> None:
    echo(api)
    assert (await api.send("GET", "/jobs")).text == "0"


# ---------------------------------------------------------------------------------------------------------- addresses


async def test_without_trusted_proxies_forwarded_addresses_are_ignored(api: Replica) -> None:
    for n in range(20):
        answer = await api.login(f"user-{n}", "wrong password", headers={"X-Forwarded-For": f"198.51.100.{n}"})
        assert answer.status_code == 401
    headers = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https", "Forwarded": "for=203.0.113.9"}
    answer = await api.login(headers=headers)
    assert answer.status_code == 429
    assert "Strict-Transport-Security" not in answer.headers


async def test_behind_a_trusted_proxy_the_clients_address_counts(memory: MemoryBackends, clock: FakeClock) -> None:
    api = Replica(memory, clock, guards={"proxies": ["192.0.2.0/24"]})
    for n in range(20):
        await api.login(f"user-{n}", "wrong password", headers={"X-Forwarded-For": "198.51.100.1"})
    # What the client itself put into the header stands to the left of what the proxy saw.
    spoofed = {"X-Forwarded-For": "203.0.113.77, 198.51.100.1, 192.0.2.9", "X-Forwarded-Proto": "https"}
    refused = await api.login(headers=spoofed)
    assert refused.status_code == 429
    assert "Strict-Transport-Security" in refused.headers
    assert (await api.login(headers={"X-Forwarded-For": "198.51.100.2"})).status_code == 200
    # Who comes past the proxy is taken for what he is.
    assert (await api.login(headers={"X-Forwarded-For": "198.51.100.1"}, address="203.0.113.5")).status_code == 200
