"""Forges records that no correct history leaves, on every backend, for the sweep and the clean-up to find."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from math import inf
from typing import Any

from cronflow.backends.clock import SystemClock
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.backends.redis.connection import RedisConnection
from cronflow.domain.events import Event
from cronflow.domain.job import PlanIntent
from cronflow.domain.run import Run
from cronflow.leader.sweep import Sweep
from cronflow.ports import Backends, JobLock
from cronflow.testing.memory import MemoryBackends
from tests.contracts.builders import a_report, an_assignment
from tests.executors import Lines


class Hasty(SystemClock):
    """The system's clock, on which no pause takes long; `pauses` are those that were asked for."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        """A turn for the others."""
        self.pauses.append(seconds)
        await asyncio.sleep(0)


class Forge:
    """The ports, and ways around them. Everything is on the system's time, shortened to what MongoDB can store."""

    def __init__(self, backends: Backends) -> None:
        self.backends = backends
        self.clock = Hasty()
        self.events: list[Event] = []
        now = self.clock.now()
        self.now = now.replace(microsecond=0)

    async def sweep(self, term: int = 5) -> tuple[dict[str, Any], list[tuple[str, str, bool]]]:
        """Sweep; the summary, and (kind, where, repaired) of the findings."""
        sweep = Sweep(self.backends, self.clock, self.events.append)
        result: Any = await sweep.run(an_assignment("_sys:sweep@1", term=term), Lines())
        report = await self.backends.store_admin.report()
        assert report is not None
        assert report.found == result["found"]
        return result, [(one.kind.value, one.where, one.repaired) for one in report.findings]

    async def findings(self, term: int = 5) -> list[tuple[str, str, bool]]:
        """Of a sweep."""
        return (await self.sweep(term))[1]

    async def set_run(self, run: str, **fields: Any) -> None:
        """Write fields of a run past all rules; None removes one."""
        raise NotImplementedError

    async def age_intent(self, intent: PlanIntent, at: datetime) -> None:
        """Write an intent as if at that time."""
        raise NotImplementedError

    async def endless_lock(self, job: str) -> str:
        """A lock without a time limit; the name of its key."""
        raise NotImplementedError

    async def endless_list(self, node: str) -> str:
        """Let the node's list have no time limit; the name of its key."""
        raise NotImplementedError

    async def has_list(self, node: str) -> bool:
        """Whether the list is there, and would be for ever."""
        raise NotImplementedError

    async def lock_expires(self, job: str) -> bool:
        """Whether the lock has a time limit, or is gone."""
        raise NotImplementedError

    async def lose_index(self) -> str:
        """Drop an index; its name in the report."""
        raise NotImplementedError

    async def give_work_to(self, node: str) -> None:
        """A list with an item, from a leader."""
        await self.backends.election.acquire("leader#1#x", 30)
        await self.backends.election.install("leader#1#x", 1, "boot")
        assert await self.backends.queue.dispatch(1, "boot", {node: [an_assignment()]})

    async def is_up(self, name: str, **fields: Any) -> None:
        """A heartbeat."""
        await self.backends.membership.report(a_report(name, **fields), 60)


class MemoryForge(Forge):
    """In dictionaries."""

    backends: MemoryBackends

    async def set_run(self, run: str, **fields: Any) -> None:
        """Replace it."""
        runs: dict[str, Run] = self.backends.documents.runs
        runs[run] = replace(runs[run], **fields)

    async def age_intent(self, intent: PlanIntent, at: datetime) -> None:
        """Put it there."""
        self.backends.documents.plans[intent.id] = (intent, at)

    async def endless_lock(self, job: str) -> str:
        """Put it there."""
        self.backends.memory.locks[(job, "")] = (JobLock(job, "", f"{job}@1", 1), "n1#a", inf)
        return f"lock:job:{job}"

    async def endless_list(self, node: str) -> str:
        """Its items never end."""
        lists = self.backends.memory.lists
        lists[node] = [(inf, item) for _, item in lists[node]]
        return f"q:{node}"

    async def has_list(self, node: str) -> bool:
        """Look up."""
        return any(until == inf for until, _ in self.backends.memory.lists.get(node, ()))

    async def lock_expires(self, job: str) -> bool:
        """Look up."""
        entry = self.backends.memory.locks.get((job, ""))
        return entry is None or entry[2] < inf

    async def lose_index(self) -> str:
        """Say so."""
        self.backends.documents.lost_indexes.add("runs.overdue")
        return "runs.overdue"


class ServerForge(Forge):
    """On MongoDB and Redis."""

    def __init__(self, backends: Backends, database: MongoDatabase, connection: RedisConnection) -> None:
        super().__init__(backends)
        self.database, self.redis = database, connection

    async def set_run(self, run: str, **fields: Any) -> None:
        """$set and $unset."""
        update: dict[str, Any] = {}
        for name, value in fields.items():
            update.setdefault("$unset" if value is None else "$set", {})[name] = value
        await self.database["runs"].update_one({"_id": run}, update)

    async def age_intent(self, intent: PlanIntent, at: datetime) -> None:
        """Write, then overwrite `at`."""
        await self.backends.plans.write(intent)
        await self.database["plans"].update_one({"_id": intent.id}, {"$set": {"at": at}})

    async def endless_lock(self, job: str) -> str:
        """SET."""
        key = f"{self.redis.keys.prefix}lock:job:{job}"
        await self.redis.command("SET", key, f"1|n1#a|{job}@1")
        return key

    async def endless_list(self, node: str) -> str:
        """PERSIST."""
        key = self.redis.keys.queue(node)
        await self.redis.command("PERSIST", key)
        return key

    async def has_list(self, node: str) -> bool:
        """PTTL."""
        return bool(await self.redis.command("PTTL", self.redis.keys.queue(node)) == -1)

    async def lock_expires(self, job: str) -> bool:
        """PTTL."""
        return bool(await self.redis.command("PTTL", f"{self.redis.keys.prefix}lock:job:{job}") != -1)

    async def lose_index(self) -> str:
        """dropIndex."""
        await self.database["runs"].drop_index("overdue")
        return "runs.overdue"


HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
