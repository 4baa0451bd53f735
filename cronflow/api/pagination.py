"""Pagination: a cursor is the sort key of the last row, so every page costs the same.

A cursor is opaque to clients but not secret; it is validated as strictly as any other input.
"""

from __future__ import annotations

import binascii
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, TypeVar

import orjson
from fastapi import Query

from cronflow.documents.values import instant, text, whole
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.schemas import iso

MOST = 500

Row = TypeVar("Row")

Limit = Annotated[int, Query(ge=1, le=MOST, description="How many at most.")]
Cursor = Annotated[
    str | None, Query(max_length=1000, description="`next_cursor` of the previous page; without it, the first page.")
]

LINE = re.compile(r"([0-9]{1,18}):([0-9]{1,18})", re.ASCII)
LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def cursor_of(*key: str | int | datetime) -> str:
    """The cursor of a row with this sort key."""
    plain = [iso(part) if isinstance(part, datetime) else part for part in key]
    return urlsafe_b64encode(orjson.dumps(plain)).decode().rstrip("=")


def first_of(found: Sequence[Row], limit: int, key: Callable[[Row], str]) -> tuple[Sequence[Row], str | None]:
    """A page of the rows found with a limit of one more, and the cursor of the next page."""
    shown = found[:limit]
    return shown, cursor_of(key(shown[-1])) if len(found) > limit else None


def name_key(cursor: str | None) -> str:
    """The name after which the page starts. Raises InvalidInput."""
    if cursor is None:
        return ""
    (name,) = _parts(cursor, text)
    return str(name)


def time_key(cursor: str | None) -> tuple[datetime, str] | None:
    """The (instant, id) after which the page starts. Raises InvalidInput."""
    if cursor is None:
        return None
    at, name = _parts(cursor, instant, text)
    assert isinstance(at, datetime)
    return at, str(name)


def line_key(cursor: str | None) -> tuple[int, int]:
    """The (fence, number) after which the page starts, from a cursor or `<fence>:<n>`. Raises InvalidInput."""
    if cursor is None:
        return (0, -1)
    if (plain := LINE.fullmatch(cursor)) is not None:
        return int(plain[1]), int(plain[2])
    fence, number = _parts(cursor, whole, whole, place="after")
    assert isinstance(fence, int)
    assert isinstance(number, int)
    return fence, number


def _parts(cursor: str, *readers: Callable[[object], object], place: str = "cursor") -> list[object]:
    try:
        if not set(cursor) <= LETTERS:
            raise ValueError
        parts = orjson.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if not isinstance(parts, list):
            raise ValueError
        return [reader(part) for reader, part in zip(readers, parts, strict=True)]
    except (ValueError, binascii.Error, InvalidInput):
        what = "is not a cursor of this list"
        raise InvalidInput(Problem(place, what, "send next_cursor of the previous page, or leave it out")) from None
