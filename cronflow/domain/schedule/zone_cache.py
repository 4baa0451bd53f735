"""Forgets everything that was computed from time zone data, after the data have changed on disk.

Zones, timetables and fires are remembered as long as a process lives, and `zoneinfo` reads a file once. Schedules hold
the names of zones alone, so they follow the new data. Every cache that depends on a zone is marked here.
"""

from __future__ import annotations

from typing import Protocol, TypeVar
from zoneinfo import ZoneInfo


class _Cache(Protocol):
    def cache_clear(self) -> None: ...


CacheT = TypeVar("CacheT", bound=_Cache)

dependent: list[_Cache] = []
"""The caches that are marked."""


def depends_on_zone_data(cache: CacheT) -> CacheT:
    """Marks a cache, such as a function with `lru_cache`."""
    dependent.append(cache)
    return cache


def forget_zone_data() -> None:
    """Read the data again from now on."""
    ZoneInfo.clear_cache()
    for cache in dependent:
        cache.cache_clear()
