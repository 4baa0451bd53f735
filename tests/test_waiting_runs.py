"""Ten thousand runs that wait for a slot, on a real MongoDB and a real Redis: what they cost, and which one is next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from cronflow.backends.clock import SystemClock
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.backends.redis.connection import RedisConnection
from cronflow.bootstrap.backends import adapters
from cronflow.bootstrap.roles import build_node
from cronflow.domain.job import Job, Overlap, PythonTarget
from cronflow.domain.run import AttemptResult, Kind, Outcome, Run, RunState, job_of
from cronflow.leader.reconciler import LEAST_WAITING
from cronflow.node.timings import Timings
from cronflow.ports import Assignment, LineSink
from cronflow.usecases import UseCases
from tests.contracts.builders import a_run
from tests.waiting import eventually

MANY = 10_000
AT_ONCE = 1000
ROUNDS = 3
TIMINGS = Timings(run_lease=3600.0)
"""The leases of the runs that have started are not renewed meanwhile."""


class Reads(CommandListener):
    """Counts the rounds in which the reconciler read runs, the runs of the largest one, and the writes to runs."""

    def __init__(self) -> None:
        self.rounds = self.most = self.writes = 0

    def clear(self) -> None:
        """Begin anew."""
        self.rounds = self.most = self.writes = 0

    def started(self, event: CommandStartedEvent) -> None:
        """A write."""
        if event.command_name in ("insert", "update") and event.command[event.command_name] == "runs":
            self.writes += 1

    def succeeded(self, event: CommandSucceededEvent) -> None:
        """A round, if it read runs."""
        cursor = event.reply.get("cursor", {})
        if event.command_name == "aggregate" and str(cursor.get("ns")).endswith(".runs"):
            self.rounds += 1
            self.most = max(self.most, len(cursor["firstBatch"]))

    def failed(self, event: CommandFailedEvent) -> None:
        """Nothing to count."""


class Holding:
    """An executor that records the jobs it starts. Runs end when `release` is set."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.release = asyncio.Event()

    async def run(self, assignment: Assignment, node: str, log: LineSink) -> AttemptResult:
        """Wait for the release."""
        self.started.append(job_of(assignment.run))
        await self.release.wait()
        return AttemptResult(Outcome.OK)


def a_job(name: str, priority: int, overlap: Overlap) -> Job:
    return Job(name=name, target=PythonTarget("no:op"), priority=priority, overlap=overlap)


def requested(jobs: Sequence[Job]) -> list[Run]:
    """Ten thousand manual runs of these jobs, each a bit younger than the one before."""
    begin = datetime.now(UTC) - timedelta(seconds=MANY)
    return [
        a_run(
            (job := jobs[k % len(jobs)]).name,
            begin + timedelta(seconds=k),
            kind=Kind.MANUAL,
            state=RunState.RETRYING,
            node=None,
            attempt=0,
            fence=0,
            term=0,
            priority=job.priority,
            check_at=begin + timedelta(seconds=k),
        )
        for k in range(MANY)
    ]


@asynccontextmanager
async def waiting(
    redis_url: str, mongo_url: str, namespace: str, overlap: Overlap, jobs: int
) -> AsyncIterator[tuple[UseCases, Holding, Reads]]:
    """A node whose slots are occupied, while ten thousand runs of `jobs` jobs with priority 5 wait. If runs of a job
    exclude each other, one of them has the second slot.
    """
    slots = 1 if overlap is Overlap.ALLOW else 2
    reads, executor = Reads(), Holding()
    async with (
        MongoDatabase(mongo_url, namespace, listeners=[reads]) as database,
        RedisConnection(redis_url, namespace) as connection,
    ):
        backends = adapters(connection, database)
        service = UseCases(backends, SystemClock())
        waiting = [a_job(f"waits-{k}", 5, overlap) for k in range(jobs)]
        await service.jobs.apply([a_job("first", 5, Overlap.ALLOW), a_job("urgent", 9, Overlap.ALLOW), *waiting])
        node = build_node(backends, executor, SystemClock(), TIMINGS, name="only", slots=slots)
        running = asyncio.create_task(node.run())
        try:
            await service.jobs.trigger("first")
            await eventually(lambda: executor.started == ["first"], what="the slot is occupied")
            runs = requested(waiting)
            for at in range(0, MANY, AT_ONCE):
                await backends.runs.insert(runs[at : at + AT_ONCE])
            await eventually(lambda: len(executor.started) == slots, what="all slots are occupied")
            yield service, executor, reads
        finally:
            executor.release.set()
            node.stop()
            await running


@pytest.mark.parametrize(
    ("overlap", "jobs"),
    [(Overlap.ALLOW, 100), (Overlap.QUEUE, 1)],
    ids=["of many jobs", "of one job, whose runs exclude each other"],
)
async def test_waiting_runs_cost_no_writes_and_a_bounded_read_a_round_and_the_highest_priority_is_next(
    redis_url: str, mongo_url: str, namespace: str, overlap: Overlap, jobs: int
) -> None:
    async with waiting(redis_url, mongo_url, namespace, overlap, jobs) as (service, executor, reads):
        # In the first rounds the leader finds out that it has no free slot.
        await eventually(lambda: reads.rounds >= ROUNDS, what="the first rounds of the reconciler")
        # Then those that it reads record why they wait, once.
        for _ in range(5):
            reads.clear()
            await eventually(lambda: reads.rounds >= ROUNDS, what="some rounds of the reconciler")
            if reads.writes == 0:
                break
        assert reads.writes == 0
        assert 0 < reads.most <= LEAST_WAITING * 9 // 8 + 1
        await service.jobs.trigger("urgent")
        reads.clear()
        await eventually(lambda: reads.rounds >= 2, what="a round of the reconciler")
        started = list(executor.started)
        executor.release.set()
        # Every eighth slot goes to the oldest run, whatever its priority.
        await eventually(lambda: "urgent" in executor.started[: len(started) + 2], what="the urgent run has started")
