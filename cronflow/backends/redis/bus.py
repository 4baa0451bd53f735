"""Doorbells over pub/sub, on a connection of their own. A lost ring costs one poll."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from cronflow.backends.redis.connection import RedisConnection
from cronflow.domain.errors import BackendUnavailable
from cronflow.ports import Signal

RECONNECT_S = 0.5


class RedisBus:
    """The Bus port."""

    def __init__(self, connection: RedisConnection) -> None:
        self._redis = connection
        self._keys = connection.keys

    async def notify(self, signal: Signal) -> None:
        """PUBLISH."""
        await self._redis.command("PUBLISH", self._keys.signal(signal.value), "look")

    async def listen(self, node: str, signals: Mapping[Signal, Callable[[], None]]) -> None:
        """SUBSCRIBE, for ever: a lost connection is made again, and then everybody looks."""
        channels = {
            self._keys.node_signal(node) if signal is Signal.NODE else self._keys.signal(signal.value): look
            for signal, look in signals.items()
        }
        while True:
            try:
                async for channel in self._redis.messages(list(channels)):
                    for look in channels.values() if channel is None else (channels[channel],):
                        look()
            except BackendUnavailable:
                # Whoever listens also polls and reports the outage itself; here it is enough to come back.
                await asyncio.sleep(RECONNECT_S)
