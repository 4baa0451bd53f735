"""Lines that runs wrote."""

from __future__ import annotations

from collections.abc import Sequence

from cronflow.backends import codec
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.ports import LogLine


class MongoLogStore:
    """The LogStore port."""

    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._logs = database["logs"]

    async def append(self, lines: Sequence[LogLine]) -> None:
        """One insertMany; a line that is there already stays."""
        await self._database.insert_new("logs", [codec.line_document(line) for line in lines])

    async def read(self, run: str, *, after: tuple[int, int] = (0, -1), limit: int = 1000) -> list[LogLine]:
        """Through the index on (run, fence, n)."""
        fence, n = after
        query = {"run": run, "$or": [{"fence": {"$gt": fence}}, {"fence": fence, "n": {"$gt": n}}]}
        async with self._database.translated():
            found = await self._logs.find(query).sort([("fence", 1), ("n", 1)]).limit(limit).to_list(None)
        return [codec.line(document) for document in found]
