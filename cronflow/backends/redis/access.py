"""Rate limits and tickets, by Redis's own clock."""

from __future__ import annotations

import orjson

from cronflow.backends import codec
from cronflow.backends.redis.connection import RedisAdapter
from cronflow.domain.access import Principal


class RedisRateLimiter(RedisAdapter):
    async def take(self, key: str, per_s: float, burst: int) -> float:
        wait_us: int = await self._redis.call("rate_take", [self._keys.rate(key)], round(1_000_000 / per_s), burst)
        return wait_us / 1_000_000

    async def attempt(self, key: str, free: int, wait_s: float, most_s: float) -> float:
        arguments = free, round(wait_s * 1000), round(most_s * 1000)
        wait_ms: int = await self._redis.call("rate_attempt", [self._keys.rate(key)], *arguments)
        return wait_ms / 1000

    async def count(self, key: str, keep_s: float) -> int:
        place = self._keys.rate(key)
        keep_ms = round(keep_s * 1000)
        # The key has an end from its first moment on.
        begin, more, keep = ("SET", place, 0, "NX", "PX", keep_ms), ("INCR", place), ("PEXPIRE", place, keep_ms)
        _, count, _ = await self._redis.pipeline([begin, more, keep])
        return int(count)

    async def take_back(self, key: str) -> None:
        await self._redis.call("rate_take_back", [self._keys.rate(key)])

    async def forgive(self, key: str) -> None:
        await self._redis.command("DEL", self._keys.rate(key))


class RedisTicketStore(RedisAdapter):
    async def put(self, ticket: str, principal: Principal, ttl_s: float) -> None:
        rights = {**codec.rights_document(principal), "reads_all": principal.reads_all, "login": principal.login}
        text = orjson.dumps({"name": principal.name, **rights})
        await self._redis.command("SET", self._keys.ticket(ticket), text, "PX", round(ttl_s * 1000))

    async def take(self, ticket: str) -> Principal | None:
        text = await self._redis.command("GETDEL", self._keys.ticket(ticket))
        if text is None:
            return None
        found = orjson.loads(text)
        read = {"reads_all": found.get("reads_all", False), "login": found.get("login", "")}
        return Principal(found["name"], **read, **codec.rights(found))

    async def put_login(self, key: str, sealed: str, ttl_s: float) -> None:
        await self._redis.command("SET", self._keys.login(key), sealed, "PX", round(ttl_s * 1000))

    async def get_login(self, key: str) -> str | None:
        return _text(await self._redis.command("GET", self._keys.login(key)))

    async def take_login(self, key: str) -> str | None:
        return _text(await self._redis.command("GETDEL", self._keys.login(key)))


def _text(found: bytes | str | None) -> str | None:
    return found.decode() if isinstance(found, bytes) else found
