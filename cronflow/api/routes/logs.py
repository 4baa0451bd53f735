"""What runs wrote."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from cronflow.api.access import Viewer
from cronflow.api.bodies import From, RunId, Uses
from cronflow.api.pagination import Cursor, Limit, cursor_of, line_key, time_key
from cronflow.api.responses import may, new_router
from cronflow.domain.log_levels import at_least
from cronflow.ports import LineQuery
from cronflow.schemas import Schema
from cronflow.schemas.runs import LogSchema, log_schema

router = new_router("logs")


class LogPage(Schema):
    """Lines that a run wrote, in order."""

    items: list[LogSchema]
    """They may be fewer than the limit although there are more."""
    next_cursor: str | None
    """For `after`; null: the run has ended, and these were its last lines."""


class FoundPage(Schema):
    """Lines of many runs, the newest first."""

    items: list[LogSchema]
    """They may be fewer than the limit, or none, although there are more."""
    next_cursor: str | None
    """For the next page; null: this is the last one."""


Text = Annotated[str, Query(max_length=200, description="Only lines with this text, in any case.")]


@router.get("/logs")
async def search_logs(
    service: Uses,
    _: Viewer,
    q: Text = "",
    level: Annotated[
        str | None,
        Query(
            max_length=20, description="Of this level or a graver one: debug, info, success, warn, error; or progress."
        ),
    ] = None,
    node: Annotated[str | None, Query(max_length=300, description="Only what was written on this node.")] = None,
    job: Annotated[str | None, Query(max_length=300, description="Only of runs of this job.")] = None,
    since: From = None,
    cursor: Cursor = None,
    limit: Limit = 200,
) -> FoundPage:
    """What runs wrote, of all jobs. A page looks at a bounded number of lines, so it may be short before the last."""
    found = await service.backends.logs.find(
        LineQuery(
            text=q,
            levels=() if level is None else at_least(level),
            node=node,
            job=job,
            since=since,
            before=time_key(cursor),
            limit=limit,
        )
    )
    return {
        "items": [log_schema(line) for line in found.lines],
        "next_cursor": None if found.following is None else cursor_of(*found.following),
    }


@router.get("/runs/{id}/logs", responses=may(404))
async def run_logs(
    service: Uses,
    _: Viewer,
    id: RunId,  # noqa: A002  the public name
    q: Text = "",
    after: Annotated[
        str | None,
        Query(
            max_length=1000,
            description="`next_cursor` of the answer before, or `<fence>:<n>` of a line; without it, the first line.",
        ),
    ] = None,
    limit: Limit = 200,
) -> LogPage:
    """What a run wrote, of all its attempts. While it is open `next_cursor` is never null: ask again after it."""
    # The state first: what the run wrote before it ended is then among the lines.
    is_open = (await service.runs.get(id)).is_open
    lines, (fence, n), more = await service.search.lines(id, q, after=line_key(after), limit=limit)
    return {
        "items": [log_schema(line) for line in lines],
        "next_cursor": cursor_of(fence, n) if more or is_open else None,
    }
