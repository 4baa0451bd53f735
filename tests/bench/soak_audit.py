"""The audit of a soak: MongoDB counts whether every instant of every job has exactly one run, and one success.

The nodes' own bookkeeping is not used: the expected instants come from the load, and the runs are counted by
aggregations, so that a million runs are never loaded.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from tests.bench.soak_load import DIGITS, PREFIX, Load

EXAMPLES = 5
INTENT_POLL_S = 0.25
INTENTS_LAST = timedelta(seconds=10)
OF_LOAD = {"job": {"$gte": PREFIX, "$lt": PREFIX[:-1] + chr(ord(PREFIX[-1]) + 1)}}
"""The runs of the load; there are others, of system jobs."""

Database = AsyncDatabase[dict[str, Any]]
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Audit:
    """Counts of instants: due, without a run, with two runs, and with a run that did not succeed.
    Counts of runs: at instants at which nothing was due, dispatched more than once, and over several instants. `late`
    counts results that came too late to be accepted, and `intents` plan intents that were left behind. `short` has some
    of the instants at which runs are missing, with the number of runs there and of those due.
    """

    due: int
    missing: int
    doubled: int
    unsuccessful: int
    stray: int
    redispatched: int
    merged: int
    late: int
    intents: int
    short: Mapping[datetime, tuple[int, int]]

    @property
    def violations(self) -> int:
        """Instants that are missing or doubled."""
        return self.missing + self.doubled + self.stray + self.merged

    @property
    def holds(self) -> bool:
        """Whether every instant has exactly one run, which succeeded."""
        return not (self.violations or self.unsuccessful)


def _within(load: Load, start: datetime) -> Document:
    return OF_LOAD | {"fire_at": {"$gte": start, "$lt": start + timedelta(seconds=load.seconds)}}


async def all_ended(database: Database, load: Load, start: datetime) -> bool:
    """Whether all runs have ended. The queries cost little, however many runs there are, and the audit trusts none."""
    end = start + timedelta(seconds=load.seconds)
    if await database["jobs"].find_one({"active": True, "due_at": {"$lt": end}}, {"_id": 1}):
        return False
    # A run may have no document until the intent of its batch is removed.
    now = (await database.command("hello"))["localTime"]
    while await database["plans"].find_one({"at": {"$lte": now}}, {"_id": 1}):
        await asyncio.sleep(INTENT_POLL_S)
        if (await database.command("hello"))["localTime"] - now > INTENTS_LAST:
            return False
    return await database["runs"].find_one({"open": True, "fire_at": {"$lt": end}}, {"_id": 1}) is None


async def audit(database: Database, load: Load, start: datetime) -> Audit:
    """Call this when all nodes have stopped."""
    cursor = await database["runs"].aggregate(_by_instant(load, start), allowDiskUse=True)
    found: Mapping[str, int] = next(iter(await cursor.to_list()), {})
    before = await database["runs"].count_documents(OF_LOAD | {"fire_at": {"$lt": start}})
    instants = found.get("instants", 0)
    return Audit(
        due=load.instants,
        missing=load.instants - instants,
        doubled=found.get("doubled", 0),
        unsuccessful=found.get("unsuccessful", 0),
        stray=found.get("stray", 0) + before,
        redispatched=found.get("redispatched", 0),
        merged=found.get("merged", 0),
        late=await database["late"].count_documents({}),
        intents=await database["plans"].count_documents({}),
        short=await _short(database, load, start) if instants < load.instants else {},
    )


def _by_instant(load: Load, start: datetime) -> list[Document]:
    """Runs by job and instant, then the totals."""
    customer = {"$toInt": {"$substrBytes": ["$job", len(PREFIX), DIGITS]}}
    since_first = {
        "$subtract": [{"$subtract": ["$fire_at", start]}, {"$multiply": [1000, {"$mod": [customer, load.spread_s]}]}]
    }
    grid = 1000 * (load.seconds if load.once else load.step_s)

    def count(condition: Document) -> Document:
        return {"$sum": {"$cond": [condition, 1, 0]}}

    return [
        {"$match": _within(load, start)},
        {"$set": {"since_first": since_first}},
        {
            "$group": {
                "_id": {"job": "$job", "at": "$fire_at"},
                "due": {"$first": {"$eq": [{"$mod": ["$since_first", grid]}, 0]}},
                "runs": {"$sum": 1},
                "succeeded": count({"$eq": ["$state", "succeeded"]}),
                "redispatched": count({"$gt": [{"$add": ["$attempt", {"$ifNull": ["$redispatches", 0]}]}, 1]}),
                "merged": count({"$gt": ["$covers", None]}),
            }
        },
        {
            "$group": {
                "_id": None,
                "instants": count({"$eq": ["$due", True]}),
                "stray": count({"$eq": ["$due", False]}),
                "doubled": count({"$gt": ["$runs", 1]}),
                "unsuccessful": count({"$lt": ["$succeeded", 1]}),
                "redispatched": {"$sum": "$redispatched"},
                "merged": {"$sum": "$merged"},
            }
        },
    ]


async def _short(database: Database, load: Load, start: datetime) -> dict[datetime, tuple[int, int]]:
    """Some of the instants at which runs are missing."""
    pipeline = [{"$match": _within(load, start)}, {"$group": {"_id": "$fire_at", "runs": {"$sum": 1}}}]
    runs = {row["_id"]: row["runs"] for row in await (await database["runs"].aggregate(pipeline)).to_list()}
    found: dict[datetime, tuple[int, int]] = {}
    for second in range(load.seconds):
        at = start + timedelta(seconds=second)
        if runs.get(at, 0) < load.due_at(second) and len(found) < EXAMPLES:
            found[at] = (runs.get(at, 0), load.due_at(second))
    return found


class Lateness:
    """How late runs started, in whole milliseconds, with the number of runs of each."""

    def __init__(self, counts: Mapping[int, int]) -> None:
        self.counts = sorted(counts.items())
        self.runs = sum(counts.values())

    def percentile(self, fraction: float) -> int:
        """The nearest-rank percentile in milliseconds; 0 without runs."""
        left = max(1, ceil(fraction * self.runs))
        for late, runs in self.counts:
            left -= runs
            if left <= 0:
                return late
        return 0

    def __str__(self) -> str:
        parts = (f"{name} {self.percentile(part):,} ms" for name, part in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)))
        return "   ".join(parts)


async def lateness(database: Database, load: Load, start: datetime, parts: int) -> list[Lateness]:
    """The lateness of first starts, for each of so many parts of the time, all of the same length."""
    first_start = {"$ifNull": [{"$first": "$attempts.started_at"}, "$started_at"]}
    part = {"$floor": {"$divide": [{"$subtract": ["$fire_at", start]}, 1000 * load.seconds / parts]}}
    pipeline = [
        {"$match": _within(load, start)},
        {"$project": {"part": part, "late": {"$subtract": [first_start, "$fire_at"]}}},
        {"$match": {"late": {"$ne": None}}},
        {"$group": {"_id": {"part": "$part", "late": "$late"}, "runs": {"$sum": 1}}},
    ]
    counts: list[Counter[int]] = [Counter() for _ in range(parts)]
    async for row in await database["runs"].aggregate(pipeline, allowDiskUse=True):
        counts[int(row["_id"]["part"])][int(row["_id"]["late"])] += row["runs"]
    return [Lateness(one) for one in counts]


def together(parts: Sequence[Lateness]) -> Lateness:
    """The lateness over all parts."""
    total: Counter[int] = Counter()
    for part in parts:
        total.update(dict(part.counts))
    return Lateness(total)
