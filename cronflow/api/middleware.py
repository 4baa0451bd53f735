"""Middleware of every route: the client's address, the size of bodies, compression, and security headers.

Plain ASGI around the whole application, so that error responses have the headers too. CORS is off unless origins are
configured, and never allows cookies.
"""

from __future__ import annotations

import time
from collections.abc import MutableMapping, Sequence
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from cronflow.api.compression import Compressed
from cronflow.api.problems import problem
from cronflow.api.responses import PREFIX
from cronflow.domain import metrics
from cronflow.ports import Meter
from cronflow.usecases.audit import client_address, client_agent

LARGEST_BODY = 1024 * 1024
LARGEST_LOGIN = 4 * 1024
LONGEST_AGENT = 200
LOGIN_PATHS = f"{PREFIX}/auth/"
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
    app: ASGIApp = Compressed(BodyLimit(ClientAddress(api), largest_body))
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
    """Gives the audit log and sessions the address of the client and its program."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        address = client_address.set(client[0] if client else None)
        agent = client_agent.set(_agent(scope))
        try:
            await self._app(scope, receive, send)
        finally:
            client_agent.reset(agent)
            client_address.reset(address)


def _agent(scope: Scope) -> str:
    """The User-Agent header, shortened, without characters that could confuse a terminal."""
    sent = dict(scope.get("headers", ())).get(b"user-agent", b"").decode("latin-1")
    return "".join(character for character in sent if character.isprintable())[:LONGEST_AGENT]


class BodyTooLarge(HTTPException):
    """The body is larger than allowed: 413."""

    def __init__(self, most: int) -> None:
        super().__init__(413, f"the body is larger than {most:,} bytes", {"Connection": "close"})


class BodyLimit:
    """Answers 413 to a body that is too large, at once or while the application reads it. Requests of `/auth` need no
    login, so their bodies are small.
    """

    def __init__(self, app: ASGIApp, largest: int) -> None:
        self._app = app
        self._largest = largest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = LARGEST_LOGIN if scope["path"].startswith(LOGIN_PATHS) else self._largest
        size = 0

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > most:
                raise BodyTooLarge(most)
            return message

        declared = dict(scope["headers"]).get(b"content-length", b"")
        try:
            # The server refuses a value that is not a number.
            if declared.isdigit() and int(declared) > most:
                raise BodyTooLarge(most)
            await self._app(scope, counted, send)
        except BodyTooLarge as error:
            await problem(413, error.detail, headers=error.headers)(scope, receive, send)


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
