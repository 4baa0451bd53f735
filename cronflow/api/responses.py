"""Routes that return schemas.

mypy checks that an endpoint returns its schema; so the return type describes the response in the OpenAPI document, and
is not validated again at run time. Unknown query parameters are refused: ignoring a filter would return too much.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from fastapi import APIRouter, Depends, Request, Response
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Query
from fastapi.routing import APIRoute

from cronflow.domain.errors import InvalidInput, Problem

PREFIX = "/api/v1"


class OrjsonResponse(Response):
    media_type = "application/json"

    def render(self, content: object) -> bytes:
        return orjson.dumps(content)


class Route(APIRoute):
    """A route whose endpoint returns a schema. A `response` parameter of the endpoint sets headers and the status."""

    def __init__(self, path: str, endpoint: Callable[..., Awaitable[object]], **options: Any) -> None:
        super().__init__(path, _answering(endpoint, options.get("status_code") or 200), **options)


def _answering(endpoint: Callable[..., Awaitable[object]], status: int) -> Callable[..., Awaitable[Response]]:
    @functools.wraps(endpoint)
    async def answer(**values: Any) -> Response:
        content = await endpoint(**values)
        given = next((value for value in values.values() if isinstance(value, Response)), None)
        headers = None if given is None else dict(given.headers)
        if content is None:
            return Response(status_code=status, headers=headers)
        if given is None:
            return OrjsonResponse(content, status)
        return OrjsonResponse(content, given.status_code or status, headers)

    return answer


async def _only_known(request: Request) -> None:
    params = get_flat_params(request.scope["route"].dependant)
    known = [field.alias for field in params if isinstance(field.field_info, Query)]
    remedy = f"known parameters: {', '.join(known)}" if known else "this route has none"
    unknown = [Problem(name, "unknown parameter", remedy) for name in request.query_params if name not in known]
    if unknown:
        raise InvalidInput(unknown)


def new_router(tag: str) -> APIRouter:
    return APIRouter(prefix=PREFIX, tags=[tag], route_class=Route, dependencies=[Depends(_only_known)])


def may(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors that a route may return, besides those of every route."""
    return {status: {} for status in statuses}
