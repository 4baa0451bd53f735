"""The builder: appends a tick to the live stream each second, on one API replica at a time.

The rule it protects: a tick of a replica that has lost the right, because it slept say, is refused by Redis; so there
is one a second, however many replicas there are.
"""

from __future__ import annotations

import secrets

import orjson

from cronflow.live.state import ClusterConfig, State
from cronflow.ports import Backends, Clock

EVERY_S = 1.0
RIGHT_S = 3.0


class Builder:
    """Builds ticks; `step` is to be repeated."""

    def __init__(self, backends: Backends, clock: Clock, about: ClusterConfig) -> None:
        self._feed = backends.feed
        self._clock = clock
        self._state = State(backends, clock, about)
        self._holder = secrets.token_hex(8)

    async def step(self) -> float:
        """Build one, if this replica has or gets the right. Returns the seconds until the next."""
        began = self._clock.monotonic()
        if await self._feed.claim(self._holder, RIGHT_S):
            await self._feed.tick(self._holder, orjson.dumps(await self._state.read()))
        return max(0.0, EVERY_S - (self._clock.monotonic() - began))

    async def resign(self) -> None:
        """Let another replica go on at once."""
        await self._feed.release(self._holder)
