"""Jobs, their versions, and plan intents. A schedule moves only by compare-and-set on `rev` and the term."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from cronflow.backends import codec
from cronflow.backends.mongo.bound_jobs import records, versions
from cronflow.backends.mongo.database import MongoDatabase, Update
from cronflow.backends.mongo.indexes import ANY_PRIORITY
from cronflow.domain.job import JobRecord, PlanIntent
from cronflow.domain.placement import OLDEST_EVERY
from cronflow.domain.version import Version
from cronflow.ports import CursorMove, Deferral, JobEdit, Move

HIGHEST = chr(0x10FFFF)


class MongoJobStore:
    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._jobs = database["jobs"]

    async def get(self, names: Collection[str]) -> list[JobRecord]:
        async with self._database.translated():
            # In one answer: by default the first has 101 documents.
            found = await self._jobs.find({"_id": {"$in": list(names)}}, batch_size=len(names) + 1).to_list(None)
        return await records(self._database, found)

    async def find(self, *, after: str = "", limit: int = 500) -> list[JobRecord]:
        query = {"_id": {"$gt": after}, "deleted_at": None}
        async with self._database.translated():
            found = await self._jobs.find(query, batch_size=limit + 1).sort("_id", 1).limit(limit).to_list(None)
        return await records(self._database, found)

    async def names(self, *, prefix: str = "", after: str = "", limit: int = 500, deleted: bool = False) -> list[str]:
        bounds = {"$gt": after} | ({"$gte": prefix, "$lt": prefix + HIGHEST} if prefix else {})
        query: dict[str, Any] = {"_id": bounds} | ({} if deleted else {"deleted_at": None})
        async with self._database.translated():
            cursor = self._jobs.find(query, {"_id": 1}, batch_size=limit + 1).sort("_id", 1).limit(limit)
            return [row["_id"] for row in await cursor.to_list(None)]

    async def edits(self, *, after: str = "", limit: int = 5000) -> list[JobEdit]:
        fields = {"ver": 1, "deleted_at": 1}
        async with self._database.translated():
            cursor = self._jobs.find({"_id": {"$gt": after}}, fields, batch_size=limit + 1).sort("_id", 1).limit(limit)
            found = await cursor.to_list(None)
        return [JobEdit(row["_id"], row["ver"], row["deleted_at"] is not None) for row in found]

    async def pauses(self, limit: int) -> list[JobRecord]:
        query = {"pause.until": {"$type": "date"}}
        async with self._database.translated():
            found = await self._jobs.find(query).sort("pause.until", 1).limit(limit).hint("pauses").to_list(None)
        return await records(self._database, found)

    async def due(self, until: datetime, limit: int) -> list[JobRecord]:
        query = {"active": True, "due_at": {"$lte": until}}
        async with self._database.translated():
            found = await self._jobs.find(query).sort("due_at", 1).limit(limit).to_list(None)
        return await records(self._database, found)

    async def due_in_turn(
        self, now: datetime, until: datetime, limit: int, coming: int = 1, since: datetime | None = None
    ) -> list[JobRecord]:
        """One command."""
        pipeline = self.in_turn(now, until, limit, coming, since)
        async with self._database.translated():
            # All in the first reply.
            found = await self._jobs.aggregate(pipeline, batchSize=2 * limit + coming).to_list(None)
        return await records(self._database, list({document["_id"]: document for document in found}.values()))

    def in_turn(
        self, now: datetime, until: datetime, limit: int, coming: int = 1, since: datetime | None = None
    ) -> list[dict[str, Any]]:
        """The pipeline; each part walks an index within bounds, and sorts nothing."""
        bounds = {"$lte": now} if since is None else {"$gt": since, "$lte": now}
        due = {"active": True, "due_at": bounds}
        later = {"active": True, "due_at": {"$gt": now, "$lte": until}}

        def earliest(match: dict[str, Any], count: int) -> dict[str, Any]:
            part = [{"$match": match}, {"$sort": {"due_at": 1}}, {"$limit": count}]
            return {"$unionWith": {"coll": self._jobs.name, "pipeline": part}}

        return [
            {"$match": due | {"priority": ANY_PRIORITY}},
            {"$sort": {"priority": -1, "due_at": 1}},
            {"$limit": limit},
            earliest(due, max(1, limit // OLDEST_EVERY)),
            earliest(later, coming),
        ]

    async def move(self, moves: Sequence[Move], term: int) -> set[str]:
        """`pending_run.fence` is unique to the writer, so reading it back shows whose move was applied."""
        if not moves:
            return set()
        updates = [
            Update(
                {"_id": move.job, "rev": move.rev, "term": {"$lte": term}},
                {
                    "$set": {
                        "next_fire": move.next_fire,
                        "due_at": move.next_fire,
                        "active": move.next_fire is not None,
                        "priority": move.priority,
                        "pend": codec.pending_run_document(move.pending_run),
                        "term": term,
                    },
                    "$unset": {"waiting": ""},
                    "$inc": {"rev": 1, "fired": 1} if move.counts else {"rev": 1},
                },
            )
            for move in moves
        ]
        names = {move.job for move in moves}
        async with self._database.translated():
            if await self._database.compare_and_set("jobs", updates) == len(moves):
                return names
            rows = await self._jobs.find({"_id": {"$in": list(names)}}, {"pend.fence": 1}).to_list(None)
        fences = {row["_id"]: (row.get("pend") or {}).get("fence") for row in rows}
        return {move.job for move in moves if fences.get(move.job) == move.pending_run.fence}

    async def reposition(self, jobs: Mapping[str, CursorMove], term: int) -> set[str]:
        """The new `rev` with this term and cursor is as good as an own mark: what it says is true whoever wrote it."""
        if not jobs:
            return set()
        updates = [
            Update({"_id": name, "rev": cursor.rev, "term": {"$lte": term}}, _repositioned(cursor.next_fire, term))
            for name, cursor in jobs.items()
        ]
        async with self._database.translated():
            if await self._database.compare_and_set("jobs", updates) == len(jobs):
                return set(jobs)
            fields = {"rev": 1, "term": 1, "next_fire": 1}
            rows = await self._jobs.find({"_id": {"$in": list(jobs)}}, fields).to_list(None)
        expected = {name: (cursor.rev + 1, term, cursor.next_fire) for name, cursor in jobs.items()}
        return {row["_id"] for row in rows if (row["rev"], row["term"], row["next_fire"]) == expected[row["_id"]]}

    async def defer(self, jobs: Mapping[str, Deferral]) -> None:
        updates = [
            Update(
                {"_id": name, "rev": one.rev},
                {"$set": {"due_at": one.due_at, "waiting": codec.plain(one.waiting), "priority": one.priority}},
            )
            for name, one in jobs.items()
        ]
        if updates:
            async with self._database.translated():
                await self._database.compare_and_set("jobs", updates)

    async def fence(self, names: Collection[str], term: int) -> list[JobRecord]:
        """One write, then one read."""
        chosen = {"_id": {"$in": list(names)}}
        async with self._database.translated():
            await self._jobs.update_many(
                chosen | {"term": {"$lte": term}}, {"$inc": {"rev": 1}, "$set": {"term": term}}
            )
            found = await self._jobs.find(chosen | {"term": term}).to_list(None)
        return await records(self._database, found)

    async def create(self, record: JobRecord) -> bool:
        return bool(await self.create_all([record]))

    async def create_all(self, records: Sequence[JobRecord]) -> set[str]:
        return await self._database.insert_new("jobs", [codec.record_document(record) for record in records])

    async def replace(self, record: JobRecord, rev: int) -> bool:
        document = codec.record_document(record) | {"rev": rev + 1}
        async with self._database.translated():
            result = await self._jobs.replace_one({"_id": record.name, "rev": rev}, document)
        return bool(result.matched_count)


def _repositioned(fire: datetime | None, term: int) -> dict[str, Any]:
    """The update of a job whose cursor moves without a run. One that is not active stays so."""
    values = {"next_fire": fire, "due_at": fire, "term": term} | ({"active": False} if fire is None else {})
    earlier = {} if fire is None else {"$min": {"since": fire}}
    return {"$set": values, **earlier, "$unset": {"waiting": ""}, "$inc": {"rev": 1}}


class MongoPlanStore:
    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._plans = database["plans"]

    async def write(self, note: PlanIntent) -> None:
        """An upsert, so that `at` is the server's time."""
        async with self._database.translated():
            await self._plans.update_one(
                {"_id": note.id},
                [{"$set": {"term": note.term, "jobs": {"$literal": list(note.jobs)}, "at": "$$NOW"}}],
                upsert=True,
            )

    async def remove(self, ids: Collection[str]) -> None:
        if ids:
            async with self._database.translated():
                await self._plans.delete_many({"_id": {"$in": list(ids)}})

    async def left_behind(self, term: int, older_than: timedelta) -> list[PlanIntent]:
        age_ms = round(older_than.total_seconds() * 1000)
        query = {
            "$or": [
                {"term": {"$gt": 0, "$lt": term}},
                {"$expr": {"$lt": ["$at", {"$subtract": ["$$NOW", age_ms]}]}},
            ]
        }
        async with self._database.translated():
            found = await self._plans.find(query).to_list(None)
        return [PlanIntent(id=row["_id"], term=row["term"], jobs=tuple(row["jobs"])) for row in found]


class MongoVersionStore:
    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._versions = database["versions"]

    async def keep(self, versions: Sequence[Version]) -> None:
        await self._database.insert_new("versions", [codec.version_document(version) for version in versions])

    async def of(self, job: str, limit: int = 1000) -> list[Version]:
        """A range of `_id`: `$` is the character after `#`, and job names contain neither."""
        query = {"_id": {"$gt": f"{job}#", "$lt": f"{job}$"}}
        async with self._database.translated():
            found = await self._versions.find(query).sort("_id", -1).limit(limit).to_list(None)
        return await versions(self._database, found[::-1])
