"""Runs, and what belongs to them: late outcomes, large results, and the resolution of dead letters.

Runs are inserted once by `_id` and changed only along TRANSITIONS by compare-and-set. Resolving a dead letter writes
`resolution` and removes the mark `dead`; no compare-and-set reads either.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime
from typing import Any

import orjson

from cronflow.backends import codec
from cronflow.backends.mongo.database import MongoDatabase, Update
from cronflow.backends.mongo.indexes import ANY_PRIORITY
from cronflow.domain.backfill import FireOutline
from cronflow.domain.cluster import NODE_SEPARATOR
from cronflow.domain.permits import Standing
from cronflow.domain.placement import OLDEST_EVERY
from cronflow.domain.placement_rules import PlacedRun
from cronflow.domain.resources import NOTHING
from cronflow.domain.run import DEAD, MAX_ATTEMPTS_KEPT, OPEN, Kind, Resolution, Run, RunState, Settled
from cronflow.domain.split import parent_of
from cronflow.domain.transitions import Change
from cronflow.ports import LargeResult, LateResult, OpenRun, RunningRun, RunQuery

CHARACTERS_AT_ONCE = 8 * 1024 * 1024
EARLIEST = datetime.min.replace(tzinfo=UTC)
TAKEN = [RunState.DISPATCHED.value, RunState.RUNNING.value]
OPEN_RUN_FIELDS = {"job": 1, "state": 1, "created_at": 1, "node": 1, "waiting.since": 1}
FIELD_OF_KIND = {Kind.BACKFILL: "backfill", Kind.AFTER: "after", Kind.PART: "parent"}
HAS_PASSED = {"$lte": ["$check_at", "$$NOW"]}


class MongoRunStore:
    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._runs = database["runs"]

    async def insert(self, runs: Sequence[Run]) -> set[str]:
        return await self._database.insert_new("runs", [codec.run_document(run) for run in runs])

    async def insert_changed(self, runs: Sequence[tuple[Run, Change]], now: datetime) -> set[str]:
        return await self._database.insert_new("runs", [_changed(run, change, now) for run, change in runs])

    async def apply(self, changes: Sequence[Change]) -> set[str]:
        """One bulk write. If it matched fewer documents than changes, one read determines which were applied."""
        if not changes:
            return set()
        async with self._database.translated():
            updates = [_update(change) for change in changes]
            if await self._database.compare_and_set("runs", updates) == len(changes):
                return {change.run for change in changes}
            proofs = {change.proof[0]: 1 for change in changes if change.proof} | {"state": 1, "fence": 1}
            rows = await self._runs.find({"_id": {"$in": [change.run for change in changes]}}, proofs).to_list(None)
        by_id = {row["_id"]: row for row in rows}
        return {change.run for change in changes if _proves(by_id.get(change.run), change)}

    async def overdue(
        self, limit: int, waiting: int | None = None, without: Collection[str] = (), reasons: Collection[str] = ()
    ) -> list[Run]:
        """One command."""
        pipeline = self.overdue_in_turn(limit, limit if waiting is None else waiting, without, reasons)
        async with self._database.translated():
            # All in the first reply.
            found = await self._runs.aggregate(pipeline, batchSize=3 * limit, hint="turn").to_list(None)
        return [codec.run(document) for document in {document["_id"]: document for document in found}.values()]

    def overdue_in_turn(
        self, limit: int, waiting: int, without: Collection[str] = (), reasons: Collection[str] = ()
    ) -> list[dict[str, Any]]:
        """The pipeline; each part walks an index within bounds, and sorts nothing."""
        taken: dict[str, Any] = {"open": True, "state": {"$in": TAKEN}, "priority": ANY_PRIORITY, "$expr": HAS_PASSED}
        queued = taken | {"state": RunState.RETRYING.value}
        if without:
            queued["job"] = {"$nin": list(without)}
        if reasons:
            queued["waiting.reason"] = {"$nin": list(reasons)}

        def part(match: dict[str, Any], order: dict[str, int], count: int) -> dict[str, Any]:
            stages = [{"$match": match}, {"$sort": order}, {"$limit": count}]
            return {"$unionWith": {"coll": self._runs.name, "pipeline": stages}}

        return [
            {"$match": taken},
            {"$sort": {"check_at": 1}},
            {"$limit": limit},
            part(queued, {"priority": -1, "check_at": 1}, waiting),
            part(queued, {"check_at": 1}, max(1, waiting // OLDEST_EVERY)),
        ]

    async def get(self, ids: Collection[str]) -> list[Run]:
        async with self._database.translated():
            found = await self._runs.find({"_id": {"$in": list(ids)}}).to_list(None)
        return [codec.run(document) for document in found]

    async def existing(self, ids: Collection[str]) -> set[str]:
        async with self._database.translated():
            found = await self._runs.find({"_id": {"$in": list(ids)}}, {"_id": 1}).to_list(None)
        return {row["_id"] for row in found}

    async def open_of(self, jobs: Collection[str]) -> dict[str, list[OpenRun]]:
        return await self._open({"job": {"$in": list(jobs)}, "open": True}, "open")

    async def taken_of(self, jobs: Collection[str]) -> dict[str, list[OpenRun]]:
        return await self._open({"job": {"$in": list(jobs)}, "open": True, "state": {"$in": TAKEN}}, "turn")

    async def _open(self, query: dict[str, Any], index: str) -> dict[str, list[OpenRun]]:
        async with self._database.translated():
            rows = await self._runs.find(query, OPEN_RUN_FIELDS).hint(index).to_list(None)
        found: dict[str, list[OpenRun]] = {}
        for row in rows:
            on_node = row["state"] in TAKEN and not row.get("waiting")
            node = row.get("node") if on_node else None
            run = OpenRun(row["_id"], RunState(row["state"]), row["created_at"], node)
            found.setdefault(row["job"], []).append(run)
        return found

    async def standings(self, ids: Collection[str]) -> dict[str, Standing]:
        async with self._database.translated():
            rows = await self._runs.find({"_id": {"$in": list(ids)}}, {"state": 1, "fence": 1}).to_list(None)
        return {row["_id"]: Standing(RunState(row["state"]), row["fence"]) for row in rows}

    async def reserving(self) -> list[PlacedRun]:
        query = {"open": True, "reserved.cpu": {"$exists": True}, "state": {"$in": TAKEN}}
        async with self._database.translated():
            rows = await self._runs.find(query, {"job": 1, "node": 1, "reserved": 1}).hint("reserved").to_list(None)
        return [
            PlacedRun(row["_id"], row["job"], row["node"], codec.amount(row["reserved"]) or NOTHING) for row in rows
        ]

    async def parents(self, limit: int) -> list[Run]:
        query = {"open": True, "split.by": {"$exists": True}}
        async with self._database.translated():
            cursor = self._runs.find(query).sort([("created_at", 1), ("_id", 1)]).limit(limit).hint("parents")
            return [codec.run(document) for document in await cursor.to_list(None)]

    async def part_counts(self, parents: Collection[str]) -> dict[str, dict[RunState, int]]:
        found: dict[str, dict[RunState, int]] = {parent: {} for parent in parents}
        group = {"_id": {"parent": "$parent", "state": "$state"}, "runs": {"$sum": 1}}
        pipeline = [{"$match": {"parent": {"$in": list(found)}}}, {"$group": group}]
        async with self._database.translated():
            rows = await self._runs.aggregate(pipeline, hint="parts").to_list(None) if found else []
        for row in rows:
            found[row["_id"]["parent"]][RunState(row["_id"]["state"])] = row["runs"]
        return found

    async def running(self, started_until: datetime, limit: int) -> list[RunningRun]:
        match = {"open": True, "state": RunState.RUNNING.value, "started_at": {"$lte": started_until}}
        async with self._database.translated():
            fields = {"job": 1, "node": 1, "started_at": 1}
            found = await self._runs.find(match, fields).limit(limit).hint("turn").to_list(None)
        return [RunningRun(one["_id"], one["job"], one["node"], one["started_at"]) for one in found]

    async def find(self, query: RunQuery) -> list[Run]:
        async with self._database.translated():
            pages = [await cursor.to_list(None) for cursor in await self.cursors(query)]
        found = pages[0]
        if len(pages) > 1:
            found = sorted(itertools.chain(*pages), key=_place, reverse=not query.oldest_first)
        return [codec.run(document) for document in found[: query.limit]]

    async def count(self, query: RunQuery, most: int) -> int:
        match = await self._matching(query)
        async with self._database.translated():
            counts = [
                await self._runs.count_documents({**match, **states}, limit=most) for states in _by_index(query.states)
            ]
        return min(sum(map(int, counts)), most)

    async def outlines(
        self, job: str, first: datetime, last: datetime, *, after: tuple[datetime, str] | None = None, limit: int = 1000
    ) -> list[FireOutline]:
        async with self._database.translated():
            found = await self.outlined(job, first, last, after, limit).to_list(None)
        return [codec.outline(document) for document in found]

    def outlined(
        self, job: str, first: datetime, last: datetime, after: tuple[datetime, str] | None, limit: int
    ) -> Any:
        """The cursor of `outlines`, which walks an index backwards."""
        match: dict[str, Any] = {"job": job, "fire_at": {"$gte": first, "$lte": last}}
        if after is not None:
            fire_at, run_id = after
            match["fire_at"]["$gte"] = fire_at
            match["$or"] = [{"fire_at": {"$gt": fire_at}}, {"_id": {"$gt": run_id}}]
        shown = {"fire_at": 1, "state": 1, "covers": 1}
        return self._runs.find(match, shown).hint("history").sort([("fire_at", 1), ("_id", 1)]).limit(limit)

    async def days(self, job: str, since: datetime, most: int) -> dict[date, dict[RunState, int]]:
        day = {"$dateToString": {"date": "$fire_at", "format": "%Y-%m-%d"}}
        pipeline = [
            {"$match": {"job": job, "fire_at": {"$gte": since}}},
            {"$sort": {"fire_at": -1, "_id": -1}},
            {"$limit": most},
            {"$group": {"_id": {"day": day, "state": "$state"}, "runs": {"$sum": 1}}},
        ]
        async with self._database.translated():
            rows = await self._runs.aggregate(pipeline).to_list(None)
        found: dict[date, dict[RunState, int]] = {}
        for row in rows:
            found.setdefault(date.fromisoformat(row["_id"]["day"]), {})[RunState(row["_id"]["state"])] = row["runs"]
        return found

    async def cursors(self, query: RunQuery) -> list[Any]:
        """One cursor, or two to merge, because open and ended runs are in different partial indexes."""
        match = await self._matching(query)
        order = 1 if query.oldest_first else -1
        cursors = []
        for states in _by_index(query.states):
            cursor = self._runs.find({**match, **states}).sort([("fire_at", order), ("_id", order)]).limit(query.limit)
            # Stop the query planner from choosing worse: these partial indexes are small.
            hint = "dead" if query.dead else "open" if "open" in states else None
            if query.ids is not None:
                hint = "_id_"
            elif match.keys() <= {"job", "fire_at", "$or"} and query.jobs is not None and not states:
                hint = "history"
            cursors.append(cursor if hint is None else cursor.hint(hint))
        return cursors

    async def _matching(self, query: RunQuery) -> dict[str, Any]:
        match: dict[str, Any] = {}
        if query.ids is not None:
            match["_id"] = {"$in": list(query.ids)}
        if query.job is not None:
            match["job"] = query.job
        elif query.jobs is not None:
            match["job"] = {"$in": list(query.jobs)}
        match |= _of_kinds(query.kinds)
        if query.backfill is not None:
            match["backfill"] = query.backfill
        if query.chain is not None:
            match["$and"] = [{"$or": [{"chain.id": query.chain}, {"_id": query.chain}]}]
        if query.parent is not None:
            match["parent"] = query.parent
        if query.dead:
            match |= unresolved(match.get("job"))
        if query.node is not None:
            match["node"] = {"$in": await self._starts(query.node)}
        due: dict[str, Any] = match.pop("fire_at", {})
        if query.since is not None:
            due["$gte"] = query.since
        if query.until is not None:
            due["$lt"] = query.until
        if query.before is not None:
            fire_at, run_id = query.before
            beyond, bound = ("$gt", "$gte") if query.oldest_first else ("$lt", "$lte")
            # The index is entered at this bound; `$or` excludes only rows of the same instant.
            due[bound] = max(fire_at, due.get(bound, fire_at))
            match["$or"] = [{"fire_at": {beyond: fire_at}}, {"_id": {beyond: run_id}}]
        return {**match, "fire_at": due} if due else match

    async def _starts(self, node: str) -> list[str]:
        """The node ids of this name. distinct() skips through the index."""
        if NODE_SEPARATOR in node:
            return [node]
        behind = chr(ord(NODE_SEPARATOR) + 1)
        ids = {"$gte": node + NODE_SEPARATOR, "$lt": node + behind}
        return list(await self._runs.distinct("node", {"node": ids}))

    async def keep_late(self, late: Sequence[LateResult]) -> None:
        documents = [
            {
                "_id": result.finish_id,
                "run": result.run,
                "fence": result.fence,
                "node": result.node,
                "at": result.at,
                "outcome": result.attempt_result.outcome.value,
                "result": result.attempt_result.result,
                "result_size": result.attempt_result.result_size,
                "error": result.attempt_result.error,
            }
            for result in late
        ]
        await self._database.insert_new("late", documents)


class MongoLateStore:
    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._late = database["late"]

    async def of(self, run: str) -> list[LateResult]:
        """Through the index on `run`."""
        async with self._database.translated():
            found = await self._late.find({"run": run}).sort([("at", 1), ("_id", 1)]).to_list(None)
        return [codec.late(document) for document in found]


class MongoResultStore:
    """Results are stored as text: BSON has no integers over 64 bits and limits nesting."""

    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._results = database["results"]

    async def keep(self, results: Sequence[LargeResult]) -> None:
        """A few MiB per call, because each call is limited to five seconds."""
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
        async with self._database.translated():
            found = await self._results.find({"_id": {"$in": list(ids)}}, {"text": 1}).to_list(None)
        return {document["_id"]: orjson.loads(document["text"]) for document in found}


class MongoDeadLetters:
    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._runs = database["runs"]

    async def settle(self, runs: Collection[str], resolution: Resolution) -> set[str]:
        match: dict[str, Any] = {"dead": True} if resolution.how is Settled.ACKNOWLEDGED else {"open": None}
        update = {"$set": {"resolution": codec.plain(resolution)}, "$unset": {"dead": ""}}
        written = set()
        for run in runs:
            async with self._database.translated():
                result = await self._runs.update_one({"_id": run, **match}, update)
            if result.matched_count:
                written.add(run)
        return written

    async def count(self, job: str | None = None) -> int:
        async with self._database.translated():
            return int(await self._runs.count_documents(unresolved(job), hint="dead"))

    async def newest(self, limit: int) -> list[str]:
        newest_first = [("fire_at", -1), ("_id", -1)]
        async with self._database.translated():
            cursor = self._runs.find({"dead": True}, {"_id": 1}).sort(newest_first).limit(limit).hint("dead")
            return [document["_id"] for document in await cursor.to_list(None)]


def unresolved(job: str | dict[str, Any] | None) -> dict[str, Any]:
    """Unresolved dead letters, of the jobs that this condition selects. MongoDB compares the job with the keys of the
    index `dead` only if the field before it has a bound too, and otherwise with the document of every dead letter.
    """
    return {"dead": True} if job is None else {"dead": True, "job": job, "fire_at": {"$gte": EARLIEST}}


def _by_index(states: Collection[RunState]) -> list[dict[str, Any]]:
    """The filter on these states for each index that contains some of them."""
    if not states or RunState.SUCCEEDED in states:
        return [{"state": {"$in": [state.value for state in states]}} if states else {}]
    open_states = [state.value for state in states if state in OPEN]
    ended = [state.value for state in states if state not in OPEN]
    branches: list[dict[str, Any]] = []
    if open_states:
        branches.append({"state": {"$in": open_states}, "open": True})
    if ended:
        branches.append({"state": {"$in": ended}, "ended_at": {"$exists": True}})
    return branches


def _of_kinds(kinds: Collection[Kind]) -> dict[str, Any]:
    """The kinds that CronFlow 0.9 does not know are stored as replays with a field of their own."""
    if not kinds:
        return {}
    stored = {Kind.REPLAY if kind in FIELD_OF_KIND else kind for kind in kinds}
    match: dict[str, Any] = {"kind": {"$in": [kind.value for kind in stored]}}
    if Kind.REPLAY in stored:
        match["$nor"] = [{field: {"$exists": True}} for kind, field in FIELD_OF_KIND.items() if kind not in kinds]
        if Kind.REPLAY not in kinds:
            match["$nor"].append({"kind": Kind.REPLAY.value, **dict.fromkeys(FIELD_OF_KIND.values())})
        if not match["$nor"]:
            del match["$nor"]
    return match


def _place(document: dict[str, Any]) -> tuple[datetime, str]:
    return document["fire_at"], document["_id"]


def _changed(run: Run, change: Change, now: datetime) -> dict[str, Any]:
    """The document of a new run as the change leaves it. Like all run documents, it has no None values."""
    document = codec.run_document(run)
    for name, value in change.sets.items():
        if value is None:
            document.pop(name, None)
        else:
            document[name] = codec.plain(value)
    document["state"] = change.target.value
    if change.attempt is not None:
        document["attempts"] = [codec.attempt_document(change.attempt)]
    if change.target in DEAD and parent_of(change.run) is None:
        document["dead"] = document["untold"] = True
    if change.target not in OPEN:
        del document["open"], document["check_at"]
    elif change.check_in is not None:
        document["check_at"] = now + change.check_in
    return document


def _update(change: Change) -> Update:
    match: dict[str, Any] = {"_id": change.run, "state": {"$in": [state.value for state in change.sources]}}
    if change.fence is not None:
        match["fence"] = change.fence
    if change.job_ver is not None:
        match["job_ver"] = change.job_ver
    if change.below_ver is not None:
        match["job_ver"] = {"$lt": change.below_ver}
    if change.unless_cancelled:
        match["cancel_requested"] = {"$ne": True}
    if change.own_start is not None:
        match["start_id"] = {"$in": [None, change.own_start]}
    if change.only_when_due:
        match["$expr"] = HAS_PASSED
    sets = {name: codec.plain(value) for name, value in change.sets.items()}
    sets["state"] = change.target.value
    if change.target in DEAD and parent_of(change.run) is None:
        sets["dead"] = sets["untold"] = True
    attempt = None if change.attempt is None else codec.attempt_document(change.attempt)
    if change.check_in is not None:
        return Update(match, _pipeline(sets, attempt, round(change.check_in.total_seconds() * 1000)))
    return Update(match, _plain_update(sets, attempt, ends=change.target not in OPEN))


def _plain_update(sets: dict[str, Any], attempt: dict[str, Any] | None, *, ends: bool) -> dict[str, Any]:
    """Costs the server a fifth less than a pipeline."""
    update: dict[str, Any] = {"$set": sets}
    if attempt is not None:
        update["$push"] = {"attempts": {"$each": [attempt], "$slice": -MAX_ATTEMPTS_KEPT}}
    if ends:
        update["$unset"] = {"open": "", "check_at": ""}
    return update


def _pipeline(sets: dict[str, Any], attempt: dict[str, Any] | None, check_in_ms: int) -> list[dict[str, Any]]:
    """Only a pipeline can use the server's clock."""
    fields: dict[str, Any] = {name: {"$literal": value} for name, value in sets.items()}
    fields["check_at"] = {"$add": ["$$NOW", check_in_ms]}
    if attempt is not None:
        joined = {"$concatArrays": [{"$ifNull": ["$attempts", []]}, [{"$literal": attempt}]]}
        fields["attempts"] = {"$slice": [joined, -MAX_ATTEMPTS_KEPT]}
    return [{"$set": fields}]


def _proves(row: dict[str, Any] | None, change: Change) -> bool:
    if row is None:
        return False
    if change.proof is None:
        return bool(row["state"] == change.target.value and row["fence"] == change.fence)
    name, value = change.proof
    return bool(row.get(name) == value)
