"""Limits and their permits. `domain.permits` has the rules; each is one conditional update of one document here.

All conditions are in the filter of the update, so that the server evaluates them and writes in one step. Times are the
server's own. A request whose update matched nothing either has its permit already or gets none; reading the documents
back shows which.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from cronflow.backends import codec
from cronflow.backends.mongo.database import MongoDatabase, Update
from cronflow.domain.concurrency import NAMED, Rate, named_id
from cronflow.domain.permits import LimitState, NamedLimit, PermitRefusal, PermitRequest, has_permit, reasons_of
from cronflow.domain.run import run_id
from cronflow.ports import PermitKey, Waiter

AFTER_NAMED = NAMED[:-1] + chr(ord(NAMED[-1]) + 1)
OF_KEYS = {"$not": {"$gte": NAMED, "$lt": AFTER_NAMED}}


class MongoLimitStore:
    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._limits = database["limits"]
        self._jobs, self._runs = database["jobs"], database["runs"]

    async def acquire(self, requests: Sequence[PermitRequest]) -> list[PermitRefusal | None]:
        """One bulk write if every request gets its permit; otherwise one read more, and for keys that are used for the
        first time an insert and the same again.
        """
        if not requests:
            return []
        states = await self._try(requests)
        if states is not None:
            absent = {use.id: use for use, *_ in requests if use.name is None and use.id not in states}
            if absent:
                documents: list[dict[str, Any]] = [
                    {"_id": use.id, "limit": use.limit, "permits": [], "next_at": None} for use in absent.values()
                ]
                await self._database.insert_new("limits", documents)
                states = await self._try(requests)
        if states is None:
            return [None] * len(requests)
        return [_answer(request, states.get(request.use.id)) for request in requests]

    async def _try(self, requests: Sequence[PermitRequest]) -> dict[str, LimitState] | None:
        """Returns None if every request was applied, otherwise the documents as they are now."""
        async with self._database.translated():
            updates = [_update(request) for request in requests]
            if await self._database.compare_and_set("limits", updates) == len(requests):
                return None
            ids = list({request.use.id for request in requests})
            found = await self._limits.find({"_id": {"$in": ids}}).to_list(None)
        return {document["_id"]: codec.limit_state(document) for document in found}

    async def release(self, permits: Collection[PermitKey]) -> None:
        if permits:
            updates = [
                Update(
                    {"_id": limit},
                    {"$pull": {"permits": {"run": run, "fence": fence}}, "$currentDate": {"used_at": True}},
                )
                for limit, run, fence in permits
            ]
            async with self._database.translated():
                await self._database.compare_and_set("limits", updates)

    async def get(self, limits: Collection[str]) -> list[LimitState]:
        async with self._database.translated():
            found = await self._limits.find({"_id": {"$in": list(limits)}}).to_list(None)
        return [codec.limit_state(document) for document in found]

    async def held(self, before: datetime) -> list[LimitState]:
        async with self._database.translated():
            found = await self._limits.find({"permits.since": {"$lt": before}}).to_list(None)
        return [codec.limit_state(document) for document in found]

    async def named(self, *, after: str = "", limit: int = 500) -> list[LimitState]:
        query = {"_id": {"$gt": named_id(after), "$lt": AFTER_NAMED}}
        async with self._database.translated():
            found = await self._limits.find(query).sort("_id", 1).limit(limit).to_list(None)
        return [codec.limit_state(document) for document in found]

    async def define(self, limit: NamedLimit, by: str, now: datetime) -> None:
        change = {
            "$set": codec.named_limit_document(limit) | {"next_at": None, "updated_at": now, "updated_by": by},
            "$setOnInsert": {"permits": []},
        }
        async with self._database.translated():
            await self._limits.update_one({"_id": limit.id}, change, upsert=True)

    async def delete(self, name: str) -> bool:
        async with self._database.translated():
            result = await self._limits.delete_one({"_id": named_id(name)})
        return bool(result.deleted_count)

    async def waiting(self, limit: str, most: int) -> list[Waiter]:
        reasons = {"$in": list(reasons_of(limit))}
        open_runs = {"open": True, "waiting.since": {"$exists": True}, "waiting.reason": reasons}
        async with self._database.translated():
            jobs = self._jobs.find({"waiting.reason": reasons}, {"waiting": 1})
            fires = await jobs.sort("waiting.since", 1).limit(most).hint("waits").to_list(None)
            found = self._runs.find(open_runs, {"waiting.since": 1})
            runs = await found.sort("waiting.since", 1).limit(most).hint("waiting").to_list(None)
        waiters = [Waiter(run_id(row["_id"], row["waiting"]["fire"]), row["waiting"]["since"]) for row in fires]
        waiters += [Waiter(row["_id"], codec.stored_instant(row["waiting"]["since"])) for row in runs]
        return sorted(waiters, key=lambda one: one.since)

    async def forget_unused(self, unused_for: timedelta) -> int:
        unused = {"$lt": ["$used_at", {"$subtract": ["$$NOW", round(unused_for.total_seconds() * 1000)]}]}
        query = {"_id": OF_KEYS, "permits": [], "$expr": unused}
        async with self._database.translated():
            result = await self._limits.delete_many(query)
        return int(result.deleted_count)


def _answer(request: PermitRequest, state: LimitState | None) -> PermitRefusal | None:
    return None if state is not None and has_permit(state, request.run, request.fence) else PermitRefusal(state)


def _update(request: PermitRequest) -> Update:
    use, run, fence, node = request
    others = {"$filter": {"input": "$permits", "as": "one", "cond": {"$ne": ["$$one.run", {"$literal": run}]}}}
    named = use.name is not None
    # A named limit has its own, of which either may be null.
    limit = {"$ifNull": ["$limit", float("inf")]} if named else use.limit
    conditions: list[Any] = []
    if named or use.limit is not None:
        conditions.append({"$lt": [{"$size": others}, limit]})
    permit = {"run": {"$literal": run}, "fence": fence, "node": {"$literal": node}, "since": "$$NOW"}
    sets: dict[str, Any] = {"permits": {"$concatArrays": [others, [permit]]}}
    if not named:
        sets["limit"] = use.limit
    if named or use.rate is not None:
        interval, tolerance = _interval(use.rate)
        conditions.append(_in_time(interval, tolerance))
        sets["next_at"] = _after_start(interval, tolerance)
    match = {
        "_id": use.id,
        "permits": {"$not": {"$elemMatch": {"run": run, "fence": {"$gte": fence}}}},
        "$expr": {"$and": conditions},
    }
    return Update(match, [{"$set": sets}])


def _interval(rate: Rate | None) -> tuple[Any, Any]:
    """The milliseconds between two starts, and the tolerance: those of the rate, or of the document."""
    return ("$interval_ms", "$tolerance_ms") if rate is None else (rate.interval_ms, rate.tolerance_ms)


EARLY = {"$subtract": ["$next_at", "$$NOW"]}
"""How many milliseconds the next start is away; null if there was none."""


def _in_time(interval: Any, tolerance: Any) -> dict[str, Any]:
    """`domain.permits.in_time`. A limit without a rate has no next start, and null is not greater than null or a
    number.
    """
    set_back = {"$gt": [EARLY, {"$add": [interval, tolerance]}]}
    return {"$or": [{"$lte": [EARLY, tolerance]}, set_back]}


def _after_start(interval: Any, tolerance: Any) -> dict[str, Any]:
    """`domain.permits.after_start`; null for a limit without a rate."""
    set_back = {"$gt": [EARLY, {"$add": [interval, tolerance]}]}
    begin = {"$cond": [set_back, "$$NOW", {"$max": ["$$NOW", "$next_at"]}]}
    return {"$cond": [{"$eq": [{"$ifNull": [interval, None]}, None]}, None, {"$add": [begin, interval]}]}
