"""Events, which are found by their ids; roll-ups, which only `$inc` changes; and totals, counted in indexes alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pymongo import UpdateOne

from cronflow.backends import codec
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.domain.events import RecordedEvent, cursor_of, stored_kinds
from cronflow.domain.job import SYSTEM_PREFIX
from cronflow.domain.rollup import Bucket, BucketSize, Tally
from cronflow.ports import JobCounts


class MongoEventStore:
    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._events = database["events"]

    async def append(self, events: Sequence[RecordedEvent]) -> None:
        await self._database.insert_new("events", [codec.event_document(happened) for happened in events])

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
        match: dict[str, Any] = {"kind": {"$in": stored_kinds(kinds)}} if kinds else {}
        if node:
            match["fields.node"] = node
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


class MongoRollupStore:
    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._rollups = database["rollups"]

    async def add(self, minutes: Mapping[datetime, Tally]) -> None:
        buckets: dict[tuple[BucketSize, datetime], Tally] = {}
        for minute, tally in minutes.items():
            for resolution in BucketSize:
                buckets.setdefault((resolution, resolution.begin(minute)), Tally()).add(tally)
        updates = [_update(resolution, at, tally) for (resolution, at), tally in buckets.items()]
        if updates:
            async with self._database.translated():
                await self._rollups.bulk_write(updates, ordered=False)

    async def read(self, resolution: BucketSize, since: datetime, until: datetime) -> list[Bucket]:
        bounds = {"$gte": _id(resolution, since), "$lt": _id(resolution, until)}
        async with self._database.translated():
            found = await self._rollups.find({"_id": bounds}).sort("_id", 1).to_list(None)
        return [Bucket(resolution, document["at"], _tally(document)) for document in found]


class MongoTotals:
    def __init__(self, database: MongoDatabase) -> None:
        self._database = database

    async def jobs(self) -> JobCounts:
        """Each state is a range of the index `standing`, or the difference of two, which is cheap to count. System
        jobs, which are recognized by name, are few and subtracted.
        """
        async with self._database.translated():
            counts = {state: await self._count(*ranges) for state, ranges in RANGES.items()}
            system = await self._database["jobs"].find(SYSTEM_JOBS, STATE_FIELDS).to_list(None)
        for document in system:
            if state := _state_of(document):
                counts[state] -= 1
        return JobCounts(**counts)

    async def _count(self, within: dict[str, Any], *without: dict[str, Any]) -> int:
        jobs = self._database["jobs"]
        found = [await jobs.count_documents(match, hint="standing") for match in (within, *without)]
        return int(found[0] - sum(found[1:]))

    async def open_runs(self, most: int) -> int:
        async with self._database.translated():
            count = await self._database["runs"].count_documents({"open": True}, limit=most, hint="overdue")
        return int(count)


DELETED = {"deleted_at": {"$gt": datetime.min.replace(tzinfo=UTC), "$lt": datetime.max.replace(tzinfo=UTC)}}
RANGES: dict[str, tuple[dict[str, Any], ...]] = {
    "active": ({"active": True},),
    "paused": ({"active": False, "paused": True}, {"active": False, "paused": True, **DELETED}),
    "idle": ({"active": False, "paused": False}, {"active": False, "paused": False, **DELETED}),
}
"""By state: the range that contains the jobs of the state, and those in it that do not count."""
STATE_FIELDS = {"active": 1, "paused": 1, "deleted_at": 1}
SYSTEM_JOBS = {"_id": {"$gte": SYSTEM_PREFIX, "$lt": SYSTEM_PREFIX + "\uffff"}}


def _state_of(document: Mapping[str, Any]) -> str | None:
    """The state as which a job counts; None if it is deleted."""
    if document["active"]:
        return "active"
    if document["deleted_at"] is not None:
        return None
    return "paused" if document["paused"] else "idle"


def _id(resolution: BucketSize, at: datetime) -> str:
    return f"{resolution.value}|{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S}"


def _update(resolution: BucketSize, at: datetime, tally: Tally) -> UpdateOne:
    counts = {f"{name}.{key}": count for name, part in tally.parts().items() for key, count in part.items()}
    return UpdateOne(
        {"_id": _id(resolution, at)},
        {"$inc": counts, "$setOnInsert": {"at": at, "expire_at": at + resolution.length + resolution.kept}},
        upsert=True,
    )


def _tally(document: Mapping[str, Any]) -> Tally:
    return Tally(
        states=Counter(document.get("states", {})),
        outcomes=Counter(document.get("outcomes", {})),
        lateness=Counter({int(step): count for step, count in document.get("lateness", {}).items()}),
        duration=Counter({int(step): count for step, count in document.get("duration", {}).items()}),
        attempts=Counter(document.get("attempts", {})),
    )
