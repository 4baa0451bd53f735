"""Events: inserted in batches, read by their ids, which grow with time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from cronflow.backends import codec
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.domain.events import RecordedEvent, cursor_of, stored_kinds


class MongoEventStore:
    """The EventStore port."""

    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._events = database["events"]

    async def append(self, events: Sequence[RecordedEvent]) -> None:
        """One insertMany; what is there already stays."""
        await self._database.insert_new("events", [codec.event_document(happened) for happened in events])

    async def find(
        self,
        *,
        kinds: Collection[str] = (),
        since: datetime | None = None,
        after: str = "",
        before: str = "",
        limit: int = 100,
    ) -> list[RecordedEvent]:
        """A range of `_id`, or of (kind, _id)."""
        match: dict[str, Any] = {"kind": {"$in": stored_kinds(kinds)}} if kinds else {}
        bounds = {}
        low = max(after, "" if since is None else cursor_of(since))
        if low:
            bounds["$gt"] = low
        if before:
            bounds["$lt"] = before
        if bounds:
            match["_id"] = bounds
        async with self._database.translated():
            found = await self._events.find(match).sort("_id", 1 if after else -1).limit(limit).to_list(None)
        return [happened for happened in map(codec.event, found) if happened is not None]
