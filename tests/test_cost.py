"""What a run costs: writes and round trips, counted on a real MongoDB and a real Redis, not timed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent
from redis.asyncio import Redis

from cronflow.backends.clock import SystemClock
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.backends.redis.connection import RedisConnection
from cronflow.backends.redis.queue import RedisQueue
from cronflow.bootstrap.backends import adapters
from cronflow.bootstrap.roles import build_node
from cronflow.domain.job import Job, Misfire, PythonTarget, Retry
from cronflow.domain.run import AttemptResult, Outcome, RunState
from cronflow.domain.schedule.kinds import Once
from cronflow.executors.notifications.notifier import Notifier
from cronflow.executors.webhook import HttpWebhookSender
from cronflow.leader import late_inserts
from cronflow.node.timings import Timings
from cronflow.ports import Assignment, LineSink
from cronflow.usecases import UseCases
from cronflow.worker import run_writer
from tests.waiting import eventually

HERD = 1000
FULL_BATCHES = 2000
BATCH = 500
WRITES_PER_RUN = 3.0
ROUND_TRIPS_PER_RUN = 0.1
"""The limits at full batches. A run costs two writes; plan intents, the term, events and roll-ups are added."""
REFUSED_INSERTS = 0.05
"""The share of runs that two processes may insert at the same time: one insert of the two is refused, and counts."""
POLLS = {"hello 1", "aggregate jobs", "find plans", "PING", "TIME", "MGET", "report", "members", "forget_ended"}
"""What a node sends by the clock, with runs or without; a slow machine sends more of it until all runs have ended."""
WRITES = {"insert", "update", "delete", "findAndModify"}
STATEMENTS = {"insert": "documents", "update": "updates", "delete": "deletes"}


class Counting(CommandListener):
    """Counts commands and written documents, per collection."""

    def __init__(self) -> None:
        self.commands: Counter[str] = Counter()
        self.writes: Counter[str] = Counter()

    def started(self, event: CommandStartedEvent) -> None:
        """One round trip, with so many statements."""
        collection = str(event.command.get(event.command_name))
        self.commands[f"{event.command_name} {collection}"] += 1
        if event.command_name in WRITES:
            field = STATEMENTS.get(event.command_name)
            self.writes[collection] += len(event.command[field]) if field else 1

    def succeeded(self, event: CommandSucceededEvent) -> None:
        """Nothing to count."""

    def failed(self, event: CommandFailedEvent) -> None:
        """Nothing to count."""

    def clear(self) -> None:
        """Begin anew."""
        self.commands.clear()
        self.writes.clear()


class CountingRedis(RedisConnection):
    """Counts round trips: scripts by name, and the other ones."""

    def __init__(self, url: str, namespace: str) -> None:
        super().__init__(url, namespace)
        self.trips: Counter[str] = Counter()

    async def call(self, script: str, keys: Any, *arguments: object) -> Any:
        self.trips[script] += 1
        return await super().call(script, keys, *arguments)

    async def command(self, *words: object) -> Any:
        self.trips[str(words[0])] += 1
        return await super().command(*words)

    async def pipeline(self, commands: Sequence[Sequence[object]]) -> list[Any]:
        self.trips["pipeline"] += 1
        return await super().pipeline(commands)


class NoOp:
    """An executor whose runs end at once."""

    async def run(self, assignment: Assignment, node: str, log: LineSink) -> AttemptResult:
        """Done."""
        return AttemptResult(Outcome.OK)


async def schedule_load(
    redis_url: str,
    mongo_url: str,
    namespace: str,
    look: Callable[[Counting, CountingRedis], None],
    *,
    size: int = HERD,
) -> None:
    """One node, many no-op jobs due in one second; `look` at the counts when all have ended."""
    counting = Counting()
    async with (
        MongoDatabase(mongo_url, namespace, listeners=[counting]) as database,
        CountingRedis(redis_url, namespace) as connection,
        # What the test reads is not counted.
        MongoDatabase(mongo_url, namespace) as watched,
    ):
        # On a machine that is busy, runs are given back that would start long after the leader read their job.
        patient = RedisQueue(connection, start_by_s=600.0)
        backends = replace(adapters(connection, database), queue=patient)
        service = UseCases(backends, SystemClock())
        # Due before the node starts, and not called missed: it finds them all due at once, on any machine.
        due = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=1)
        fresh = Misfire(late_after=timedelta(hours=1))
        jobs = [
            Job(
                name=f"job-{k:04}",
                target=PythonTarget("no:op"),
                schedule=Once(due),
                retry=Retry(max=0),
                misfire=fresh,
            )
            for k in range(size)
        ]
        await service.jobs.apply(jobs)
        # There, too, a start is recorded separately if its run has not ended by then, and old plans are recovered.
        timings = Timings(start_mark=60.0, plan_age=300.0)
        node = build_node(backends, NoOp(), SystemClock(), timings, name="only", slots=size)
        counting.clear()
        connection.trips.clear()
        running = asyncio.create_task(node.run())

        async def all_ended() -> bool:
            count: int = await watched["runs"].count_documents({"state": RunState.SUCCEEDED.value})
            return count == size

        try:
            await eventually(all_ended, what="all runs have succeeded")
            await eventually(lambda: counting.commands["update rollups"], what="they are counted")
            look(counting, connection)
        finally:
            node.stop()
            await running
        async with Redis.from_url(redis_url) as redis:
            assert await redis.keys(f"{connection.keys.prefix}lock:*") == []


@pytest.fixture
def no_late_inserts(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, the leader inserts no run that its worker will insert."""
    monkeypatch.setattr(late_inserts, "INSERT_AFTER_S", 3600.0)
    monkeypatch.setattr(run_writer, "ACK_WITHIN", timedelta(hours=1))


