"""Log lines of runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from cronflow.backends import codec
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.domain.run import GRAVE
from cronflow.ports import Found, LineQuery, LogLine

NEWEST_FIRST = [("at", -1), ("_id", -1)]


class MongoLogStore:
    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._logs = database["logs"]

    async def append(self, lines: Sequence[LogLine]) -> None:
        await self._database.insert_new("logs", [codec.line_document(line) for line in lines])

    async def remove(self, run: str, fence: int, first: int, end: int) -> None:
        async with self._database.translated():
            await self._logs.delete_many({"run": run, "fence": fence, "n": {"$gte": first, "$lt": end}})

    async def read(self, run: str, *, after: tuple[int, int] = (0, -1), limit: int = 1000) -> list[LogLine]:
        fence, n = after
        query = {"run": run, "$or": [{"fence": {"$gt": fence}}, {"fence": fence, "n": {"$gt": n}}]}
        async with self._database.translated():
            found = await self._logs.find(query).sort([("fence", 1), ("n", 1)]).limit(limit).to_list(None)
        return [codec.line(document) for document in found]

    async def tail(self, run: str, limit: int) -> list[LogLine]:
        async with self._database.translated():
            found = await self._logs.find({"run": run}).sort([("fence", -1), ("n", -1)]).limit(limit).to_list(None)
        return [codec.line(document) for document in reversed(found)]

    async def find(self, query: LineQuery) -> Found:
        """Two reads: the end of the scan, from the index alone; then the matches up to there."""
        index, match = _range(query)
        if index == "grave":
            match["grave"] = True
        async with self._database.translated():
            bound = await (
                self._logs.find(match, {"at": 1})
                .sort(NEWEST_FIRST)
                .hint(index)
                .skip(query.look_at - 1)
                .limit(1)
                .to_list(None)
            )
            if bound:
                match = {"$and": [match, {"$or": [{"at": {"$gt": bound[0]["at"]}}, _from(bound[0])]}]}
            rows = (
                await self._logs.find({"$and": [match, _wanted(query)]})
                .sort(NEWEST_FIRST)
                .hint(index)
                .limit(query.limit)
                .to_list(None)
            )
        last = rows[-1] if len(rows) == query.limit else bound[0] if bound else None
        return Found([codec.line(row) for row in rows], None if last is None else (last["at"], last["_id"]))


def _range(query: LineQuery) -> tuple[str, dict[str, Any]]:
    """The most selective index, and the range to scan in it."""
    match: dict[str, Any] = {}
    if query.since is not None:
        match["at"] = {"$gte": query.since}
    if query.until is not None:
        match["at"] = {**match.get("at", {}), "$lt": query.until}
    if query.before is not None:
        at, name = query.before
        match["$or"] = [{"at": {"$lt": at}}, {"at": at, "_id": {"$lt": name}}]
        match["at"] = {**match.get("at", {}), "$lte": at}
    if query.job is not None:
        return "of_job", match | {"job": query.job}
    return ("grave" if query.levels and GRAVE.issuperset(query.levels) else "newest"), match


def _from(bound: Mapping[str, datetime | str]) -> dict[str, Any]:
    return {"at": bound["at"], "_id": {"$gte": bound["_id"]}}


def _wanted(query: LineQuery) -> dict[str, Any]:
    match: dict[str, Any] = {}
    if query.text:
        match["text"] = _contains(query.text)
    if query.levels:
        match["level"] = {"$in": sorted(query.levels)}
    if query.node is not None:
        match["node"] = query.node
    return match


def _contains(text: str) -> dict[str, str]:
    # BSON ends a pattern at a NUL character.
    return {"$regex": re.escape(text).replace("\0", r"\x00"), "$options": "i"}
