"""Events, roll-ups, totals, the live stream and the live log tail."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import TypeVar

from cronflow.domain.events import RecordedEvent, cursor_of, stored_kinds
from cronflow.domain.job import SYSTEM_PREFIX
from cronflow.domain.rollup import Bucket, BucketSize, Tally
from cronflow.ports import Entry, JobCounts, LineBatch, LogLine
from cronflow.testing.memory.coordination import RedisPort
from cronflow.testing.memory.documents import DocumentPort

FEED_ENTRIES = 1200
LINE_BATCHES = 400


class MemoryEventStore(DocumentPort, port="events"):
    async def append(self, events: Sequence[RecordedEvent]) -> None:
        for event in events:
            self.documents.events.insert(event.id, event)

    async def find(
        self,
        *,
        kinds: Collection[str] = (),
        node: str = "",
        since: datetime | None = None,
        after: str = "",
        before: str = "",
        limit: int = 100,
    ) -> list[RecordedEvent]:
        low = max(after, "" if since is None else cursor_of(since))
        return self.documents.events.page(
            attrgetter("id"),
            lambda recorded: (
                recorded.id > low
                and (not before or recorded.id < before)
                and (not node or getattr(recorded.event, "node", None) == node)
                and (not kinds or recorded.event.kind in stored_kinds(kinds))
            ),
            limit=limit,
            newest=not after,
        )


class MemoryRollupStore(DocumentPort, port="rollups"):
    async def add(self, minutes: Mapping[datetime, Tally]) -> None:
        for minute, tally in minutes.items():
            for resolution in BucketSize:
                self.documents.rollups.setdefault((resolution, resolution.begin(minute)), Tally()).add(tally)

    async def read(self, resolution: BucketSize, since: datetime, until: datetime) -> list[Bucket]:
        found = sorted(at for kind, at in self.documents.rollups if kind is resolution and since <= at < until)
        return [Bucket(resolution, at, _copy(self.documents.rollups[resolution, at])) for at in found]


def _copy(tally: Tally) -> Tally:
    copy = Tally()
    copy.add(tally)
    return copy


class MemoryTotals(DocumentPort, port="totals"):
    async def jobs(self) -> JobCounts:
        kept = [
            record
            for record in self.documents.jobs.values()
            if record.deleted_at is None and not record.name.startswith(SYSTEM_PREFIX)
        ]
        active = sum(record.active for record in kept)
        paused = sum(record.paused for record in kept)
        return JobCounts(active=active, paused=paused, idle=len(kept) - active - paused)

    async def open_runs(self, most: int) -> int:
        return min(most, sum(run.is_open for run in self.documents.runs.values()))


class MemoryFeed(RedisPort, port="feed"):
    async def claim(self, holder: str, ttl_s: float) -> bool:
        if self.memory.builder_now() not in (None, holder):
            return False
        self.memory.builder = (holder, self.clock.monotonic() + ttl_s)
        return True

    async def release(self, holder: str) -> None:
        if self.memory.builder_now() == holder:
            self.memory.builder = None

    async def tick(self, holder: str, text: bytes) -> str | None:
        return self._append("tick", text) if self.memory.builder_now() == holder else None

    async def event(self, text: bytes) -> None:
        self._append("event", text)

    async def read(self, after: str, limit: int = 1000) -> list[Entry] | None:
        return _behind(self.memory.feed, after, limit)

    def _append(self, kind: str, text: bytes) -> str:
        entry = Entry(self.memory.stream_id(), kind, text)
        self.memory.feed = [*self.memory.feed, entry][-FEED_ENTRIES:]
        return entry.id


class MemoryLiveTail(RedisPort, port="live_tail"):
    async def add_viewer(self, seconds: float) -> None:
        self.memory.tail_until = self.clock.monotonic() + seconds

    async def has_viewer(self) -> bool:
        return self.memory.tail_until > self.clock.monotonic()

    async def publish(self, lines: Sequence[LogLine]) -> bool:
        memory = self.memory
        if memory.tail_until <= self.clock.monotonic():
            return False
        memory.lines = [*memory.lines, LineBatch(memory.stream_id(), tuple(lines), 0)][-LINE_BATCHES:]
        return True

    async def read(self, after: str, limit: int = 100) -> list[LineBatch] | None:
        return _behind(self.memory.lines, after, limit)

    async def newest(self) -> str:
        return self.memory.lines[-1].id if self.memory.lines else ""


StreamItem = TypeVar("StreamItem", Entry, LineBatch)


def _behind(items: Sequence[StreamItem], after: str, limit: int) -> list[StreamItem] | None:
    ids = [item.id for item in items]
    if after and after not in ids:
        return None
    begin = ids.index(after) + 1 if after else 0
    return list(items[begin : begin + limit])
