"""Events, roll-ups and totals (MongoDB); the live stream and the live log tail (Redis).

All of it is for people to read: no scheduling decision depends on it.
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
    """Accepts events."""

    def __call__(self, event: Event, /) -> None:
        """Never blocks and never raises. Callable from any thread. Drops events that exceed the buffer."""


def discard_event(event: Event) -> None:
    """An EventSink that drops everything."""


class EventStore(Protocol):
    """Events, kept as long as log lines (see `StoreAdmin.keep_lines`)."""

    async def append(self, events: Sequence[RecordedEvent]) -> None:
        """Insert. Safe to repeat."""

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
        """With `after`: events after that id, oldest first. Otherwise: events before the id `before`, newest first.
        With `node`, only events whose field `node` has this name. Kinds unknown to this version are left out.
        """


class RollupStore(Protocol):
    """Counts per minute, hour and day, for charts."""

    async def add(self, minutes: Mapping[datetime, Tally]) -> None:
        """Add the counts to the buckets of these minutes, their hours and their days. Not safe to repeat: it would
        count twice.
        """

    async def read(self, resolution: BucketSize, since: datetime, until: datetime) -> list[Bucket]:
        """Non-empty buckets that begin at or after `since` and before `until`, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCounts:
    """Numbers of jobs by state, without deleted jobs and system jobs. `idle` jobs are disabled, have no schedule, or
    are finished.
    """

    active: int
    paused: int
    idle: int


class Totals(Protocol):
    """Counts of documents, computed from indexes alone."""

    async def jobs(self) -> JobCounts:
        """Reads one index entry per job, so call it every few seconds at most."""

    async def open_runs(self, most: int) -> int:
        """The number of open runs, counted up to `most`."""


class Entry(NamedTuple):
    """An entry of the live stream. Ids increase as long as Redis keeps its data."""

    id: str
    kind: str
    text: bytes


class Feed(Protocol):
    """The live stream: ticks and events in one order, about fifteen minutes of them, and the right to build ticks."""

    async def claim(self, holder: str, ttl_s: float) -> bool:
        """Take or renew the right to build ticks. False if another holder has it."""

    async def release(self, holder: str) -> None:
        """Release the right, if `holder` has it."""

    async def tick(self, holder: str, text: bytes) -> str | None:
        """Append a tick if `holder` has the right. Returns its id, or None if nothing was appended."""

    async def event(self, text: bytes) -> None:
        """Append a batch of events."""

    async def read(self, after: str, limit: int = 1000) -> list[Entry] | None:
        """The entries after this one, oldest first; all that are kept if `after` is empty. None if the entry `after` is
        gone, so that some may be missing.
        """


class LineBatch(NamedTuple):
    """A batch of log lines that a node published. `omitted` is how many more were left out for their size; the LogStore
    has them.
    """

    id: str
    lines: Sequence[LogLine]
    omitted: int


class LiveTail(Protocol):
    """Log lines, published while there is a viewer. Best effort: the LogStore has every line."""

    async def add_viewer(self, seconds: float) -> None:
        """Register a viewer for this long."""

    async def publish(self, lines: Sequence[LogLine]) -> bool:
        """Publish if there is a viewer. False if there is none."""

    async def has_viewer(self) -> bool:
        """Whether there is a viewer."""

    async def read(self, after: str, limit: int = 100) -> list[LineBatch] | None:
        """The batches after this one, oldest first. None if some may be missing."""

    async def newest(self) -> str:
        """The id of the newest batch, to start reading from."""
