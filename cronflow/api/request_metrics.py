"""Counts and times each answer, by the template of its route, around the whole application.

The rule it protects: no label is what a client chose: a path that is no route is `other`, and so is a method that no
route has.
"""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cronflow.domain import metrics
from cronflow.ports import Meter

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
