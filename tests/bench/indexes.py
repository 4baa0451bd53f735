"""What each index costs MongoDB: CPU time of mongod per run, with all indexes and without one of them.

    python -m tests.bench.indexes --rounds 40

Each variant is a database of its own with the same runs. In every round each variant gets the same writes in turn, with
the code of the stores: 500 jobs move, their runs are inserted and finished, and the 500 oldest runs are deleted. So a
busy moment of the machine meets all variants, and the difference within a round is the cost of the index.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cronflow.backends.mongo.admin import MongoArchive
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.backends.mongo.indexes import INDEXES
from cronflow.backends.mongo.jobs import MongoJobStore
from cronflow.backends.mongo.runs import MongoRunStore
from cronflow.domain.job import Delivery, Retry
from cronflow.domain.run import AttemptResult, Outcome, Run, RunState
from cronflow.domain.transitions import ClaimedRun, finish
from cronflow.ports import Move
from cronflow.testing.embedded import MongoServer
from tests.bench.words import say
from tests.contracts.builders import a_job, a_pend, a_record, a_run

BATCH = 500
JOBS = 4 * BATCH
NODES = 3
T0 = datetime(2026, 11, 21, tzinfo=UTC)
STEPS = ("move", "insert", "finish", "delete")
ALL = "all indexes"


def mongod_cpu_ms(pid: int) -> float:
    """CPU time of all threads of the process."""
    spent = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            spent += int((thread / "schedstat").read_text().split()[0])
        except FileNotFoundError:
            continue  # The thread has just ended.
    return spent / 1e6


def batch_of(number: int) -> list[Run]:
    """The runs of one second: a quarter of the jobs, on three nodes."""
    fire = T0 + timedelta(seconds=number)
    first = number * BATCH % JOBS
    return [
        a_run(f"job-{k:04}", fire, node=f"node-{k % NODES}#0a1b2c3d", fence=number * BATCH + k)
        for k in range(first, first + BATCH)
    ]


def priority_of(job: str) -> int:
    return int(job[-1])


def ended(run: Run) -> Run:
    at = run.fire_at
    return replace(run, state=RunState.SUCCEEDED, check_at=None, ended_at=at, outcome=Outcome.OK)


@dataclass
class Variant:
    """A database without the index `dropped`."""

    name: str
    database: MongoDatabase
    dropped: tuple[str, str] | None
    spent: dict[str, list[float]] = field(default_factory=lambda: {step: [] for step in STEPS})

    def __post_init__(self) -> None:
        self._runs, self._jobs = MongoRunStore(self.database), MongoJobStore(self.database)
        self._archive = MongoArchive(self.database)

    async def prepare(self, stored: int) -> None:
        if self.dropped is not None:
            collection, index = self.dropped
            await self.database[collection].drop_index(index)
        names = [f"job-{k:04}" for k in range(JOBS)]
        records = [replace(a_record(name, T0), job=replace(a_job(name), priority=priority_of(name))) for name in names]
        await self._jobs.create_all(records)
        for number in range(stored // BATCH):
            await self._runs.insert([ended(run) for run in batch_of(number)])

    async def write(self, step: str, turn: int, stored: int) -> None:
        runs = batch_of(stored // BATCH + turn)
        match step:
            case "move":
                following = runs[0].fire_at + timedelta(hours=1)
                moves = [
                    Move(
                        job=run.job,
                        # Each job moves in every fourth round.
                        rev=turn // (JOBS // BATCH),
                        next_fire=following,
                        pending_run=a_pend(run.fire_at),
                        priority=priority_of(run.job),
                    )
                    for run in runs
                ]
                assert len(await self._jobs.move(moves, 1)) == BATCH
            case "insert":
                assert len(await self._runs.insert(runs)) == BATCH
            case "finish":
                changes = [
                    finish(
                        ClaimedRun(
                            run=run.id,
                            fence=run.fence,
                            node=run.node or "",
                            attempt=1,
                            retry=Retry(),
                            delivery=Delivery.AT_LEAST_ONCE,
                        ),
                        AttemptResult(Outcome.OK),
                        f"f{run.fence}",
                        run.fire_at,
                        run.fire_at,
                    )
                    for run in runs
                ]
                assert len(await self._runs.apply(changes)) == BATCH
            case "delete":
                gone = [run.id for run in batch_of(turn)]
                assert await self._archive.delete_runs(gone, T0 + timedelta(days=1)) == BATCH


async def measure(pid: int, variants: Sequence[Variant], rounds: int, stored: int) -> None:
    for variant in variants:
        await variant.prepare(stored)
    for turn in range(rounds):
        shift = turn % len(variants)
        for step in STEPS:
            for variant in (*variants[shift:], *variants[:shift]):
                before = mongod_cpu_ms(pid)
                await variant.write(step, turn, stored)
                variant.spent[step].append(mongod_cpu_ms(pid) - before)


def report(variants: Sequence[Variant]) -> None:
    """Microseconds per run. A cost is the median of the differences within a round."""
    base = variants[0]
    for step in STEPS:
        say(f"{ALL}: {step}", f"{statistics.median(base.spent[step]) / BATCH * 1000:7.1f} us a run")
    for variant in variants[1:]:
        costs, total = [], 0.0
        for step in STEPS:
            differences = [a - b for a, b in zip(base.spent[step], variant.spent[step], strict=True)]
            cost = statistics.median(differences) / BATCH * 1000
            total += cost
            costs.append(f"{step} {cost:6.1f}")
        say(f"cost of {variant.name}", f"{'   '.join(costs)}   together {total:6.1f} us a run")


async def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.indexes", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--stored", type=int, default=20_000, help="runs of each variant before the first round")
    parser.add_argument("--only", nargs="+", help="indexes to leave out, such as runs.node; all if not given")
    options = parser.parse_args(arguments)
    every = [(collection, index.document["name"]) for collection in ("jobs", "runs") for index in INDEXES[collection]]
    dropped = [one for one in every if options.only is None or ".".join(one) in options.only]
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        mongo = stack.enter_context(MongoServer(folder))
        # The second one shows what differs by chance.
        names = [(ALL, None), ("no index", None), *((".".join(one), one) for one in dropped)]
        variants = [
            Variant(name, await stack.enter_async_context(MongoDatabase(mongo.url, f"v{n}")), one)
            for n, (name, one) in enumerate(names)
        ]
        await measure(mongo.pid, variants, options.rounds, options.stored)
        report(variants)


if __name__ == "__main__":
    asyncio.run(main())
