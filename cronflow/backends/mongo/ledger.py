"""What MongoDB keeps for people: versions of jobs, late outcomes, large results, and what became of dead letters.

The rule it protects: settling a dead letter writes `resolution` and takes the mark `dead` away, and touches nothing
that a compare-and-set of a run looks at.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import orjson

from cronflow.backends import codec
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.domain.run import Resolution, Settled
from cronflow.domain.version import Version
from cronflow.ports import LargeResult, LateResult

CHARACTERS_AT_ONCE = 8 * 1024 * 1024


class MongoVersionStore:
    """The VersionStore port."""

    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._versions = database["versions"]

    async def keep(self, versions: Sequence[Version]) -> None:
        """Insert by `<job>#<ver>`; one that is there already stays."""
        await self._database.insert_new("versions", [codec.version_document(version) for version in versions])

    async def of(self, job: str, limit: int = 1000) -> list[Version]:
        """A range of `_id`: `$` is the character behind `#`, and no name contains either."""
        query = {"_id": {"$gt": f"{job}#", "$lt": f"{job}$"}}
        async with self._database.translated():
            found = await self._versions.find(query).sort("_id", -1).limit(limit).to_list(None)
        return [codec.version(document) for document in reversed(found)]


class MongoLateStore:
    """The LateStore port."""

    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._late = database["late"]

    async def of(self, run: str) -> list[LateResult]:
        """Through the index on `run`."""
        async with self._database.translated():
            found = await self._late.find({"run": run}).sort([("at", 1), ("_id", 1)]).to_list(None)
        return [codec.late(document) for document in found]


class MongoResultStore:
    """The ResultStore port. A result stays text: as a document of its own it could hold no number beyond 64 bits, no
    deep nesting, and nobody would know its size.
    """

    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._results = database["results"]

    async def keep(self, results: Sequence[LargeResult]) -> None:
        """Insert by `_id`, a few MiB a call, because each call has five seconds."""
        documents: list[dict[str, Any]] = []
        waiting = 0
        for result in results:
            documents.append({"_id": result.id, "run": result.run, "text": result.text})
            waiting += len(result.text)
            if waiting >= CHARACTERS_AT_ONCE:
                await self._database.insert_new("results", documents)
                documents, waiting = [], 0
        await self._database.insert_new("results", documents)

    async def get(self, ids: Collection[str]) -> dict[str, object]:
        """By `_id`."""
        async with self._database.translated():
            found = await self._results.find({"_id": {"$in": list(ids)}}, {"text": 1}).to_list(None)
        return {document["_id"]: orjson.loads(document["text"]) for document in found}


class MongoDeadLetters:
    """The DeadLetters port."""

    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._runs = database["runs"]

    async def settle(self, runs: Collection[str], resolution: Resolution) -> set[str]:
        """One update a run, so that each tells whether it matched; whoever settles does so by the handful."""
        match: dict[str, Any] = {"dead": True} if resolution.how is Settled.ACKNOWLEDGED else {"open": None}
        update = {"$set": {"resolution": codec.plain(resolution)}, "$unset": {"dead": ""}}
        written = set()
        async with self._database.translated():
            for run in runs:
                result = await self._runs.update_one({"_id": run, **match}, update)
                if result.matched_count:
                    written.add(run)
        return written

    async def count(self, job: str | None = None) -> int:
        """From the partial index alone: its keys are what is dead."""
        match: dict[str, Any] = {"dead": True} | ({} if job is None else {"job": job})
        async with self._database.translated():
            return int(await self._runs.count_documents(match, hint="dead"))
