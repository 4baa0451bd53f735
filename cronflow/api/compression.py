"""Compressed responses: gzip for clients that accept it.

Only responses to GET are compressed, and none below `/auth`, because the size of a compressed response reveals
something about its content, and tokens, tickets and new keys are in the other responses. A response with an ETag stays
as it is, because a strong ETag names one sequence of bytes; so does one that is marked `no-transform`. Larger bodies
are compressed in a thread, so the event loop is not blocked.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipResponder, IdentityResponder
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cronflow.api.responses import PREFIX

SECRET_PATHS = f"{PREFIX}/auth/"
WORTH_IT = 1024
"""Smaller bodies would not get much smaller; in bytes."""
LEVEL = 6
IN_THREAD = 64 * 1024
"""Bodies of this size take about half a millisecond; in bytes."""


class Compressed:
    """The application, with compressed responses."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or scope["path"].startswith(SECRET_PATHS):
            await self._app(scope, receive, send)
            return
        responder = _Gzip(self._app) if accepts_gzip(Headers(scope=scope)) else _Identity(self._app, WORTH_IT)
        await responder(scope, receive, send)


class _Identity(IdentityResponder):
    """Only adds `Vary` to a response that another client would get compressed."""

    _fixed = False

    async def send_with_compression(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._fixed = _is_fixed(Headers(raw=message.get("headers", [])))
        await (self.send(message) if self._fixed else super().send_with_compression(message))


class _Gzip(_Identity, GZipResponder):
    """Compresses the response."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(app, WORTH_IT, LEVEL, thread_minimum_size=IN_THREAD)


def accepts_gzip(headers: Headers) -> bool:
    """Whether Accept-Encoding allows gzip; a weight of 0 refuses a coding."""
    weights: dict[str, float] = {}
    for part in ",".join(headers.getlist("accept-encoding")).split(","):
        coding, _, parameters = part.partition(";")
        name, _, value = parameters.partition("=")
        try:
            weight = float(value) if name.strip().lower() == "q" else 1.0
        except ValueError:
            weight = 0.0
        weights[coding.strip().lower()] = weight
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def _is_fixed(headers: Headers) -> bool:
    # The dashboard's files vary already: they are compressed once, at the start.
    return (
        "etag" in headers
        or "no-transform" in _values(headers, "cache-control")
        or "accept-encoding" in _values(headers, "vary")
    )


def _values(headers: Headers, name: str) -> set[str]:
    return {value.strip().lower() for value in headers.get(name, "").split(",")}
