"""Redis's configuration, keys without a TTL, and the remains of dead nodes."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from cronflow.backends.redis.connection import RedisAdapter
from cronflow.backends.redis.rights import samples
from cronflow.domain.cluster import NO_EVICTION
from cronflow.ports import KeyWithoutTtl, RedisConfig

PAGE = 1000


class RedisCoordinationAdmin(RedisAdapter):
    async def redis_config(self) -> RedisConfig:
        """Reads INFO first, because hosted Redis services often forbid CONFIG GET."""
        memory = await self._redis.each("INFO", "memory") or [{}]
        policies = [one.get("maxmemory_policy") for one in memory]
        unfit = [policy for policy in policies if policy not in (None, NO_EVICTION)]
        persistence = await self._redis.each("INFO", "persistence")
        saves = await self._redis.each("CONFIG GET", "save")
        durable: bool | None = None
        if persistence is not None and all(one.get("aof_enabled") for one in persistence):
            durable = True
        elif persistence is not None and saves is not None:
            durable = all(
                one.get("aof_enabled") or save.get("save") for one, save in zip(persistence, saves, strict=True)
            )
        servers = await self._redis.each("INFO", "server") or []
        versions = frozenset(str(one.get("valkey_version") or one.get("redis_version")) for one in servers)
        return RedisConfig(unfit[0] if unfit else None if None in policies else NO_EVICTION, durable, versions)

    async def check_rights(self) -> None:
        missing = await self._redis.call("check_rights", [self._keys.leader], *samples(self._keys))
        if missing:
            names = ", ".join(name.decode() for name in missing)
            raise self._redis.denied(f"the user may not run {names} on {self._keys.prefix}*")

    async def keys_without_ttl(self, cursor: int = 0) -> tuple[int, list[KeyWithoutTtl]]:
        """Three round trips: SCAN, PTTL of the keys that should expire, EXISTS of the lists' nodes' heartbeats."""
        following, raw = await self._redis.command("SCAN", cursor, "MATCH", self._pattern, "COUNT", PAGE)
        keys = [key for key in (one.decode() for one in raw) if self._keys.expires(key)]
        ttls = await self._redis.pipeline([("PTTL", key) for key in keys])
        for_ever = [key for key, ttl in zip(keys, ttls, strict=True) if ttl == -1]
        owners = [(key, self._keys.node_of_queue(key)) for key in for_ever]
        lists = [(key, node) for key, node in owners if node is not None]
        alive = await self._redis.pipeline([("EXISTS", self._keys.node(node)) for _, node in lists])
        found = [KeyWithoutTtl(key) for key, node in owners if node is None]
        found += [KeyWithoutTtl(key, node) for (key, node), lives in zip(lists, alive, strict=True) if not lives]
        return int(following), found

    @property
    def _pattern(self) -> str:
        # Namespaces contain no glob characters, and Redis does not treat braces as such.
        return self._keys.prefix + "*"

    async def set_ttl(self, keys: Collection[str], seconds: float) -> int:
        if not keys:
            return 0
        return int(await self._redis.call("set_ttl", sorted(keys), round(seconds * 1000)))

    async def forget_nodes(self, silent_for: timedelta) -> int:
        silent_ms = round(silent_for.total_seconds() * 1000)
        return int(await self._redis.call("forget_nodes", [self._keys.nodes], silent_ms))
