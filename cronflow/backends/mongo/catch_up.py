"""The recovery plan, a control document, and the jobs that are held for it. Its index has the held jobs alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fnmatch import translate
from typing import Any

from pymongo.errors import DuplicateKeyError

from cronflow.backends.mongo.bound_jobs import records
from cronflow.backends.mongo.database import MongoDatabase, Update
from cronflow.domain.backfill import parse_rate
from cronflow.domain.catch_up import HELD, CatchUpPlan, CatchUpState, HeldJob, HeldSummary
from cronflow.domain.job import JobRecord
from cronflow.ports.catch_up import HeldFire

RECOVERY = "recovery"
INDEX = "held"
ALL_HELD = {"waiting.reason": HELD}
OTHERS = tuple(
    name
    for name in CatchUpPlan.__dataclass_fields__
    if name not in {"state", "rate", "by_priority", "top", "approved", "skipped"}
)


class MongoCatchUpStore:
    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._control, self._jobs = database["control"], database["jobs"]

    async def plan(self) -> CatchUpPlan | None:
        async with self._database.translated():
            document = await self._control.find_one({"_id": RECOVERY})
        return None if document is None else _plan(document)

    async def write(self, plan: CatchUpPlan) -> bool:
        document = _document(plan) | {"rev": plan.rev + 1}
        async with self._database.translated():
            if plan.rev:
                result = await self._control.replace_one({"_id": RECOVERY, "rev": plan.rev}, document)
                return bool(result.matched_count)
            try:
                await self._control.insert_one({"_id": RECOVERY, **document})
            except DuplicateKeyError:
                return False
        return True

    async def hold(self, fires: Mapping[str, HeldFire]) -> None:
        updates = [
            Update(
                {"_id": name, "rev": one.rev},
                [
                    {
                        "$set": {
                            "due_at": one.due_at,
                            "priority": one.priority,
                            "missed": one.runs,
                            "waiting": {
                                "fire": "$next_fire",
                                "since": one.since,
                                "reason": HELD,
                                "blocked_by": None,
                                "nodes": {"$literal": []},
                                "more": 0,
                            },
                        }
                    }
                ],
            )
            for name, one in fires.items()
        ]
        if updates:
            async with self._database.translated():
                await self._database.compare_and_set("jobs", updates)

    async def held(self, limit: int, *, among: Collection[str] = (), but: Collection[str] = ()) -> list[JobRecord]:
        async with self._database.translated():
            cursor = self._jobs.find(ALL_HELD | _names(among, but), batch_size=limit + 1)
            found = await cursor.sort([("priority", -1), ("next_fire", 1)]).limit(limit).hint(INDEX).to_list(None)
        return await records(self._database, found)

    async def summary(self, top: int, *, among: Collection[str] = ()) -> HeldSummary:
        async with self._database.translated():
            totals = await self._jobs.aggregate(self.totals(among), hint=INDEX).to_list(None)
            largest = (
                await self._jobs.aggregate(self.largest(top, among), hint=INDEX).to_list(None) if totals and top else []
            )
        return HeldSummary(
            jobs=sum(row["jobs"] for row in totals),
            runs=sum(row["runs"] for row in totals),
            oldest=min((row["oldest"] for row in totals), default=None),
            by_priority={row["_id"]: row["runs"] for row in totals},
            top=tuple(HeldJob(row["_id"], row["missed"], row["next_fire"]) for row in largest),
        )

    def totals(self, among: Collection[str] = ()) -> list[dict[str, Any]]:
        """The pipeline; it reads the index alone."""
        return [
            {"$match": ALL_HELD | _names(among, ())},
            {"$project": {"_id": 0, "priority": 1, "missed": 1, "next_fire": 1}},
            {
                "$group": {
                    "_id": "$priority",
                    "jobs": {"$sum": 1},
                    "runs": {"$sum": "$missed"},
                    "oldest": {"$min": "$next_fire"},
                }
            },
        ]

    def largest(self, top: int, among: Collection[str] = ()) -> list[dict[str, Any]]:
        """The pipeline; it reads the index alone."""
        return [
            {"$match": ALL_HELD | _names(among, ())},
            {"$project": {"_id": 1, "missed": 1, "next_fire": 1}},
            {"$sort": {"missed": -1, "next_fire": 1, "_id": 1}},
            {"$limit": top},
        ]


def _names(among: Collection[str], but: Collection[str]) -> dict[str, Any]:
    conditions: list[dict[str, Any]] = [{"_id": {"$not": {"$regex": translate(pattern)}}} for pattern in but]
    if among:
        conditions.append({"$or": [{"_id": {"$regex": translate(pattern)}} for pattern in among]})
    return {"$and": conditions} if conditions else {}


def _document(plan: CatchUpPlan) -> dict[str, Any]:
    return {name: getattr(plan, name) for name in OTHERS} | {
        "state": plan.state.value,
        "rate": None if plan.rate is None else str(plan.rate),
        "by_priority": [list(pair) for pair in plan.by_priority],
        "top": [list(one) for one in plan.top],
        "approved": list(plan.approved),
        "skipped": list(plan.skipped),
    }


def _plan(document: Mapping[str, Any]) -> CatchUpPlan:
    rate = document["rate"]
    return CatchUpPlan(
        state=CatchUpState(document["state"]),
        rate=None if rate is None else parse_rate(rate),
        by_priority=tuple((priority, runs) for priority, runs in document["by_priority"]),
        top=tuple(HeldJob(*one) for one in document["top"]),
        approved=tuple(document["approved"]),
        skipped=tuple(document["skipped"]),
        **{name: document[name] for name in OTHERS},
    )
