"""Log lines of runs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Query

from cronflow.api.access import Viewer
from cronflow.api.bodies import INSTANT, Before, From, RunId, Uses
from cronflow.api.pagination import Cursor, Limit, cursor_of, first_of, line_key, name_key, time_key
from cronflow.api.responses import may, new_router
from cronflow.domain.events import cursor_of as id_before
from cronflow.domain.run import at_least
from cronflow.ports import LineQuery
from cronflow.schemas import Schema
from cronflow.schemas.runs import LogSchema, log_schema
from cronflow.schemas.stream import EventSchema, event_schema

router = new_router("logs")


class LogPage(Schema):
    """Lines of a run, in order."""

    items: list[LogSchema]
    """May be fewer than the limit although there are more."""
    next_cursor: str | None
    """For `after`; null: the run has ended and has no more lines."""


class FoundPage(Schema):
    """Lines of many runs, the newest first."""

    items: list[LogSchema]
    """May be fewer than the limit, or none, although there are more."""
    next_cursor: str | None
    """For the next page; null: this is the last page."""


Text = Annotated[str, Query(max_length=200, description="Only lines that contain this text, ignoring case.")]


@router.get("/logs")
async def search_logs(
    service: Uses,
    _: Viewer,
    q: Text = "",
    level: Annotated[
        str | None,
        Query(
            max_length=20, description="Of this level or a higher one: debug, info, success, warn, error; or progress."
        ),
    ] = None,
    node: Annotated[str | None, Query(max_length=300, description="Only lines written on this node.")] = None,
    job: Annotated[str | None, Query(max_length=300, description="Only lines of this job.")] = None,
    since: From = None,
    until: Before = None,
    cursor: Cursor = None,
    limit: Limit = 200,
) -> FoundPage:
    """Log lines of all jobs. A page reads a bounded number of lines, so it may be short although more follow."""
    found = await service.backends.logs.find(
        LineQuery(
            text=q,
            levels=() if level is None else at_least(level),
            node=node,
            job=job,
            since=since,
            until=until,
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
            description="`next_cursor` of the previous response, or `<fence>:<n>` of a line; default: the start.",
        ),
    ] = None,
    limit: Limit = 200,
) -> LogPage:
    """Log lines of all attempts of a run. While the run is open `next_cursor` is never null: poll with it."""
    # The state first: all lines that the run wrote before it ended are then included.
    is_open = (await service.runs.get(id)).is_open
    lines, (fence, n), more = await service.search.lines(id, q, after=line_key(after), limit=limit)
    return {
        "items": [log_schema(line) for line in lines],
        "next_cursor": cursor_of(fence, n) if more or is_open else None,
    }


events = new_router("events")


class EventPage(Schema):
    """Events, newest first."""

    items: list[EventSchema]
    """The events."""
    next_cursor: str | None
    """For the next page; null: this is the last page."""


@events.get("/events")
async def list_events(
    service: Uses,
    _: Viewer,
    since: From = None,
    until: Annotated[datetime | None, INSTANT, Query(description="Before this instant.")] = None,
    kind: Annotated[
        list[str] | None, Query(max_length=100, description="Only this kind, for example `leader_elected`; repeatable.")
    ] = None,
    node: Annotated[str, Query(max_length=100, description="Only events about this node.")] = "",
    cursor: Cursor = None,
    limit: Limit = 50,
) -> EventPage:
    """Events of the cluster, newest first; kept as long as log lines."""
    bound = name_key(cursor) or ("" if until is None else id_before(until))
    found = await service.cluster.events(kinds=kind or (), node=node, since=since, before=bound, limit=limit + 1)
    shown, before = first_of(found, limit, lambda happened: happened.id)
    return {"items": [event_schema(happened) for happened in shown], "next_cursor": before}
