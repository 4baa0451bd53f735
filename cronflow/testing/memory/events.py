"""What people are told, in dictionaries and lists: events, roll-ups, totals, the live stream and the live lines."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from cronflow.domain.events import RecordedEvent, cursor_of, stored_kinds
from cronflow.domain.job import SYSTEM_PREFIX
from cronflow.domain.rollup import Bucket, BucketSize, Tally
from cronflow.ports import Entry, JobCounts, LineBatch, LogLine
from cronflow.testing.faults import Faults, verb
from cronflow.testing.memory.coordination import REDIS, Memory
from cronflow.testing.memory.stores import MONGO, MemoryJobStore, MemoryRunStore

FEED_ENTRIES = 1200
LINE_BATCHES = 400

T = TypeVar("T")


class MemoryEventStore:
    """The EventStore port."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.events: dict[str, RecordedEvent] = {}

    @verb(MONGO, "events.append")
    def append(self, events: Sequence[RecordedEvent]) -> None:
        """Insert the new ones."""
        for happened in events:
            self.events.setdefault(happened.id, happened)

    @verb(MONGO, "events.find")
    def find(
        self,
        *,
        kinds: Collection[str] = (),
        since: datetime | None = None,
        after: str = "",
        before: str = "",
        limit: int = 100,
    ) -> list[RecordedEvent]:
        """Filter, sort and cut."""
        low = max(after, "" if since is None else cursor_of(since))
        found = [
            happened
            for happened in self.events.values()
            if happened.id > low
            and (not before or happened.id < before)
            and (not kinds or happened.event.kind in stored_kinds(kinds))
        ]
        return sorted(found, key=lambda happened: happened.id, reverse=not after)[:limit]


class MemoryRollupStore:
    """The RollupStore port."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.buckets: dict[tuple[BucketSize, datetime], Tally] = {}

    @verb(MONGO, "rollups.add")
    def add(self, minutes: Mapping[datetime, Tally]) -> None:
        """Add to three each."""
        for minute, tally in minutes.items():
            for resolution in BucketSize:
                self.buckets.setdefault((resolution, resolution.begin(minute)), Tally()).add(tally)

    @verb(MONGO, "rollups.read")
    def read(self, resolution: BucketSize, since: datetime, until: datetime) -> list[Bucket]:
        """Filter and sort."""
        found = sorted(at for kind, at in self.buckets if kind is resolution and since <= at < until)
        return [Bucket(resolution, at, _copy(self.buckets[resolution, at])) for at in found]


class MemoryTotals:
    """The Totals port."""

    def __init__(self, faults: Faults, jobs: MemoryJobStore, runs: MemoryRunStore) -> None:
        self.faults, self._jobs, self._runs = faults, jobs, runs

    @verb(MONGO, "totals.jobs")
    def jobs(self) -> JobCounts:
        """Count."""
        own = [record for record in self._jobs.records.values() if not record.name.startswith(SYSTEM_PREFIX)]
        kept = [record for record in own if record.deleted_at is None]
        active = sum(record.active for record in kept)
        paused = sum(record.paused for record in kept)
        return JobCounts(active=active, paused=paused, idle=len(kept) - active - paused)

    @verb(MONGO, "totals.open_runs")
    def open_runs(self, most: int) -> int:
        """Count."""
        return min(most, sum(run.is_open for run in self._runs.runs.values()))


class MemoryFeed:
    """The Feed port."""

    def __init__(self, faults: Faults, memory: Memory) -> None:
        self.faults, self._memory = faults, memory

    @verb(REDIS, "feed.claim")
    def claim(self, holder: str, ttl_s: float) -> bool:
        """As feed_claim.lua."""
        memory = self._memory
        if memory.builder_now() not in (None, holder):
            return False
        memory.builder = (holder, memory.clock.monotonic() + ttl_s)
        return True

    @verb(REDIS, "feed.release")
    def release(self, holder: str) -> None:
        """As feed_release.lua."""
        if self._memory.builder_now() == holder:
            self._memory.builder = None

    @verb(REDIS, "feed.tick")
    def tick(self, holder: str, text: bytes) -> str | None:
        """As feed_tick.lua."""
        if self._memory.builder_now() != holder:
            return None
        return self._append("tick", text)

    @verb(REDIS, "feed.event")
    def event(self, text: bytes) -> None:
        """Append."""
        self._append("event", text)

    @verb(REDIS, "feed.read")
    def read(self, after: str, limit: int = 1000) -> list[Entry] | None:
        """As stream_read.lua."""
        return _read_on([(entry.id, entry) for entry in self._memory.feed], after, limit)

    def _append(self, kind: str, text: bytes) -> str:
        memory = self._memory
        entry = Entry(memory.stream_id(), kind, text)
        memory.feed = [*memory.feed, entry][-FEED_ENTRIES:]
        return entry.id


class MemoryLiveTail:
    """The Tails port."""

    def __init__(self, faults: Faults, memory: Memory) -> None:
        self.faults, self._memory = faults, memory

    @verb(REDIS, "tails.want")
    def want(self, seconds: float) -> None:
        """Remember until when."""
        self._memory.tail_until = self._memory.clock.monotonic() + seconds

    @verb(REDIS, "tails.wanted")
    def wanted(self) -> bool:
        """Compare."""
        return self._memory.tail_until > self._memory.clock.monotonic()

    @verb(REDIS, "tails.publish")
    def publish(self, lines: Sequence[LogLine]) -> bool:
        """As lines_publish.lua."""
        memory = self._memory
        if memory.tail_until <= memory.clock.monotonic():
            return False
        memory.lines = [*memory.lines, LineBatch(memory.stream_id(), tuple(lines), 0)][-LINE_BATCHES:]
        return True

    @verb(REDIS, "tails.read")
    def read(self, after: str, limit: int = 100) -> list[LineBatch] | None:
        """As stream_read.lua."""
        return _read_on([(batch.id, batch) for batch in self._memory.lines], after, limit)

    @verb(REDIS, "tails.newest")
    def newest(self) -> str:
        """The last."""
        return self._memory.lines[-1].id if self._memory.lines else ""


def _read_on(entries: Sequence[tuple[str, T]], after: str, limit: int) -> list[T] | None:
    ids = [name for name, _ in entries]
    if after and after not in ids:
        return None
    begin = ids.index(after) + 1 if after else 0
    return [entry for _, entry in entries[begin : begin + limit]]


def _copy(tally: Tally) -> Tally:
    copy = Tally()
    copy.add(tally)
    return copy
