"""Alert rules, notifications, and the conditions that rules evaluate.

A notification is inserted once, because its id is derived from its content. A sender claims it, and writes the result
of an attempt only under that claim.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from cronflow.backends import codec
from cronflow.backends.mongo.bound_jobs import records
from cronflow.backends.mongo.database import MongoDatabase, NamedCollection
from cronflow.domain.alert_kinds import KEPT, AlertKind, kept
from cronflow.domain.alerts import AlertRecord, Failing, Notification
from cronflow.domain.job import JobRecord
from cronflow.domain.run import Run
from cronflow.domain.thresholds import Crossing

NEVER = datetime(9999, 12, 31, tzinfo=UTC)
IS_DUE = {"$lte": ["$due_at", "$$NOW"]}


class MongoAlertStore(NamedCollection):
    """`failing` has a document per alert and job, `<alert>/<job>`; `crossings` one per alert and kind."""

    collection = "alerts"

    def __init__(self, database: MongoDatabase) -> None:
        super().__init__(database)
        self._failing, self._notices = database["failing"], database["notices"]
        self._crossings = database["crossings"]

    async def create(self, record: AlertRecord) -> bool:
        return await self.insert(codec.alert_record_document(record))

    async def get(self, name: str) -> AlertRecord | None:
        return await self.one(name, codec.alert_record)

    async def find(self, *, after: str = "", limit: int = 500) -> list[AlertRecord]:
        return await self.page(after, limit, codec.alert_record)

    async def replace(self, record: AlertRecord, rev: int) -> bool:
        document = codec.alert_record_document(record) | {"rev": rev + 1}
        async with self._database.translated():
            result = await self._documents.replace_one({"_id": record.name, "rev": rev}, document)
        return bool(result.matched_count)

    async def delete(self, name: str) -> bool:
        """Deletes the rule first. After an interruption, its remaining notifications are never sent."""
        async with self._database.translated():
            result = await self._documents.delete_one({"_id": name})
            await self._notices.delete_many({"alert": name})
            await self._failing.delete_many({"alert": name})
            await self._crossings.delete_many({"alert": name})
        return bool(result.deleted_count)

    async def judge(self, name: str, until: datetime) -> None:
        async with self._database.translated():
            await self._documents.update_one({"_id": name}, {"$max": {"judged": until}})

    async def fail(self, failing: Sequence[Failing]) -> None:
        for one in failing:
            document = {
                "alert": one.alert,
                "job": one.job,
                "run": one.run,
                "fire_at": one.fire_at,
                "ended_at": one.ended_at,
            }
            match = {"_id": one.place, "ended_at": {"$lt": one.ended_at}}
            async with self._database.translated():
                try:
                    await self._failing.replace_one(match, document, upsert=True)
                except DuplicateKeyError:
                    continue

    async def failing(self, *, after: Failing | None = None, limit: int = 100) -> list[Failing]:
        query = {} if after is None else {"_id": {"$gt": after.place}}
        async with self._database.translated():
            found = await self._failing.find(query).sort("_id", 1).limit(limit).to_list(None)
        return [Failing(one["alert"], one["job"], one["run"], one["fire_at"], one["ended_at"]) for one in found]

    async def recovered(self, failing: Failing) -> None:
        async with self._database.translated():
            await self._failing.delete_one({"_id": failing.place, "run": failing.run})

    async def crossings(self) -> Mapping[str, Crossing]:
        async with self._database.translated():
            found = await self._crossings.find({}).to_list(None)
        return {one["_id"]: codec.crossing(one) for one in found}

    async def cross(self, crossing: Crossing) -> bool:
        """The first one of an alert and kind is inserted; the unique id refuses a second first one."""
        match = {"_id": crossing.place, "number": crossing.number - 1}
        async with self._database.translated():
            try:
                result = await self._crossings.replace_one(
                    match, codec.crossing_document(crossing), upsert=crossing.number == 1
                )
            except DuplicateKeyError:
                return False
        return bool(result.matched_count or result.upserted_id)


class MongoOutbox:
    """A TTL index deletes notifications that ended long ago."""

    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._notices = database["notices"]

    async def put(self, notifications: Sequence[Notification]) -> set[str]:
        return await self._database.insert_new(
            "notices", [codec.notification_document(notification) for notification in notifications]
        )

    async def claim(
        self, claim: str, lease: timedelta, limit: int, *, excluding: Collection[str] = ()
    ) -> list[Notification]:
        """One aggregation over an index, then one findOneAndUpdate per notification."""
        oldest: list[Mapping[str, Any]] = [
            {"$match": {"waiting": True, "alert": {"$nin": list(excluding)}}},
            {"$sort": {"alert": 1, "job": 1, "created_at": 1, "_id": 1}},
            {
                "$group": {
                    "_id": {"alert": "$alert", "job": "$job"},
                    "notification": {"$first": "$_id"},
                    "due_at": {"$first": "$due_at"},
                }
            },
            {"$match": {"$expr": IS_DUE}},
            {"$sort": {"due_at": 1}},
            {"$limit": limit},
        ]
        again = {"$add": ["$$NOW", round(lease.total_seconds() * 1000)]}
        attempts = {"$add": ["$attempts", 1]}
        update = [{"$set": {"claim": {"$literal": claim}, "due_at": again, "attempts": attempts}}]
        claimed: list[Notification] = []
        async with self._database.translated():
            found = await self._notices.aggregate(oldest).to_list(None)
        for one in found:
            async with self._database.translated():
                document = await self._notices.find_one_and_update(
                    {"_id": one["notification"], "waiting": True, "$expr": IS_DUE},
                    update,
                    return_document=ReturnDocument.AFTER,
                )
            if document is not None:
                claimed.append(codec.notification(document))
        return claimed

    async def record_attempt(self, notification: Notification, again_in: timedelta | None) -> bool:
        fields: dict[str, Any] = {
            "state": notification.state.value,
            "status": notification.status,
            "error": {"$literal": notification.error},
            "tried_at": notification.tried_at,
            "ended_at": notification.ended_at,
            "claim": None,
        }
        if again_in is not None:
            fields["due_at"] = {"$add": ["$$NOW", round(again_in.total_seconds() * 1000)]}
        update: list[Mapping[str, Any]] = [{"$set": fields}]
        if notification.ended_at is not None:
            fields["expire_at"] = notification.ended_at + kept(notification.kind)
            update.append({"$unset": ["waiting", "due_at"]})
        async with self._database.translated():
            result = await self._notices.update_one({"_id": notification.id, "claim": notification.claim}, update)
        return bool(result.matched_count)

    async def held(
        self,
        alert: str,
        limit: int,
        *,
        after: tuple[datetime, str] | None = None,
        kinds: Collection[AlertKind] | None = None,
    ) -> list[Notification]:
        match: dict[str, Any] = {"alert": alert, "held": True}
        if kinds is not None:
            match["kind"] = {"$in": [kind.value for kind in kinds]}
        if after is not None:
            created_at, notification = after
            match["created_at"] = {"$gte": created_at}
            match["$or"] = [{"created_at": {"$gt": created_at}}, {"_id": {"$gt": notification}}]
        async with self._database.translated():
            cursor = self._notices.find(match).sort([("created_at", 1), ("_id", 1)])
            found = await cursor.limit(limit).to_list(None)
        return [codec.notification(document) for document in found]

    async def latest_digest(self, alert: str, group: str | None = None) -> Notification | None:
        match: dict[str, Any] = {"alert": alert, "number": {"$gt": 0}}
        if group is not None:
            match["group"] = group
        async with self._database.translated():
            found = await self._notices.find(match).sort("number", -1).limit(1).to_list(None)
        return codec.notification(found[0]) if found else None

    async def settle(self, digest: str, at: datetime) -> None:
        async with self._database.translated():
            found = await self._notices.find_one({"_id": digest}, {"members": True})
            members = [] if found is None else found["members"]
            change = {
                "$set": {"state": "grouped", "digest": digest, "ended_at": at, "expire_at": at + KEPT},
                "$unset": {"held": ""},
            }
            await self._notices.update_many({"_id": {"$in": members}, "held": True}, change)

    async def forget(self, notification: Notification) -> None:
        async with self._database.translated():
            await self._notices.delete_one({"_id": notification.id})

    async def of(
        self, alert: str, *, before: tuple[datetime, str] | None = None, limit: int = 100
    ) -> list[Notification]:
        match: dict[str, Any] = {"alert": alert}
        if before is not None:
            created_at, notification = before
            match["created_at"] = {"$lte": created_at}
            match["$or"] = [{"created_at": {"$lt": created_at}}, {"_id": {"$lt": notification}}]
        async with self._database.translated():
            cursor = self._notices.find(match).sort([("created_at", -1), ("_id", -1)]).limit(limit)
            found = await cursor.to_list(None)
        return [codec.notification(document) for document in found]


class MongoAlertConditions:
    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._runs, self._jobs = database["runs"], database["jobs"]

    async def unreported(self, limit: int) -> list[Run]:
        async with self._database.translated():
            found = await self._runs.find({"untold": True}).sort("ended_at", 1).limit(limit).to_list(None)
        return [codec.run(document) for document in found]

    async def mark_reported(self, runs: Collection[str]) -> None:
        async with self._database.translated():
            await self._runs.update_many({"_id": {"$in": list(runs)}}, {"$unset": {"untold": ""}})

    async def late(self, after: tuple[datetime, str], until: datetime, by: timedelta, limit: int = 1000) -> list[Run]:
        fire_at, run = after
        bound = {"$add": ["$fire_at", round(by.total_seconds() * 1000)]}
        match = {
            "fire_at": {"$gte": fire_at, "$lte": until},
            "$or": [{"fire_at": {"$gt": fire_at}}, {"_id": {"$gt": run}}],
            "$expr": {"$gt": [{"$ifNull": ["$started_at", NEVER]}, bound]},
        }
        async with self._database.translated():
            cursor = self._runs.find(match).sort([("fire_at", 1), ("_id", 1)]).limit(limit).hint("newest")
            found = await cursor.to_list(None)
        return [codec.run(document) for document in found]

    async def waiting(self, until: datetime, limit: int) -> list[Run]:
        match = {"open": True, "fire_at": {"$lt": until}, "started_at": None}
        async with self._database.translated():
            cursor = self._runs.find(match).sort([("fire_at", 1), ("_id", 1)]).limit(limit).hint("overdue")
            found = await cursor.to_list(None)
        return [codec.run(document) for document in found]

    async def unplaced(self, since: datetime, limit: int) -> list[Run]:
        match = {"open": True, "waiting.since": {"$lte": since}, "waiting.blocked_by": None}
        async with self._database.translated():
            found = await self._runs.find(match).sort("waiting.since", 1).limit(limit).to_list(None)
        return [codec.run(document) for document in found]

    async def retried(self, more_than: int, limit: int) -> list[Run]:
        match = {"open": True, "attempt": {"$gt": more_than + 1}}
        async with self._database.translated():
            cursor = self._runs.find(match).hint("turn").sort([("dispatched_at", -1), ("_id", 1)]).limit(limit)
            found = await cursor.to_list(None)
        return [codec.run(document) for document in found]

    async def dead_by_job(self, limit: int) -> Mapping[str, int]:
        """From the keys of the index `dead` alone."""
        pipeline: list[Mapping[str, Any]] = [
            {"$match": {"dead": True}},
            {"$sort": {"fire_at": -1, "_id": -1, "job": 1}},
            {"$limit": limit},
            {"$group": {"_id": "$job", "count": {"$sum": 1}}},
        ]
        async with self._database.translated():
            found = await self._runs.aggregate(pipeline, hint="dead").to_list(None)
        return {one["_id"]: one["count"] for one in found}

    async def behind(self, fire: datetime, due: datetime, limit: int) -> list[JobRecord]:
        match = {"active": True, "due_at": {"$lte": due}, "next_fire": {"$lte": fire}}
        async with self._database.translated():
            found = await self._jobs.find(match).sort("due_at", 1).limit(limit).to_list(None)
        return await records(self._database, found)
