"""The store's own upkeep: its clock, its indexes, the TTL of log lines, and the report of the last sweep."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from pymongo.errors import OperationFailure

from cronflow.backends.mongo.database import MongoDatabase
from cronflow.backends.mongo.indexes import INDEXES
from cronflow.domain.sweep import Finding, Flaw, SweepReport
from cronflow.ports import ReplicaSet

UNAUTHORIZED = 13
"""The code that MongoDB gives to what a user may not do."""


class MongoStoreAdmin:
    """The Upkeep port."""

    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._control = database["control"]

    async def time(self) -> datetime:
        """The primary's clock, which `$$NOW` reads."""
        async with self._database.translated():
            hello = await self._control.database.command("hello", codec_options=self._control.codec_options)
        at: datetime = hello["localTime"]
        return at

    async def replica_set(self) -> ReplicaSet:
        """From hello and buildInfo, which everybody may send, and replSetGetStatus, which takes `clusterMonitor`."""
        admin = self._control.database.client.admin
        async with self._database.translated():
            hello, build = await admin.command("hello"), await admin.command("buildInfo")
            try:
                status = await admin.command("replSetGetStatus")
            except OperationFailure as error:
                if error.code != UNAUTHORIZED:
                    raise
                status = None
        # Those that may become primary, and those that may not; arbiters keep nothing.
        members = len(hello.get("hosts", ())) + len(hello.get("passives", ()))
        away = None if status is None else tuple(one["name"] for one in status["members"] if one["health"] != 1)
        return ReplicaSet(build["version"], hello["setName"], members, away)

    async def missing_indexes(self) -> list[str]:
        """By name."""
        missing = []
        async with self._database.translated():
            for collection, indexes in INDEXES.items():
                present = await self._database[collection].index_information()
                names = [index.document["name"] for index in indexes]
                missing += [f"{collection}.{name}" for name in names if name not in present]
        return missing

    async def make_indexes(self) -> None:
        """Those that exist stay."""
        async with self._database.translated():
            for collection, indexes in INDEXES.items():
                await self._database[collection].create_indexes(indexes)

    async def keep_lines(self, retention: timedelta) -> None:
        """A TTL index on the age of each."""
        for collection in ("logs", "events"):
            await self._database.expire(collection, "at", retention)

    async def write_report(self, report: SweepReport) -> None:
        """One document."""
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
        """Read it."""
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
