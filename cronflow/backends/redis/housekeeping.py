"""Keys that should expire and do not, found by SCAN, and what is left of nodes that are gone."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from cronflow.backends.redis.connection import RedisConnection
from cronflow.ports import Endless

PAGE = 1000


class RedisHousekeeping:
    """The Housekeeping port."""

    def __init__(self, connection: RedisConnection) -> None:
        self._redis = connection
        self._keys = connection.keys

    async def endless(self, cursor: int = 0) -> tuple[int, list[Endless]]:
        """SCAN, then PTTL of what should expire, then EXISTS of the heartbeats behind lists: three round trips."""
        following, raw = await self._redis.command("SCAN", cursor, "MATCH", self._pattern, "COUNT", PAGE)
        keys = [key for key in (one.decode() for one in raw) if self._keys.expires(key)]
        ttls = await self._redis.pipeline([("PTTL", key) for key in keys])
        for_ever = [key for key, ttl in zip(keys, ttls, strict=True) if ttl == -1]
        owners = [(key, self._keys.node_of_queue(key)) for key in for_ever]
        lists = [(key, node) for key, node in owners if node is not None]
        alive = await self._redis.pipeline([("EXISTS", self._keys.node(node)) for _, node in lists])
        found = [Endless(key) for key, node in owners if node is None]
        found += [Endless(key, node) for (key, node), lives in zip(lists, alive, strict=True) if not lives]
        return int(following), found

    @property
    def _pattern(self) -> str:
        # Names hold nothing that a glob would take for more than itself, and Redis knows no braces.
        return self._keys.prefix + "*"

    async def let_expire(self, keys: Collection[str], seconds: float) -> int:
        """See let_expire.lua."""
        if not keys:
            return 0
        return int(await self._redis.call("let_expire", sorted(keys), round(seconds * 1000)))

    async def forget_nodes(self, silent_for: timedelta) -> int:
        """See forget_nodes.lua; lists and holdings expire by themselves."""
        silent_ms = round(silent_for.total_seconds() * 1000)
        return int(await self._redis.call("forget_nodes", [self._keys.nodes], silent_ms))
