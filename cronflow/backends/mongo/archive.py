"""Reading in bulk and deleting, by the order of `_id` or of an index, with projections: bounded at any size."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from cronflow.backends import codec
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.domain.run import ENDED, OPEN, RunState
from cronflow.domain.sweep import JobRow, RunRow

ROW = {"job": 1, "state": 1, "fire_at": 1, "open": 1, "check_at": 1, "ended_at": 1}
SCHEDULED = r"^[^@]+@\d{8}T\d{6}Z$"
OPEN_STATES = [state.value for state in OPEN]
ENDED_STATES = [state.value for state in ENDED]


class MongoArchive:
    """The Archive port."""

    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._jobs, self._runs = database["jobs"], database["runs"]
        self._late, self._results = database["late"], database["results"]

    async def runs(self, *, after: str = "", limit: int = 1000) -> list[RunRow]:
        """By `_id`."""
        async with self._database.translated():
            found = await self._runs.find({"_id": {"$gt": after}}, ROW).sort("_id", 1).limit(limit).to_list(None)
        return [_row(document) for document in found]

    async def rows(self, ids: Collection[str]) -> list[RunRow]:
        """By `_id`."""
        async with self._database.translated():
            found = await self._runs.find({"_id": {"$in": list(ids)}}, ROW).to_list(None)
        return [_row(document) for document in found]

    async def jobs(self, *, after: str = "", limit: int = 500, deleted_before: datetime | None = None) -> list[JobRow]:
        """By `_id`; tombstones through their partial index."""
        match: dict[str, Any] = {"_id": {"$gt": after}}
        if deleted_before is not None:
            match["deleted_at"] = {"$type": "date", "$lt": deleted_before}
        async with self._database.translated():
            found = await self._jobs.find(match).sort("_id", 1).limit(limit).to_list(None)
        return [JobRow(codec.record(document), bool(document.get("active"))) for document in found]

    async def expired(
        self, before: datetime, *, after: tuple[datetime, str] | None = None, limit: int = 1000
    ) -> list[RunRow]:
        """Through the index on (ended_at, _id)."""
        match: dict[str, Any] = {"ended_at": {"$lt": before}}
        if after is not None:
            ended_at, run = after
            match = {
                "ended_at": {"$gte": ended_at, "$lt": before},
                "$or": [{"ended_at": {"$gt": ended_at}}, {"_id": {"$gt": run}}],
            }
        async with self._database.translated():
            cursor = self._runs.find(match, ROW).sort([("ended_at", 1), ("_id", 1)]).limit(limit)
            found = await cursor.to_list(None)
        return [_row(document) for document in found]

    async def anchors(self, jobs: Collection[str], before: datetime) -> dict[str, datetime]:
        """A step backwards through the history of each job: no run is created before its fire, so the first one or two
        decide.
        """
        anchors: dict[str, datetime] = {}
        async with self._database.translated():
            for job in jobs:
                match = {
                    "job": job,
                    "fire_at": {"$lt": before},
                    "_id": {"$regex": SCHEDULED},
                    "created_at": {"$lt": before},
                }
                found = await self._runs.find_one(match, {"fire_at": 1}, sort=[("fire_at", -1), ("_id", -1)])
                if found is not None:
                    anchors[job] = found["fire_at"]
        return anchors

    async def delete_runs(self, ids: Collection[str], ended_before: datetime) -> int:
        """The late and the large results first: what is interrupted in between is found again by its run."""
        match = {"_id": {"$in": list(ids)}, "state": {"$in": ENDED_STATES}, "ended_at": {"$lt": ended_before}}
        async with self._database.translated():
            going = [row["_id"] for row in await self._runs.find(match, {"_id": 1}).to_list(None)]
            if not going:
                return 0
            await self._late.delete_many({"run": {"$in": going}})
            await self._results.delete_many({"run": {"$in": going}})
            result = await self._runs.delete_many({**match, "_id": {"$in": going}})
        return int(result.deleted_count)

    async def delete_job(self, name: str, rev: int) -> bool:
        """Compare `rev`."""
        async with self._database.translated():
            if await self._runs.find_one({"job": name}, {"_id": 1}) is not None:
                return False
            result = await self._jobs.delete_one({"_id": name, "rev": rev, "deleted_at": {"$type": "date"}})
        return bool(result.deleted_count)

    async def mark(self, ids: Collection[str]) -> None:
        """Two updates, each conditional on the state, so that neither races with the end of a run."""
        ended = {"_id": {"$in": list(ids)}, "state": {"$in": ENDED_STATES}}
        still_open = {**ended, "state": {"$in": OPEN_STATES}}
        marks = {"open": True, "check_at": {"$ifNull": ["$check_at", "$$NOW"]}}
        async with self._database.translated():
            await self._runs.update_many(ended, {"$unset": {"open": "", "check_at": ""}})
            await self._runs.update_many(still_open, [{"$set": marks}])


def _row(document: Mapping[str, Any]) -> RunRow:
    return RunRow(
        id=document["_id"],
        job=document["job"],
        state=RunState(document["state"]),
        fire_at=document["fire_at"],
        marked_open=document.get("open") is True,
        check_at=document.get("check_at"),
        ended_at=document.get("ended_at"),
    )
