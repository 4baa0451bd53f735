"""The live stream and the live log tail: capped streams that expire when unused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cronflow.backends import codec
from cronflow.backends.redis.connection import RedisAdapter
from cronflow.ports import Entry, LineBatch, LogLine

FEED_ENTRIES = 1200
FEED_MS = 3_600_000
LINE_BATCHES = 400
LINES_MS = 60_000
MOST_BYTES = 64 * 1024


class RedisFeed(RedisAdapter):
    async def claim(self, holder: str, ttl_s: float) -> bool:
        return bool(await self._redis.call("feed_claim", [self._keys.builder], holder, round(ttl_s * 1000)))

    async def release(self, holder: str) -> None:
        await self._redis.call("feed_release", [self._keys.builder], holder)

    async def tick(self, holder: str, text: bytes) -> str | None:
        keys = [self._keys.builder, self._keys.feed]
        found: bytes | None = await self._redis.call("feed_tick", keys, holder, text, FEED_ENTRIES, FEED_MS)
        return None if found is None else found.decode()

    async def event(self, text: bytes) -> None:
        feed = self._keys.feed
        words = ("XADD", feed, "MAXLEN", "~", FEED_ENTRIES, "*", "kind", "event", "text", text)
        await self._redis.pipeline([words, ("PEXPIRE", feed, FEED_MS)])

    async def read(self, after: str, limit: int = 1000) -> list[Entry] | None:
        rows = await self._redis.call("stream_read", [self._keys.feed], after, limit)
        if rows is None:
            return None
        found = [(name.decode(), _fields(words)) for name, words in rows]
        return [Entry(name, fields[b"kind"].decode(), fields[b"text"]) for name, fields in found]


class RedisLiveTail(RedisAdapter):
    async def add_viewer(self, seconds: float) -> None:
        await self._redis.command("SET", self._keys.tail, "1", "PX", round(seconds * 1000))

    async def has_viewer(self) -> bool:
        return bool(await self._redis.command("EXISTS", self._keys.tail))

    async def publish(self, lines: Sequence[LogLine]) -> bool:
        """See lines_publish.lua. What is beyond 64 KiB is left to the LogStore."""
        fitting, size = 0, 0
        for line in lines:
            size += len(line.text) + 200
            if size > MOST_BYTES:
                break
            fitting += 1
        words = (codec.lines_json(lines[:fitting]), len(lines) - fitting, LINE_BATCHES, LINES_MS)
        return bool(await self._redis.call("lines_publish", [self._keys.tail, self._keys.lines], *words))

    async def read(self, after: str, limit: int = 100) -> list[LineBatch] | None:
        rows = await self._redis.call("stream_read", [self._keys.lines], after, limit)
        if rows is None:
            return None
        found = [(name.decode(), _fields(words)) for name, words in rows]
        return [
            LineBatch(name, codec.lines_from_json(fields[b"text"]), int(fields[b"omitted"])) for name, fields in found
        ]

    async def newest(self) -> str:
        rows = await self._redis.command("XREVRANGE", self._keys.lines, "+", "-", "COUNT", 1)
        return rows[0][0].decode() if rows else ""


def _fields(words: Any) -> dict[bytes, bytes]:
    return dict(zip(words[::2], words[1::2], strict=True))
