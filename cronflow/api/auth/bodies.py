"""What bodies and pages of these routes have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from cronflow.shapes.plain import Shape

Record = TypeVar("Record")

Cursor = Annotated[str, Query(max_length=200, description="The next_cursor of the page before.")]
Limit = Annotated[int, Query(ge=1, le=500)]


class Body(BaseModel):
    """A body whose keys are all known."""

    model_config = ConfigDict(extra="forbid")


class Page(BaseModel):
    """A page of a list, and where the next one begins; null: this was the last."""

    items: list[Shape] = Field(default_factory=list)
    next_cursor: str | None = None


def page(
    found: Sequence[Record], limit: int, shape: Callable[[Record], Shape], cursor: Callable[[Record], str]
) -> Page:
    """The page of what was found when one more than `limit` was asked for."""
    shown = found[:limit]
    more = len(found) > limit
    return Page(items=[shape(record) for record in shown], next_cursor=cursor(shown[-1]) if more else None)
