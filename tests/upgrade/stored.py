"""What MongoDB and Redis store for a namespace, to compare before and after."""

from __future__ import annotations

from typing import Any

from pymongo import MongoClient
from redis import Redis


def stored(mongo_url: str, redis_url: str, namespace: str) -> dict[str, Any]:
    """A digest of each collection, its indexes, and the value of each key that does not expire."""
    found: dict[str, Any] = {}
    with MongoClient[dict[str, Any]](mongo_url) as client:
        database = client[f"cronflow_{namespace}"]
        for name, digest in database.command("dbHash")["collections"].items():
            found[name] = (digest, sorted(database[name].index_information()))
    with Redis.from_url(redis_url) as redis:
        for key in redis.scan_iter(f"{{cf:{namespace}}}:*"):
            if redis.pttl(key) < 0:
                found[key.decode()] = redis.dump(key)
    return found
