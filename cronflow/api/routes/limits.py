"""Limits: how many runs of several jobs execute at the same time, and how many start per period."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import Path, Response

from cronflow.api.access import Editor, Viewer
from cronflow.api.bodies import Body, Uses, takes
from cronflow.api.pagination import Cursor, Limit, first_of, name_key
from cronflow.api.responses import may, new_router
from cronflow.documents.limits import parse_limit
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.schemas import Schema
from cronflow.schemas.limits import LimitSchema, limit_schema

router = new_router("limits")

EXAMPLE = {"limit": 4, "rate": "100/m", "description": "Connections of the warehouse"}

LimitName = Annotated[str, Path(description="The limit.")]


class LimitPage(Schema):
    """Limits, by name."""

    items: list[LimitSchema]
    """The limits."""
    next_cursor: str | None
    """For the next page; null: this is the last page."""


@router.get("/limits")
async def list_limits(service: Uses, _: Viewer, cursor: Cursor = None, limit: Limit = 50) -> LimitPage:
    """Limits, by name, with the runs that hold their permits and those that wait."""
    found = await service.limits.find(after=name_key(cursor), limit=limit + 1)
    shown, after = first_of(found, limit, lambda usage: usage.state.name)
    return {"items": [limit_schema(usage) for usage in shown], "next_cursor": after}


@router.get("/limits/{name}", responses=may(404))
async def show_limit(service: Uses, _: Viewer, name: LimitName) -> LimitSchema:
    """A limit, with the runs that hold its permits and those that wait."""
    return limit_schema(await service.limits.get(name))


@router.put("/limits/{name}", responses=may(201), openapi_extra=takes("LimitReplacement", EXAMPLE))
async def put_limit(service: Uses, by: Editor, name: LimitName, body: Body, response: Response) -> LimitSchema:
    """Create or change a limit. It applies to runs that start from now on. The body may omit the name."""
    limit = parse_limit({"name": name, **body} if isinstance(body, Mapping) else body)
    if limit.name != name:
        raise InvalidInput(Problem("name", f"is {limit.name!r}, but the path has {name!r}", "leave it out"))
    usage, result = await service.limits.define(limit, by=by.name)
    response.status_code = 201 if result == "created" else 200
    return limit_schema(usage)


@router.delete("/limits/{name}", status_code=204, response_class=Response, responses=may(404, 409))
async def delete_limit(service: Uses, by: Editor, name: LimitName) -> None:
    """Delete a limit. 409 while jobs name it."""
    await service.limits.delete(name, by=by.name)
