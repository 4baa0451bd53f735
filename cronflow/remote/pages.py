"""Lists page by page, where whoever asks goes on behind the last item that he has.

The service goes on behind a sort key; the API behind a cursor, which is its own affair. So the cursors are kept here by
the key of the last item that was given out.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from cronflow.client.aio import AsyncClient
from cronflow.client.calls import get
from cronflow.remote.plain import understood

MOST = 500
"""So many items the API gives at once."""

Item = TypeVar("Item")


class Pages(Generic[Item]):
    """The pages of one list of the API. `read` makes an item of a shape, `key` is what the next page begins behind."""

    def __init__(
        self, client: AsyncClient, read: Callable[[Any], Item], key: Callable[[Item], Hashable], cursor: str = "cursor"
    ) -> None:
        self._client = client
        self._read = read
        self._key = key
        self._name = cursor
        self._following: dict[Hashable, str | None] = {}

    async def page(self, path: str, behind: Hashable | None, limit: int, **params: object) -> list[Item]:
        """At most `limit` items behind that key, None for the first ones; fewer only at the end. Raises ValueError for
        a key that no page has ended with.
        """
        cursor: str | None = None
        if behind is not None:
            if behind not in self._following:
                raise ValueError(f"no page has ended with {behind!r}")
            cursor = self._following[behind]
            if cursor is None:
                return []
        found: list[Item] = []
        while len(found) < limit:
            asked = {**params, self._name: cursor, "limit": min(MOST, limit - len(found))}
            answer = await self._client.send(get(path, **asked))
            items, cursor = understood(self._page, answer)
            found += items
            # The lines of a run that goes on never end; none are there now.
            if cursor is None or (self._name == "after" and not items):
                break
        if found:
            self._following[self._key(found[-1])] = cursor
        elif behind is not None:
            self._following[behind] = cursor
        return found

    def _page(self, answer: Any) -> tuple[list[Item], str | None]:
        return [self._read(item) for item in answer["items"]], answer["next_cursor"]
