"""What people are told: events, roll-ups and totals behind MongoDB, the live stream and the live lines behind Redis.

Nothing of this decides anything. Every verb but `EventSink` may raise BackendUnavailable; see the package.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from cronflow.domain.events import Event, RecordedEvent
from cronflow.domain.rollup import Bucket, BucketSize, Tally
from cronflow.ports.stores import LogLine


class EventSink(Protocol):
    """Where events go."""

    def __call__(self, event: Event, /) -> None:
        """Take an event; never blocks, never raises, may be called from any thread. What is too many is dropped."""


def discard_event(event: Event) -> None:
    """Where nobody listens."""


class EventStore(Protocol):
    """Events, kept as long as log lines are (see `StoreAdmin.keep_lines`)."""

    async def append(self, events: Sequence[RecordedEvent]) -> None:
        """Insert; repeating it is harmless."""

    async def find(
        self,
        *,
        kinds: Collection[str] = (),
        since: datetime | None = None,
        after: str = "",
        before: str = "",
        limit: int = 100,
    ) -> list[RecordedEvent]:
        """Those behind the id `after`, the oldest first; without `after` the newest before `before`, the newest first.
        Kinds that this version does not know are left out.
        """


class RollupStore(Protocol):
    """Counts for charts."""

    async def add(self, minutes: Mapping[datetime, Tally]) -> None:
        """Add the counts of these minutes to theirs, and to their hours and days. Not to be repeated: it would count
        twice.
        """

    async def read(self, resolution: BucketSize, since: datetime, until: datetime) -> list[Bucket]:
        """Those that begin from `since` on and before `until`, the oldest first; a bucket of nothing is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCounts:
    """How many jobs there are, in which state; tombstones and the system's own do not count. `idle`: disabled, without
    a schedule, or done.
    """

    active: int
    paused: int
    idle: int


class Totals(Protocol):
    """Counts of documents, from indexes alone."""

    async def jobs(self) -> JobCounts:
        """At the cost of an index entry a job; ask every few seconds, not more often."""

    async def open_runs(self, most: int) -> int:
        """How many runs are open, counted up to `most`."""


class Entry(NamedTuple):
    """An entry of the live stream. `id` is its place; it increases as long as Redis remembers."""

    id: str
    kind: str
    text: bytes


class Feed(Protocol):
    """The live stream: ticks and events in one order, capped to some fifteen minutes, and the right to build ticks."""

    async def claim(self, holder: str, ttl_s: float) -> bool:
        """Take the right to build ticks, or keep it."""

    async def release(self, holder: str) -> None:
        """Give it back, if it is mine."""

    async def tick(self, holder: str, text: bytes) -> str | None:
        """Append a tick. Returns its id, or None when the right is not mine any more; then nothing was appended."""

    async def event(self, text: bytes) -> None:
        """Append a batch of events."""

    async def read(self, after: str, limit: int = 1000) -> list[Entry] | None:
        """The entries behind this one, the oldest first; from the oldest that is kept on, if `after` is empty. None:
        there is no such entry any more, so what followed it may be lost.
        """


class LineBatch(NamedTuple):
    """A batch of lines as a node published it. `omitted`: so many more were too long to be published; MongoDB has
    them.
    """

    id: str
    lines: Sequence[LogLine]
    omitted: int


class LiveTail(Protocol):
    """The lines of runs while somebody looks on. A hint: what counts is the LogStore, which has every line."""

    async def want(self, seconds: float) -> None:
        """Somebody looks on, for so long."""

    async def publish(self, lines: Sequence[LogLine]) -> bool:
        """Publish these if somebody looks on. False: nobody does, nothing was published."""

    async def wanted(self) -> bool:
        """Whether somebody looks on."""

    async def read(self, after: str, limit: int = 100) -> list[LineBatch] | None:
        """The batches behind this one, the oldest first. None: some may be lost."""

    async def newest(self) -> str:
        """The id of the newest batch, to read on from."""
