"""Calendars: the current content by name, and all revisions.

A change is decided by the insert of the next revision, whose id is unique. The document of the calendar follows it.
A writer that finds the next revision taken copies it to that document, in case its author has died in between, and has
lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from pymongo.errors import DuplicateKeyError

from cronflow.backends import codec
from cronflow.backends.mongo.database import Document, MongoDatabase
from cronflow.domain.schedule.calendar import Calendar
from cronflow.ports import CalendarRecord

EXISTS = {"definition": {"$type": "string"}}
"""Of a deleted calendar the revision remains."""
INDEX = "calendars"
OF_A_QUERY = 100


class MongoCalendarStore:
    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._calendars, self._revisions = database["calendars"], database["calendar_revisions"]
        self._jobs = database["jobs"]

    async def get(self, names: Collection[str]) -> list[CalendarRecord]:
        async with self._database.translated():
            found = await self._calendars.find({"_id": {"$in": list(names)}} | EXISTS).to_list(None)
        return [_record(document) for document in found]

    async def find(self, *, after: str = "", limit: int = 500) -> list[CalendarRecord]:
        query = {"_id": {"$gt": after}} | EXISTS
        async with self._database.translated():
            found = await self._calendars.find(query).sort("_id", 1).limit(limit).to_list(None)
        return [_record(document) for document in found]

    async def put(self, calendar: Calendar, rev: int, by: str, now: datetime) -> Calendar | None:
        written = codec.calendar_text(calendar)
        number = await self._advance(calendar.name, rev, {"definition": written, "at": now, "by": by})
        return None if number is None else codec.calendar(written, number)

    async def delete(self, name: str, rev: int) -> bool:
        return rev > 0 and await self._advance(name, rev, {"definition": None, "at": None, "by": ""}) is not None

    async def _advance(self, name: str, rev: int, content: dict[str, Any]) -> int | None:
        """Write the next revision. Returns its number; None if the present one is not `rev`."""
        async with self._database.translated():
            present = await self._calendars.find_one({"_id": name}, {"rev": 1, "definition": 1})
            number = 0 if present is None else int(present["rev"])
            exists = present is not None and present["definition"] is not None
            if rev != (number if exists else 0):
                return None
            following = {"_id": f"{name}@{number + 1}", "rev": number + 1, **content}
            won = True
            try:
                await self._revisions.insert_one(following)
            except DuplicateKeyError:
                won = False
                following = await self._revisions.find_one({"_id": following["_id"]})
            try:
                await self._calendars.update_one(
                    {"_id": name, "rev": number}, {"$set": {**following, "_id": name}}, upsert=number == 0
                )
            except DuplicateKeyError:
                # Another writer has copied it.
                pass
        return number + 1 if won else None

    async def users(self, name: str, *, after: str = "", limit: int = 500) -> list[str]:
        query = {"_id": {"$gt": after}, "calendars": {"$elemMatch": _pins_of(name)}, "deleted_at": None}
        async with self._database.translated():
            found = await self._jobs.find(query, {"_id": 1}).hint(INDEX).sort("_id", 1).limit(limit).to_list(None)
        return [document["_id"] for document in found]

    async def user_counts(self, names: Collection[str]) -> Mapping[str, int]:
        async def count(name: str) -> int:
            query = {"calendars": {"$elemMatch": _pins_of(name)}, "deleted_at": None}
            return int(await self._jobs.count_documents(query, hint=INDEX))

        async with self._database.translated():
            counts = await asyncio.gather(*map(count, names))
        return dict(zip(names, counts, strict=True))

    async def outdated(self, limit: int) -> list[str]:
        async with self._database.translated():
            present = await self._calendars.find(EXISTS, {"rev": 1}).sort("_id", 1).to_list(None)
        names: set[str] = set()
        for first in range(0, len(present), OF_A_QUERY):
            older = [
                {"calendars": {"$elemMatch": _pins_of(one["_id"]) | {"$ne": f"{one['_id']}@{one['rev']}"}}}
                for one in present[first : first + OF_A_QUERY]
            ]
            query = {"$or": older, "deleted_at": None}
            async with self._database.translated():
                found = await self._jobs.find(query, {"_id": 1}).limit(limit).to_list(None)
            names |= {document["_id"] for document in found}
        return sorted(names)[:limit]


def _pins_of(name: str) -> dict[str, str]:
    """The range of the pins of a calendar: A is the character after @, and names contain neither."""
    return {"$gte": f"{name}@", "$lt": f"{name}A"}


def _record(document: Document) -> CalendarRecord:
    return CalendarRecord(
        calendar=codec.calendar(document["definition"], document["rev"]),
        updated_at=document["at"],
        updated_by=document["by"],
    )
