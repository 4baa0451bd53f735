"""Backfills. Each is one document with its instants; the cursor moves by compare-and-set."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from cronflow.backends.mongo.database import MongoDatabase, NamedCollection
from cronflow.domain.backfill import Backfill, BackfillScope, BackfillState, parse_rate
from cronflow.domain.run import RunState
from cronflow.ports.backfills import WatchedBackfill

MOST_FORGOTTEN = 1000
PLAIN = (
    "job", "first", "last", "total", "first_instant", "last_instant", "inserted", "due_at", "by", "created_at",
    "ended_at", "cancelled_by", "reason",
)  # fmt: skip
WITHOUT_INSTANTS = {"instants": 0}


class MongoBackfillStore(NamedCollection):
    collection = "backfills"

    def __init__(self, database: MongoDatabase) -> None:
        super().__init__(database)
        self._runs = database["runs"]

    async def create(self, backfill: Backfill, instants: Sequence[datetime]) -> bool:
        return await self.insert(_document(backfill) | {"instants": list(instants)})

    async def get(self, id: str) -> Backfill | None:  # noqa: A002
        async with self._database.translated():
            document = await self._documents.find_one({"_id": id}, WITHOUT_INSTANTS)
        return None if document is None else _backfill(document)

    async def find(
        self, *, job: str | None = None, before: tuple[datetime, str] | None = None, limit: int = 100
    ) -> list[Backfill]:
        match: dict[str, Any] = {} if job is None else {"job": job}
        if before is not None:
            created_at, last = before
            match["created_at"] = {"$lte": created_at}
            match["$or"] = [{"created_at": {"$lt": created_at}}, {"_id": {"$lt": last}}]
        async with self._database.translated():
            cursor = self._documents.find(match, WITHOUT_INSTANTS).sort([("created_at", -1), ("_id", -1)])
            found = await cursor.limit(limit).to_list(None)
        return [_backfill(document) for document in found]

    async def watched(self, page: int) -> list[WatchedBackfill]:
        pipeline: list[dict[str, Any]] = [
            {"$match": {"watched": True}},
            {"$sort": {"created_at": 1, "_id": 1}},
            {"$set": {"instants": {"$slice": ["$instants", "$inserted", page]}}},
        ]
        async with self._database.translated():
            found = await self._documents.aggregate(pipeline).to_list(None)
        return [WatchedBackfill(_backfill(document), document["instants"]) for document in found]

    async def advance(self, id: str, inserted: int, to: int, due_at: datetime) -> bool:  # noqa: A002
        match = {"_id": id, "state": BackfillState.RUNNING.value, "inserted": inserted}
        return await self._set(match, {"$set": {"inserted": to, "due_at": due_at}})

    async def cancel(self, id: str, by: str, reason: str, at: datetime) -> bool:  # noqa: A002
        sets = {"state": BackfillState.CANCELLED.value, "cancelled_by": by, "reason": reason, "ended_at": at}
        return await self._set({"_id": id, "state": BackfillState.RUNNING.value}, {"$set": sets})

    async def close(self, id: str, state: BackfillState, at: datetime) -> bool:  # noqa: A002
        match: dict[str, Any] = {"_id": id, "watched": True}
        if state is BackfillState.CANCELLED:
            return await self._set(match | {"state": state.value}, {"$unset": {"watched": ""}})
        update = {"$set": {"state": state.value, "ended_at": at}, "$unset": {"watched": ""}}
        return await self._set(match | {"state": BackfillState.RUNNING.value}, update)

    async def _set(self, match: dict[str, Any], update: dict[str, Any]) -> bool:
        async with self._database.translated():
            result = await self._documents.update_one(match, update)
        return bool(result.matched_count)

    async def counts(self, ids: Collection[str]) -> Mapping[str, Mapping[RunState, int]]:
        async with self._database.translated():
            rows = await self._runs.aggregate(**self.counting(ids)).to_list(None)
        found: dict[str, dict[RunState, int]] = {one: {} for one in ids}
        for row in rows:
            found[row["_id"]["backfill"]][RunState(row["_id"]["state"])] = row["runs"]
        return found

    def counting(self, ids: Collection[str]) -> dict[str, Any]:
        """The arguments of the aggregation, which reads the index alone."""
        pipeline: list[dict[str, Any]] = [
            {"$match": {"backfill": {"$in": list(ids)}}},
            {"$project": {"_id": 0, "backfill": 1, "state": 1}},
            {"$group": {"_id": {"backfill": "$backfill", "state": "$state"}, "runs": {"$sum": 1}}},
        ]
        return {"pipeline": pipeline, "hint": "backfill"}

    async def forget(self, ended_before: datetime) -> int:
        match = {"watched": None, "ended_at": {"$lt": ended_before}}
        async with self._database.translated():
            old = await self._documents.find(match, {"_id": 1}).limit(MOST_FORGOTTEN).to_list(None)
        if not old:
            return 0
        counts = await self.counts([document["_id"] for document in old])
        async with self._database.translated():
            going = [one for one, states in counts.items() if not states]
            result = await self._documents.delete_many({**match, "_id": {"$in": going}})
        return int(result.deleted_count)


def _document(backfill: Backfill) -> dict[str, Any]:
    document = {name: getattr(backfill, name) for name in PLAIN}
    document |= {"_id": backfill.id, "state": backfill.state.value, "scope": backfill.scope.value}
    if backfill.rate is not None:
        document["rate"] = str(backfill.rate)
    if backfill.watched:
        document["watched"] = True
    return document


def _backfill(document: Mapping[str, Any]) -> Backfill:
    rate = document.get("rate")
    return Backfill(
        id=document["_id"],
        state=BackfillState(document["state"]),
        scope=BackfillScope(document["scope"]),
        rate=None if rate is None else parse_rate(rate),
        watched=document.get("watched", False),
        **{name: document[name] for name in PLAIN},
    )
