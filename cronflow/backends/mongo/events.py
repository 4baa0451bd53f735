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
        since: datetime | None = None,
        after: str = "",
        before: str = "",
        limit: int = 100,
    ) -> list[RecordedEvent]:
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
        """Reads only the index `standing`."""
        async with self._database.translated():
            found = await self._database["jobs"].aggregate(JOBS_BY_STATE, hint="standing").to_list(None)
        counts = Counter({row["_id"]: row["count"] for row in found})
        return JobCounts(active=counts["active"], paused=counts["paused"], idle=counts["idle"])

    async def open_runs(self, most: int) -> int:
        async with self._database.translated():
            count = await self._database["runs"].count_documents({"open": True}, limit=most, hint="overdue")
        return int(count)


JOBS_BY_STATE: list[dict[str, Any]] = [
    # Matches every job, in a form that uses the index. System jobs are recognized by name.
    {"$match": {"active": {"$in": [True, False]}}},
    {"$project": {"_id": 1, "active": 1, "paused": 1, "deleted_at": 1}},
    {"$match": {"$expr": {"$not": {"$regexMatch": {"input": "$_id", "regex": f"^{SYSTEM_PREFIX}"}}}}},
    {
        "$group": {
            "_id": {
                "$switch": {
                    "branches": [
                        {"case": "$active", "then": "active"},
                        {"case": {"$gt": ["$deleted_at", None]}, "then": "deleted"},
                        {"case": "$paused", "then": "paused"},
                    ],
                    "default": "idle",
                }
            },
            "count": {"$sum": 1},
        }
    },
]


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
    )
