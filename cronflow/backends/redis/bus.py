"""Doorbells over pub/sub, on a connection of their own. A lost ring costs one poll."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from cronflow.backends.redis.connection import RedisConnection
from cronflow.domain.errors import BackendUnavailable
from cronflow.ports import Bell

RECONNECT_S = 0.5


class RedisBus:
    """The Bus port."""

    def __init__(self, connection: RedisConnection) -> None:
        self._redis = connection
        self._keys = connection.keys

    async def ring(self, bell: Bell) -> None:
        """PUBLISH."""
        await self._redis.command("PUBLISH", self._keys.bell(bell.value), "look")

    async def listen(self, node: str, bells: Mapping[Bell, Callable[[], None]]) -> None:
        """SUBSCRIBE, for ever: a lost connection is made again, and then everybody looks."""
        channels = {
            self._keys.node_bell(node) if bell is Bell.NODE else self._keys.bell(bell.value): look
            for bell, look in bells.items()
        }
        while True:
            try:
                async for channel in self._redis.messages(list(channels)):
                    for look in channels.values() if channel is None else (channels[channel],):
                        look()
            except BackendUnavailable:
                # Whoever listens also polls and reports the outage itself; here it is enough to come back.
                await asyncio.sleep(RECONNECT_S)
