"""The health of jobs: bounded queries over indexes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from cronflow.backends.mongo.bound_jobs import records
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.domain.catch_up import HELD
from cronflow.domain.job import JobRecord
from cronflow.domain.job_health import EndedRun
from cronflow.domain.run import DEAD, RunState
from cronflow.ports import NeverRan

MOST_FAILURES = 5000
"""The failed runs that are read for the jobs that fail."""
COUNTING = [state.value for state in (*DEAD, RunState.SUCCEEDED)]
FOR_A_NODE = {"$gte": "no ", "$lt": "no!"}
"""The reasons of such waits begin with `no`, as `placement.NoNode.summary` gives them."""


class MongoJobHealthStore:
    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._jobs, self._runs = database["jobs"], database["runs"]

    async def waiting_for_node(self, since: datetime, limit: int) -> list[JobRecord]:
        match = {"waiting.reason": FOR_A_NODE, "waiting.since": {"$lte": since}, "active": True}
        return await self._waiting(match, limit)

    async def held_back(self, limit: int) -> list[JobRecord]:
        return await self._waiting({"waiting.reason": HELD, "active": True}, limit)

    async def _waiting(self, match: dict[str, Any], limit: int) -> list[JobRecord]:
        async with self._database.translated():
            found = await self._jobs.find(match).limit(limit).hint("waits").to_list(None)
        return await records(self._database, found)

    async def failing(self, since: datetime, limit: int, latest: int) -> Mapping[str, Sequence[EndedRun]]:
        """The newest failures come from the keys of the index `unusual`; then one lookup per job reads its history."""
        states = [state.value for state in DEAD]
        failures: list[dict[str, Any]] = [
            {"$match": {"ended_at": {"$exists": True}, "state": {"$in": states}, "fire_at": {"$gte": since}}},
            {"$sort": {"fire_at": -1, "_id": -1}},
            {"$limit": MOST_FAILURES},
            {"$group": {"_id": "$job", "at": {"$max": "$fire_at"}}},
            {"$sort": {"at": -1}},
            {"$limit": limit},
        ]
        history = [
            {"$match": {"state": {"$in": COUNTING}, "parent": {"$exists": False}}},
            {"$sort": {"fire_at": -1, "_id": -1}},
            {"$limit": latest},
            {"$project": {"state": 1, "fire_at": 1, "ended_at": 1, "error": 1}},
        ]
        async with self._database.translated():
            found = await self._runs.aggregate(failures, hint="unusual").to_list(None)
            pipeline: list[dict[str, Any]] = [
                {"$match": {"_id": {"$in": [one["_id"] for one in found]}, "deleted_at": None}},
                {"$project": {"_id": 1}},
                {
                    "$lookup": {
                        "from": self._runs.name,
                        "localField": "_id",
                        "foreignField": "job",
                        "pipeline": history,
                        "as": "latest",
                    }
                },
            ]
            jobs = await self._jobs.aggregate(pipeline).to_list(None) if found else []
        return {job["_id"]: [_ended(run) for run in job["latest"]] for job in jobs}

    async def paused(self, limit: int) -> list[JobRecord]:
        match = {"active": False, "paused": True, "deleted_at": None}
        async with self._database.translated():
            found = await self._jobs.find(match).limit(limit).hint("standing").to_list(None)
        return await records(self._database, found)

    async def never_ran(self, limit: int) -> list[NeverRan]:
        """A job that was planned has a `pend`; one that only ever ran manually is found among the runs."""
        pipeline: list[dict[str, Any]] = [
            {"$match": {"pend": None, "deleted_at": None}},
            {"$limit": limit},
            {"$project": {"created_at": 1}},
            {
                "$lookup": {
                    "from": self._runs.name,
                    "localField": "_id",
                    "foreignField": "job",
                    "pipeline": [{"$limit": 1}, {"$project": {"_id": 1}}],
                    "as": "runs",
                }
            },
            {"$match": {"runs": []}},
        ]
        async with self._database.translated():
            found = await self._jobs.aggregate(pipeline, hint="unplanned").to_list(None)
        return [NeverRan(one["_id"], one["created_at"]) for one in found]


def _ended(document: Mapping[str, Any]) -> EndedRun:
    return EndedRun(
        document["_id"],
        RunState(document["state"]),
        document["fire_at"],
        document.get("ended_at"),
        document.get("error"),
    )
