"""A cache by identity, for values that are computed from one object again and again."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class IdentityCache(Generic[Key, Value]):
    """Keeps the values of the last `most` objects. It holds the objects too, so an identity is never used again."""

    def __init__(self, most: int) -> None:
        self._most = most
        # Not a dict, which is slow to find its first entry after many have been deleted there.
        self._known: OrderedDict[int, tuple[Key, Value]] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        known = self._known.get(id(key))
        return None if known is None else known[1]

    def put(self, key: Key, value: Value) -> Value:
        if len(self._known) >= self._most:
            self._known.popitem(last=False)
        self._known[id(key)] = (key, value)
        return value
