"""The servers of a development cluster: from the settings, else PATH, else the wheels, else in memory.

The rule: real servers are preferred, and running in memory prints a clear warning.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from cronflow.config import Settings
from cronflow.testing.embedded import MongoServer, RedisServer, find_mongod, find_redis


@dataclass(frozen=True, slots=True)
class Servers:
    """The URLs, and the origin of each server in words."""

    redis_url: str
    mongo_url: str
    redis_from: str
    mongo_from: str


def missing(settings: Settings) -> list[str]:
    """The servers that are neither in the settings nor on this machine."""
    lacking = []
    if not settings.redis_url and find_redis() is None:
        lacking.append("Redis")
    if not settings.mongo_url and find_mongod() is None:
        lacking.append("MongoDB")
    return lacking


@asynccontextmanager
async def open_servers(settings: Settings, data: Path) -> AsyncIterator[Servers]:
    """Start the servers that are not in the settings; stop them at the end. Raises CannotStart with the remedy."""
    async with AsyncExitStack() as stack:
        redis: RedisServer | None = None
        mongo: MongoServer | None = None
        starting: list[Awaitable[object]] = []
        if not settings.redis_url:
            redis = RedisServer(data)
            starting.append(asyncio.to_thread(redis.start))
        if not settings.mongo_url:
            mongo = MongoServer(data)
            starting.append(asyncio.to_thread(mongo.start))
        for server in (redis, mongo):
            if server is not None:
                stack.push_async_callback(asyncio.to_thread, server.stop)
        failures = [f for f in await asyncio.gather(*starting, return_exceptions=True) if isinstance(f, BaseException)]
        if failures:
            raise failures[0]
        yield Servers(
            redis_url=settings.redis_url or (redis.url if redis else ""),
            mongo_url=settings.mongo_url or (mongo.url if mongo else ""),
            redis_from="from the settings" if redis is None else f"started on port {redis.port}",
            mongo_from="from the settings" if mongo is None else f"started on port {mongo.port}",
        )
