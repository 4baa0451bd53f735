"""Middleware of every route: the client's address, the size of bodies, and security headers.

Plain ASGI around the whole application, so that error responses have the headers too. CORS is off unless origins are
configured, and never allows cookies.
"""

from __future__ import annotations

import time
from collections.abc import MutableMapping, Sequence
from typing import Any

import orjson
from starlette.datastructures import MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from cronflow.domain import metrics
from cronflow.ports import Meter
from cronflow.usecases.audit import client_address

LARGEST_BODY = 1024 * 1024
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
PAGE_POLICY = "base-uri 'self'; object-src 'none'; frame-ancestors 'none'"
"""For HTML without a policy of its own: it may load anything, but no other site may frame it."""
HSTS = "max-age=31536000"


def guarded(
    api: ASGIApp,
    *,
    origins: Sequence[str] = (),
    proxies: Sequence[str] = (),
    largest_body: int = LARGEST_BODY,
) -> ASGIApp:
    """The application with all middleware. `proxies`: whose X-Forwarded-For and X-Forwarded-Proto are trusted."""
    app: ASGIApp = BodyLimit(ClientAddress(api), largest_body)
    if origins:
        app = CORSMiddleware(
            app,
            allow_origins=list(origins),
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "If-Match", "Idempotency-Key"],
            expose_headers=["ETag", "Location", "Retry-After"],
        )
    app = SecurityHeaders(app)
    if proxies:
        app = ProxyHeadersMiddleware(app, list(proxies))  # type: ignore[arg-type, assignment]
    return app


class ClientAddress:
    """Gives the audit log the address of the client."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        before = client_address.set(client[0] if client else None)
        try:
            await self._app(scope, receive, send)
        finally:
            client_address.reset(before)


class BodyLimit:
    """Answers 413 to a body that is too large, before the application reads it."""

    def __init__(self, app: ASGIApp, largest: int) -> None:
        self._app = app
        self._largest = largest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"")
        # The server refuses a value that is not a number.
        if declared.isdigit() and int(declared) > self._largest:
            await self._refuse(send)
            return
        first = await self._read(receive)
        if first is None:
            await self._refuse(send)
            return
        waiting = [first]

        async def replay() -> Message:
            return waiting.pop() if waiting else await receive()

        await self._app(scope, replay, send)

    async def _read(self, receive: Receive) -> Message | None:
        """The whole body as one message, or the message that came instead; None when it is too large."""
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return message
            body += message.get("body", b"")
            if len(body) > self._largest:
                return None
            if not message.get("more_body", False):
                return {"type": "http.request", "body": bytes(body), "more_body": False}

    async def _refuse(self, send: Send) -> None:
        detail = f"the body is larger than {self._largest:,} bytes"
        problem = {"type": "about:blank", "title": "Content Too Large", "status": 413, "detail": detail}
        headers = [(b"content-type", b"application/problem+json"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": orjson.dumps(problem)})


class SecurityHeaders:
    """Adds security headers that the response does not set itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if headers.get("content-type", "").startswith("text/html"):
                    headers.setdefault("Content-Security-Policy", PAGE_POLICY)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if scope["path"].startswith("/api/"):
                    headers.setdefault("Cache-Control", "no-store")
                if scope["scheme"] == "https":
                    headers.setdefault("Strict-Transport-Security", HSTS)
            await send(message)

        await self._app(scope, receive, with_headers)


METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER = "other"
NO_ANSWER = 500
"""Of a request that ended without one."""


class Measured:
    """The application, measured."""

    def __init__(self, app: ASGIApp, meter: Meter) -> None:
        self._app = app
        self._meter = meter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, began = NO_ANSWER, time.perf_counter()

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            method = scope["method"] if scope["method"] in METHODS else OTHER
            route = getattr(scope.get("route"), "path", OTHER)
            self._meter.add(metrics.API_REQUESTS, method, route, str(status))
            self._meter.observe(metrics.API_SECONDS, time.perf_counter() - began, method, route)
