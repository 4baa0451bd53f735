"""What the servers have executed: documents written, and requests received.

The servers count, so every process of a cluster is included, and so are polls that happen with or without runs, and the
few reads of the benchmark itself. A Redis script or a pipeline is one request. Redis reads a large request in several
parts and counts each, so the figure is rather too high.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pymongo import AsyncMongoClient
from redis.asyncio import Redis

NOT_COUNTED = {"hello", "isMaster", "serverStatus"}
"""Commands with which drivers monitor MongoDB, and the one that counts."""
WRITTEN = ("inserted", "updated", "deleted")


class Commands(NamedTuple):
    """Documents written in MongoDB, and requests that it and Redis have received."""

    writes: int
    mongo: int
    redis: int

    def since(self, start: Commands) -> Commands:
        return Commands(*(now - before for now, before in zip(self, start, strict=True)))


async def executed(mongo: AsyncMongoClient[dict[str, Any]], redis_url: str) -> Commands:
    """The commands up to now."""
    status = await mongo.admin.command("serverStatus")
    documents, commands = status["metrics"]["document"], status["metrics"]["commands"]
    received = [one["total"] for name, one in commands.items() if name not in NOT_COUNTED and isinstance(one, dict)]
    async with Redis.from_url(redis_url) as redis:
        stats = await redis.info("stats")
    return Commands(sum(documents[name] for name in WRITTEN), sum(received), stats["total_reads_processed"])
