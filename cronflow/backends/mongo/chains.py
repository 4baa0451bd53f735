"""Chains: marks of followed runs, and joins, which are changed by compare-and-set on their revision and the term."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from pymongo.errors import DuplicateKeyError

from cronflow.backends import codec
from cronflow.backends.mongo.bound_jobs import records
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.domain.chain import RunEnd
from cronflow.domain.following import JoinRecord
from cronflow.domain.job import Job, JobRecord
from cronflow.domain.run import ENDED, RunState

END_FIELDS = {"job": 1, "state": 1, "fire_at": 1, "ended_at": 1, "chain": 1}
ENDED_STATES = sorted(state.value for state in ENDED)


class MongoChainStore:
    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._jobs, self._runs, self._joins = database["jobs"], database["runs"], database["joins"]
        self._control = database["control"]

    async def follow(self, jobs: Collection[str]) -> None:
        match = {"_id": {"$in": list(jobs)}, "followed": {"$ne": True}}
        async with self._database.translated():
            await self._jobs.update_many(match, {"$set": {"followed": True}, "$inc": {"rev": 1}})

    async def followers(self, jobs: Collection[str]) -> list[JobRecord]:
        match = {"follows": {"$in": list(jobs)}, "deleted_at": None}
        async with self._database.translated():
            found = await self._jobs.find(match).hint("follows").to_list(None)
        return await records(self._database, found)

    async def following(self) -> list[Job]:
        match = {"follows": {"$exists": True}, "deleted_at": None}
        async with self._database.translated():
            found = await self._jobs.find(match, {"definition": 1}).hint("follows").to_list(None)
        return [codec.job_of_definition(document["definition"]) for document in found]

    async def graph_version(self) -> int:
        async with self._database.translated():
            found = await self._control.find_one({"_id": "graph"})
        return 0 if found is None else int(found["version"])

    async def graph_changed(self) -> None:
        async with self._database.translated():
            await self._control.update_one({"_id": "graph"}, {"$inc": {"version": 1}}, upsert=True)

    async def ended(self, limit: int) -> list[RunEnd]:
        match = {"followed": True, "state": {"$in": ENDED_STATES}}
        async with self._database.translated():
            cursor = self._runs.find(match, END_FIELDS).sort("ended_at", 1).limit(limit).hint("followed")
            found = await cursor.to_list(None)
        return [_end(document["_id"], document) for document in found]

    async def answered(self, runs: Collection[str]) -> None:
        async with self._database.translated():
            match = {"_id": {"$in": list(runs)}, "state": {"$in": ENDED_STATES}}
            await self._runs.update_many(match, {"$unset": {"followed": ""}})

    async def marked(self, runs: Collection[str]) -> set[str]:
        match = {"_id": {"$in": list(runs)}, "followed": True, "state": {"$in": ENDED_STATES}}
        async with self._database.translated():
            found = await self._runs.find(match, {"_id": 1}).hint("_id_").to_list(None)
        return {document["_id"] for document in found}

    async def joins(self, ids: Collection[str]) -> list[JoinRecord]:
        async with self._database.translated():
            found = await self._joins.find({"_id": {"$in": list(ids)}}).to_list(None)
        return [_join(document) for document in found]

    async def joins_of(self, job: str, limit: int) -> list[JoinRecord]:
        async with self._database.translated():
            cursor = self._joins.find({"job": job, "waits": True}).sort("_id", 1).limit(limit).hint("waits")
            found = await cursor.to_list(None)
        return [_join(document) for document in found]

    async def due_joins(self, now: datetime, limit: int) -> list[JoinRecord]:
        match = {"due_at": {"$lte": now}}
        async with self._database.translated():
            found = await self._joins.find(match).sort("due_at", 1).limit(limit).hint("due").to_list(None)
        return [_join(document) for document in found]

    async def write_join(self, join: JoinRecord) -> bool:
        document = _join_document(join) | {"rev": join.rev + 1}
        update = [{"$replaceWith": {"$mergeObjects": [{"$literal": document}, {"written_at": "$$NOW"}]}}]
        match: dict[str, Any] = {"_id": join.id, "rev": join.rev}
        async with self._database.translated():
            if join.rev:
                return bool((await self._joins.update_one(match, update)).matched_count)
            try:
                # Exists with another revision: the insert is refused.
                await self._joins.update_one({"_id": join.id, "rev": {"$lt": 0}}, update, upsert=True)
            except DuplicateKeyError:
                return False
        return True

    async def forget_joins(self, written_before: datetime, limit: int) -> int:
        match = {"written_at": {"$lt": written_before}, "$or": [{"waits": None}, {"chain": {"$ne": None}}]}
        async with self._database.translated():
            old = await self._joins.find(match, {"_id": 1}).limit(limit).hint("age").to_list(None)
            if not old:
                return 0
            result = await self._joins.delete_many({**match, "_id": {"$in": [one["_id"] for one in old]}})
        return int(result.deleted_count)

    async def forget_joins_of(self, job: str) -> None:
        async with self._database.translated():
            await self._joins.delete_many({"_id": {"$gte": job, "$lt": f"{job}$"}, "job": job})


def _end(run: str, document: Mapping[str, Any]) -> RunEnd:
    chain = document.get("chain")
    return RunEnd(
        run,
        document["job"],
        RunState(document["state"]),
        document["fire_at"],
        document["ended_at"],
        None if chain is None else codec.chain_link(chain),
    )


def _end_document(end: RunEnd) -> dict[str, Any]:
    document: dict[str, Any] = {"run": end.run, "job": end.job, "state": end.state.value}
    document |= {"fire_at": end.fire_at, "ended_at": end.ended_at}
    # What the end itself follows is in its run.
    return document if end.chain is None else document | {"chain": {"id": end.chain_id, "depth": end.depth, "of": []}}


def _join_document(join: JoinRecord) -> dict[str, Any]:
    document: dict[str, Any] = {
        "_id": join.id,
        "job": join.job,
        "chain": join.chain,
        "arrived": [_end_document(end) for end in join.arrived],
        "recent": list(join.recent),
        "completed": [_end_document(end) for end in join.completed],
        "expired": join.expired,
    }
    if join.expires_at is not None:
        document["expires_at"] = join.expires_at
    if join.due_at is not None:
        document["due_at"] = join.due_at
    if join.waits:
        document["waits"] = True
    return document


def _join(document: Mapping[str, Any]) -> JoinRecord:
    arrived, completed = (tuple(_end(end["run"], end) for end in document[name]) for name in ("arrived", "completed"))
    return JoinRecord(
        id=document["_id"],
        job=document["job"],
        chain=document["chain"],
        rev=document["rev"],
        arrived=arrived,
        recent=tuple(document["recent"]),
        completed=completed,
        expired=document["expired"],
        expires_at=document.get("expires_at"),
        waits=document.get("waits", False),
    )
