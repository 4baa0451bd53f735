"""Bulk reads and deletions for the sweep and the clean-up, in pages of bounded size; indexes, retention and the sweep's
report.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from pymongo.errors import OperationFailure

from cronflow.backends.mongo.bound_jobs import records
from cronflow.backends.mongo.database import UNAUTHORIZED, MongoDatabase
from cronflow.backends.mongo.indexes import INDEXES, UNUSED
from cronflow.domain.run import ENDED, OPEN, RunState
from cronflow.domain.sweep import Finding, Flaw, JobRow, RunRow, SweepReport
from cronflow.ports import JobReach, ReplicaSet


class MongoStoreAdmin:
    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._control = database["control"]

    async def time(self) -> datetime:
        async with self._database.translated():
            hello = await self._control.database.command("hello", codec_options=self._control.codec_options)
        at: datetime = hello["localTime"]
        return at

    async def replica_set(self) -> ReplicaSet:
        """hello and buildInfo need no role; replSetGetStatus needs `clusterMonitor`."""
        admin = self._control.database.client.admin
        async with self._database.translated():
            hello, build = await admin.command("hello"), await admin.command("buildInfo")
            try:
                status = await admin.command("replSetGetStatus")
            except OperationFailure as error:
                if error.code != UNAUTHORIZED:
                    raise
                status = None
        # Members that can become primary, and those that cannot. Arbiters have no data.
        members = len(hello.get("hosts", ())) + len(hello.get("passives", ()))
        away = None if status is None else tuple(one["name"] for one in status["members"] if one["health"] != 1)
        return ReplicaSet(build["version"], hello["setName"], members, away)

    async def missing_indexes(self) -> list[str]:
        missing = []
        for collection, indexes in INDEXES.items():
            async with self._database.translated():
                present = await self._database[collection].index_information()
            names = [index.document["name"] for index in indexes]
            missing += [f"{collection}.{name}" for name in names if name not in present]
        return missing

    async def make_indexes(self) -> None:
        await self._database.make_indexes()

    async def drop_unused_indexes(self) -> None:
        for collection, names in UNUSED.items():
            async with self._database.translated():
                present = await self._database[collection].index_information()
                for name in names & present.keys():
                    await self._database[collection].drop_index(name)

    async def keep_lines(self, retention: timedelta) -> None:
        for collection in ("logs", "events"):
            await self._database.expire(collection, "at", retention)

    async def write_report(self, report: SweepReport) -> None:
        document = {
            "at": report.at,
            "run": report.run,
            "took_ms": report.took_ms,
            "checked": dict(report.checked),
            "found": report.found,
            "findings": [
                {"kind": one.kind.value, "where": one.where, "what": one.what, "repaired": one.repaired}
                for one in report.findings
            ],
        }
        async with self._database.translated():
            await self._control.replace_one({"_id": "sweep"}, document, upsert=True)

    async def report(self) -> SweepReport | None:
        async with self._database.translated():
            document: Mapping[str, Any] | None = await self._control.find_one({"_id": "sweep"})
        if document is None:
            return None
        return SweepReport(
            at=document["at"],
            run=document["run"],
            took_ms=document["took_ms"],
            checked=document["checked"],
            found=document["found"],
            findings=[Finding(**{**one, "kind": Flaw(one["kind"])}) for one in document["findings"]],
        )


ROW = {"job": 1, "state": 1, "fire_at": 1, "open": 1, "check_at": 1, "ended_at": 1}
SCHEDULED = r"^[^@]+@\d{8}T\d{6}Z$"
OPEN_STATES = [state.value for state in OPEN]
ENDED_STATES = [state.value for state in ENDED]


class MongoArchive:
    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._jobs, self._runs = database["jobs"], database["runs"]
        self._late, self._results = database["late"], database["results"]

    async def runs(self, *, after: str = "", limit: int = 1000) -> list[RunRow]:
        async with self._database.translated():
            found = await self._runs.find({"_id": {"$gt": after}}, ROW).sort("_id", 1).limit(limit).to_list(None)
        return [_row(document) for document in found]

    async def rows(self, ids: Collection[str]) -> list[RunRow]:
        async with self._database.translated():
            found = await self._runs.find({"_id": {"$in": list(ids)}}, ROW).to_list(None)
        return [_row(document) for document in found]

    async def jobs(self, *, after: str = "", limit: int = 500, deleted_before: datetime | None = None) -> list[JobRow]:
        match: dict[str, Any] = {"_id": {"$gt": after}}
        if deleted_before is not None:
            match["deleted_at"] = {"$type": "date", "$lt": deleted_before}
        async with self._database.translated():
            found = await self._jobs.find(match).sort("_id", 1).limit(limit).to_list(None)
        read = await records(self._database, found)
        return [JobRow(record, bool(document.get("active"))) for record, document in zip(read, found, strict=True)]

    async def due_before(
        self, before: datetime, *, after: tuple[datetime, str] | None = None, limit: int = 1000
    ) -> list[RunRow]:
        async with self._database.translated():
            found = await self.cursor_of_due(before, after, limit).to_list(None)
        return [_row(document) for document in found]

    def cursor_of_due(self, before: datetime, after: tuple[datetime, str] | None, limit: int) -> Any:
        """Reads an index backwards, and at most `limit` runs that match."""
        match: dict[str, Any] = {"fire_at": {"$lt": before}}
        if after is not None:
            fire_at, run = after
            match["fire_at"]["$gte"] = fire_at
            match["$or"] = [{"fire_at": {"$gt": fire_at}}, {"_id": {"$gt": run}}]
        return self._runs.find(match, ROW).sort([("fire_at", 1), ("_id", 1)]).limit(limit).hint("newest")

    async def reach(self, jobs: Collection[str], before: datetime) -> dict[str, JobReach]:
        """One command, which reads the history of each job backwards. No run is created before its fire, so one or two
        rows decide.
        """
        newest_passed = [
            {"$match": {"fire_at": {"$lt": before}, "_id": {"$regex": SCHEDULED}, "created_at": {"$lt": before}}},
            {"$sort": {"fire_at": -1, "_id": -1}},
            {"$limit": 1},
            {"$project": {"fire_at": 1}},
        ]
        pipeline: list[dict[str, Any]] = [
            {"$match": {"_id": {"$in": list(jobs)}}},
            {"$project": {"next_fire": 1, "pend.fire": 1, "deleted_at": 1, "updated_at": 1}},
            {
                "$lookup": {
                    "from": self._runs.name,
                    "localField": "_id",
                    "foreignField": "job",
                    "pipeline": newest_passed,
                    "as": "passed",
                }
            },
        ]
        async with self._database.translated():
            found = await self._jobs.aggregate(pipeline).to_list(None)
        return {document["_id"]: _reach(document, before) for document in found}

    async def delete_runs(self, ids: Collection[str], ended_before: datetime) -> int:
        """Deletes late and large results first. After an interruption, the runs still exist and are found again."""
        match = {"_id": {"$in": list(ids)}, "state": {"$in": ENDED_STATES}, "ended_at": {"$lt": ended_before}}
        async with self._database.translated():
            going = [row["_id"] for row in await self._runs.find(match, {"_id": 1}).to_list(None)]
            if not going:
                return 0
            await self._late.delete_many({"run": {"$in": going}})
        async with self._database.translated():
            await self._results.delete_many({"run": {"$in": going}})
            result = await self._runs.delete_many({**match, "_id": {"$in": going}})
        return int(result.deleted_count)

    async def delete_job(self, name: str, rev: int) -> bool:
        async with self._database.translated():
            if await self._runs.find_one({"job": name}, {"_id": 1}) is not None:
                return False
            result = await self._jobs.delete_one({"_id": name, "rev": rev, "deleted_at": {"$type": "date"}})
        return bool(result.deleted_count)

    async def repair_marks(self, ids: Collection[str]) -> None:
        """Two updates, each conditional on the state, so that neither races with the end of a run."""
        ended = {"_id": {"$in": list(ids)}, "state": {"$in": ENDED_STATES}}
        still_open = {**ended, "state": {"$in": OPEN_STATES}}
        marks = {"open": True, "check_at": {"$ifNull": ["$check_at", "$$NOW"]}}
        async with self._database.translated():
            await self._runs.update_many(ended, {"$unset": {"open": "", "check_at": ""}})
            await self._runs.update_many(still_open, [{"$set": marks}])


def _reach(document: Mapping[str, Any], before: datetime) -> JobReach:
    pending_run = document.get("pend")
    return JobReach(
        cursor=document["next_fire"],
        pending_fire=None if pending_run is None else pending_run["fire"],
        passed=next((run["fire_at"] for run in document["passed"]), None),
        abandoned=document["deleted_at"] is not None and pending_run is None and document["updated_at"] < before,
    )


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
