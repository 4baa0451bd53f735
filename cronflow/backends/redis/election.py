"""The leader key: SET NX with a TTL, compare-and-renew, compare-and-delete."""

from __future__ import annotations

from datetime import UTC, datetime

from cronflow.backends.redis.connection import RedisAdapter
from cronflow.domain.cluster import Renewal


class RedisServerClock(RedisAdapter):
    async def now(self) -> datetime:
        seconds, micros = await self._redis.command("TIME")
        return datetime.fromtimestamp(int(seconds) + int(micros) / 1_000_000, UTC)


class RedisElection(RedisAdapter):
    async def acquire(self, holder: str, ttl_s: float) -> bool:
        answer = await self._redis.command("SET", self._keys.leader, holder, "NX", "PX", round(ttl_s * 1000))
        return answer is not None

    async def install(self, holder: str, term: int, redis_epoch: str) -> bool:
        keys = [self._keys.leader, self._keys.term, self._keys.redis_epoch]
        return bool(await self._redis.call("install", keys, holder, term, redis_epoch))

    async def renew(self, holder: str, ttl_s: float, term: int, redis_epoch: str) -> Renewal:
        keys = [self._keys.leader, self._keys.term, self._keys.redis_epoch, self._keys.resign]
        answer: bytes = await self._redis.call("renew", keys, holder, round(ttl_s * 1000), term, redis_epoch)
        return Renewal(answer.decode())

    async def resign(self, holder: str) -> bool:
        return bool(await self._redis.call("resign", [self._keys.leader, self._keys.signal("leader")], holder))

    async def ask_to_resign(self, term: int) -> None:
        await self._redis.pipeline(
            [("SET", self._keys.resign, term, "PX", 10_000), ("PUBLISH", self._keys.signal("leader"), "resign")]
        )

    async def holder(self) -> tuple[str, float] | None:
        name, ttl_ms = await self._redis.pipeline([("GET", self._keys.leader), ("PTTL", self._keys.leader)])
        # A key without a TTL, which CronFlow never writes, would block every election; it counts as expiring now.
        return None if name is None else (name.decode(), max(0.0, ttl_ms / 1000))
