"""What runs wrote."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from cronflow.api.access import Viewer
from cronflow.api.answers import may, new_router
from cronflow.api.inputs import RunId, Uses
from cronflow.api.pages import Limit, cursor_of, line_key
from cronflow.shapes.plain import Shape
from cronflow.shapes.runs import LogShape, log_shape

router = new_router("logs")


class LogPage(Shape):
    """Lines that a run wrote, in order."""

    items: list[LogShape]
    """They may be fewer than the limit although there are more."""
    next_cursor: str | None
    """For `after`; null: the run has ended, and these were its last lines."""


@router.get("/runs/{id}/logs", responses=may(404))
async def run_logs(
    service: Uses,
    _: Viewer,
    id: RunId,  # noqa: A002  the public name
    q: Annotated[str, Query(max_length=200, description="Only lines with this text, in any case.")] = "",
    after: Annotated[
        str | None,
        Query(max_length=1000, description="`next_cursor` of the answer before; without it, the first line."),
    ] = None,
    limit: Limit = 200,
) -> LogPage:
    """What a run wrote, of all its attempts. While it is open `next_cursor` is never null: ask again after it."""
    # The state first: what the run wrote before it ended is then among the lines.
    is_open = (await service.run(id)).is_open
    lines, (fence, n), more = await service.search_logs(id, q, after=line_key(after), limit=limit)
    return {
        "items": [log_shape(line) for line in lines],
        "next_cursor": cursor_of(fence, n) if more or is_open else None,
    }
