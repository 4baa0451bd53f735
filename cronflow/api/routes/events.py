"""Events of the cluster."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from cronflow.api.access import Viewer
from cronflow.api.bodies import From, Uses
from cronflow.api.pagination import Cursor, Limit, first_of, name_key
from cronflow.api.responses import new_router
from cronflow.schemas import Schema
from cronflow.schemas.stream import EventSchema, event_schema

router = new_router("events")


class EventPage(Schema):
    """Events, newest first."""

    items: list[EventSchema]
    """The events."""
    next_cursor: str | None
    """For the next page; null: this is the last page."""


@router.get("/events")
async def list_events(
    service: Uses,
    _: Viewer,
    since: From = None,
    kind: Annotated[
        list[str] | None, Query(max_length=100, description="Only this kind, for example `leader_elected`; repeatable.")
    ] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> EventPage:
    """Events of the cluster, newest first; kept as long as log lines."""
    found = await service.cluster.events(kinds=kind or (), since=since, before=name_key(cursor), limit=limit + 1)
    shown, before = first_of(found, limit, lambda happened: happened.id)
    return {"items": [event_schema(happened) for happened in shown], "next_cursor": before}
