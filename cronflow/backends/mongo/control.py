"""The control documents: a linearizable counter of terms and of ranges of fencing tokens, and the maintenance mode."""

from __future__ import annotations

from datetime import datetime

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from cronflow.backends.mongo.database import MongoDatabase
from cronflow.domain.cluster import FENCE_RANGE_US, PROTOCOL, LastLease, LeaderRecord, Term
from cronflow.domain.errors import Deposed
from cronflow.domain.maintenance_mode import MaintenanceMode

MAINTENANCE = "maintenance"
ZONE_DATA = "zone_data"
NOW_US = {"$multiply": [{"$toLong": "$$NOW"}, 1000]}


class MongoServerClock:
    """The primary's clock, in milliseconds."""

    def __init__(self, database: MongoDatabase) -> None:
        self._database = database

    async def now(self) -> datetime:
        return await self._database.time()


class MongoControl:
    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._control = database["control"]

    async def begin_term(self, holder: str) -> Term:
        """One findOneAndUpdate with a pipeline: the end of the previous range becomes the start of the new one."""
        update = [
            {
                "$set": {
                    "term": {"$add": [{"$ifNull": ["$term", 0]}, 1]},
                    "holder": {"$literal": holder},
                    "elected_at": "$$NOW",
                    "renewed_at": "$$NOW",
                    "previous": {"holder": "$holder", "renewed_at": "$renewed_at"},
                    "lo": {"$max": [{"$ifNull": ["$fence_hi", 0]}, NOW_US]},
                }
            },
            {"$set": {"fence_hi": {"$add": ["$lo", FENCE_RANGE_US]}, "proto": PROTOCOL}},
        ]
        async with self._database.translated():
            try:
                document = await self._control.find_one_and_update(
                    {"_id": "leader", "proto": {"$not": {"$gt": PROTOCOL}}},
                    update,
                    upsert=True,
                    return_document=ReturnDocument.AFTER,
                )
            except DuplicateKeyError as error:
                # The filter does not match although the document exists, so its protocol is newer.
                raise Deposed("a newer version of CronFlow has led this cluster; this one may not lead it") from error
        previous = document["previous"]
        last = LastLease(previous["holder"], previous["renewed_at"]) if "holder" in previous else None
        return Term(document["term"], document["lo"], document["fence_hi"], last)

    async def extend(self, term: int, holder: str) -> int | None:
        ahead = {"$add": [NOW_US, FENCE_RANGE_US]}
        update = [{"$set": {"renewed_at": "$$NOW", "fence_hi": {"$max": ["$fence_hi", ahead]}}}]
        async with self._database.translated():
            document = await self._control.find_one_and_update(
                {"_id": "leader", "term": term, "holder": holder}, update, return_document=ReturnDocument.AFTER
            )
        return None if document is None else int(document["fence_hi"])

    async def leader(self) -> LeaderRecord | None:
        async with self._database.translated():
            document = await self._control.find_one({"_id": "leader"})
        if document is None:
            return None
        return LeaderRecord(
            term=document["term"],
            holder=document["holder"],
            elected_at=document["elected_at"],
            renewed_at=document["renewed_at"],
        )

    async def maintenance(self) -> MaintenanceMode | None:
        async with self._database.translated():
            document = await self._control.find_one({"_id": MAINTENANCE}, {"_id": 0})
        return None if document is None else MaintenanceMode(**document)

    async def begin_maintenance(self, mode: MaintenanceMode) -> None:
        document = {"since": mode.since, "by": mode.by, "note": mode.note, "until": mode.until}
        async with self._database.translated():
            await self._control.replace_one({"_id": MAINTENANCE}, document, upsert=True)

    async def end_maintenance(self, since: datetime | None = None) -> bool:
        match = {"_id": MAINTENANCE} if since is None else {"_id": MAINTENANCE, "since": since}
        async with self._database.translated():
            result = await self._control.delete_one(match)
        return bool(result.deleted_count)

    async def claim_zone_data(self, identity: str, term: int) -> bool | None:
        """One findOneAndUpdate. What is kept is the name that is claimed, or none, so the result tells which it was."""
        is_same = {"$eq": ["$identity", {"$literal": identity}]}
        update = [{"$set": {"term": term, "identity": {"$cond": [is_same, "$identity", None]}}}]
        async with self._database.translated():
            try:
                found = await self._control.find_one_and_update(
                    {"_id": ZONE_DATA, "term": {"$lte": term}},
                    update,
                    upsert=True,
                    return_document=ReturnDocument.AFTER,
                )
            except DuplicateKeyError:
                # The document exists, and its term is newer.
                return None
        return bool(found["identity"] == identity)

    async def keep_zone_data(self, identity: str, term: int) -> None:
        async with self._database.translated():
            await self._control.update_one({"_id": ZONE_DATA, "term": term}, {"$set": {"identity": identity}})

    async def ping(self) -> float:
        return await self._database.ping()
