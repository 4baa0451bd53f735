"""The one data structure of the memory backend's MongoDB: a dictionary with a document store's operations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Table(dict[K, V]):
    """Values by key. Each method is one atomic step, and writes through `__setitem__`."""

    def insert(self, key: K, value: V) -> bool:
        """Insert unless the key exists. Returns whether it inserted."""
        if key in self:
            return False
        self[key] = value
        return True

    def replace_if(self, key: K, holds: Callable[[V], bool], change: Callable[[V], V]) -> bool:
        """Compare and set: write `change(value)` if the key exists and `holds(value)`. Returns whether it wrote."""
        value = self.get(key)
        if value is None or not holds(value):
            return False
        self[key] = change(value)
        return True

    def pick(self, keys: Collection[K]) -> list[V]:
        """The values of those keys that exist."""
        return [self[key] for key in set(keys) if key in self]

    def page(
        self,
        by: Callable[[V], Any],
        where: Callable[[V], object] = lambda value: True,
        *,
        after: Any = None,
        limit: int | None = None,
        newest: bool = False,
    ) -> list[V]:
        """The values that match `where`, in ascending order of `by`, or descending if `newest`. `after` is the `by` of
        the last value of the previous page.
        """
        found = [(by(value), value) for value in self.values() if where(value)]
        if after is not None:
            found = [(place, value) for place, value in found if (place < after if newest else place > after)]
        return [value for _, value in sorted(found, key=lambda row: row[0], reverse=newest)[:limit]]

    def delete(self, keys: Iterable[K]) -> None:
        """Delete those that exist."""
        for key in keys:
            self.pop(key, None)

    def delete_where(self, matches: Callable[[V], bool]) -> None:
        """Delete the values that match."""
        self.delete([key for key, value in self.items() if matches(value)])
