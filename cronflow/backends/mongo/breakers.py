"""The circuit breakers of jobs, changed only by compare-and-set."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pymongo.errors import DuplicateKeyError

from cronflow.backends.mongo.database import MongoDatabase
from cronflow.domain.job_breaker import BreakerState

COMPARED = ("opened_at", "probe_at", "counts_from")


class MongoBreakerStore:
    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._breakers = database["breakers"]

    async def get(self, jobs: Collection[str]) -> dict[str, BreakerState]:
        async with self._database.translated():
            found = await self._breakers.find({"_id": {"$in": list(jobs)}}).to_list(None)
        return {document["_id"]: _state(document) for document in found}

    async def replace(self, seen: BreakerState, state: BreakerState) -> bool:
        match = {"_id": state.job, **{name: getattr(seen, name) for name in COMPARED}}
        fields = {name: getattr(state, name) for name in (*COMPARED, "failed", "attempts")}
        async with self._database.translated():
            try:
                result = await self._breakers.update_one(
                    match, {"$set": fields}, upsert=seen == BreakerState(job=seen.job)
                )
            except DuplicateKeyError:
                # It exists and differs.
                return False
        return result.matched_count == 1 or result.upserted_id is not None

    async def remove(self, jobs: Collection[str]) -> None:
        if jobs:
            async with self._database.translated():
                await self._breakers.delete_many({"_id": {"$in": list(jobs)}})


def _state(document: Mapping[str, Any]) -> BreakerState:
    fields = {name: document[name] for name in (*COMPARED, "failed", "attempts")}
    return BreakerState(job=document["_id"], **fields)