@pytest.mark.usefixtures("no_late_inserts")
async def test_a_herd_of_short_runs_costs_two_writes_a_run_and_two_a_batch(
    redis_url: str, mongo_url: str, namespace: str
) -> None:
    def look(mongo: Counting, redis: CountingRedis) -> None:
        batches = mongo.commands["update plans"]
        assert 2 <= batches <= 4
        assert mongo.writes["jobs"] == HERD
        assert HERD <= mongo.writes["runs"] <= (1 + REFUSED_INSERTS) * HERD, mongo.writes
        # Jobs without a breaker and without pause_after.
        assert mongo.commands["find breakers"] == 0
        assert mongo.writes["plans"] <= 2 * batches
        assert set(mongo.writes) <= {"jobs", "runs", "plans", "control", "events", "rollups"}
        # Two that the node is up and leads.
        assert mongo.writes["events"] <= 2
        # A minute, an hour and a day, twice where a minute ends between; a write of them a second, not one a run.
        assert mongo.commands["update rollups"] <= 30
        assert mongo.writes["rollups"] <= 6 * mongo.commands["update rollups"]
        # Round trips: so many a batch of the planner, and so many a group commit of the worker.
        assert mongo.commands["update jobs"] == batches
        assert mongo.commands["insert runs"] <= 4 * HERD / 200
        assert mongo.commands["update runs"] == 0
        assert redis.trips["dispatch"] == batches
        assert redis.trips["take"] <= 40
        assert redis.trips["release"] <= 4 * HERD / 200

    await schedule_load(redis_url, mongo_url, namespace, look)


@pytest.mark.usefixtures("no_late_inserts")
async def test_full_batches_cost_few_writes_and_hardly_any_round_trips_a_run(
    redis_url: str, mongo_url: str, namespace: str
) -> None:
    def look(mongo: Counting, redis: CountingRedis) -> None:
        writes = mongo.writes.total() / FULL_BATCHES
        sent = mongo.commands + redis.trips
        trips = sum(count for name, count in sent.items() if name not in POLLS) / FULL_BATCHES
        # Batches are full, and nothing that was sent is missing from the counts.
        assert redis.trips["dispatch"] <= 2 * FULL_BATCHES / BATCH, sent
        assert mongo.writes["jobs"] == FULL_BATCHES, mongo.writes
        assert FULL_BATCHES <= mongo.writes["runs"] <= (1 + REFUSED_INSERTS) * FULL_BATCHES, mongo.writes
        assert writes <= WRITES_PER_RUN, mongo.writes
        assert trips <= ROUND_TRIPS_PER_RUN, sent

    await schedule_load(redis_url, mongo_url, namespace, look, size=FULL_BATCHES)


async def test_alerts_cost_a_cluster_without_any_one_read_a_few_seconds_apart(
    redis_url: str, mongo_url: str, namespace: str
) -> None:
    counting = Counting()
    async with (
        MongoDatabase(mongo_url, namespace, listeners=[counting]) as database,
        CountingRedis(redis_url, namespace) as connection,
    ):
        backends = adapters(connection, database)
        webhooks = HttpWebhookSender(backends.secrets, None, SystemClock())
        notifier = Notifier(webhooks, None, backends.jobs, backends.logs, SystemClock())
        node = build_node(backends, NoOp(), SystemClock(), Timings(), name="only", notifier=notifier)
        running = asyncio.create_task(node.run())
        try:
            await eventually(lambda: counting.commands["find alerts"] >= 2, what="two looks for alerts")
            looked = counting.commands["find alerts"]
            passed = counting.commands["aggregate jobs"]
        finally:
            node.stop()
            await running
        assert passed > 4 * looked, "the planner looks each 250 ms"
        # The indexes of the notices are made at the start; nobody asks for one.
        assert counting.commands["findAndModify notices"] == counting.commands["find failing"] == 0
        assert counting.writes["notices"] == counting.writes["alerts"] == counting.writes["failing"] == 0
