"""Limits, rates, priorities and backfills on real processes and servers, together, under three faults.

Each fault finds runs of all four kinds in progress: they are requested just before it. The judge is the log that the
handlers write; for the rate it is joined with the permits that MongoDB has issued, which a change stream has recorded.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from motor.motor_asyncio import AsyncIOMotorClient
from redis.asyncio import Redis

from cronflow.backends.mongo.database import MongoDatabase
from cronflow.domain.backfill import Backfill, BackfillRate, BackfillScope, BackfillState
from cronflow.domain.concurrency import KeyedConcurrency, KeyedRate, Rate
from cronflow.domain.job import Job, Overlap, PythonTarget, Retry
from cronflow.domain.planning import run_on_request
from cronflow.domain.run import Kind, Run, RunState, job_of
from cronflow.domain.schedule.kinds import Every
from cronflow.ports import Signal
from cronflow.testing.embedded import RedisServer
from tests.processes.conftest import Processes, process_cluster
from tests.processes.holders import judge
from tests.waiting import eventually

pytestmark = pytest.mark.chaos

NODES = ("a", "b", "c")
LIMIT, RATE = 2, Rate(10, timedelta(seconds=1))
HOLD_S = 0.3
LIMITED, PACED, FILLED = 24, 20, 16
"""Runs of each kind that are requested before each fault. All of them take two seconds or more."""
LOW, URGENT = 8, 2
MS = timedelta(milliseconds=1)
HOLDER = "turn-gate"


class Start(NamedTuple):
    """A line of the log of effects."""

    run: str
    fence: int
    at: float

    @property
    def job(self) -> str:
        return job_of(self.run)


class Load:
    """A cluster with jobs of all four kinds, and what is requested of them."""

    def __init__(self, cluster: Processes) -> None:
        self.cluster = cluster
        self.backfills: dict[str, tuple[str, list[datetime]]] = {}
        self.batch = 0

    def job(self, name: str, args: Mapping[str, object] | None = None, **fields: object) -> Job:
        return Job(
            name=name,
            target=PythonTarget("tests.processes.handlers:hold", {"sink": str(self.cluster.sink), **(args or {})}),
            **{"overlap": Overlap.ALLOW, "retry": Retry(max=3, initial="1s"), **fields},  # type: ignore[arg-type]
        )

    async def apply(self) -> None:
        turn = (KeyedConcurrency("{args.key}", 1),)
        limited = (KeyedConcurrency("{args.key}", LIMIT),)
        await self.cluster.apply(
            *(self.job(name, {"seconds": HOLD_S}, concurrency=limited) for name in ("import", "export", "report")),
            self.job("paced", {"key": "paced"}, rate=KeyedRate(RATE)),
            self.job(HOLDER, concurrency=turn, priority=5),
            self.job("low", concurrency=turn, priority=0),
            self.job("urgent", concurrency=turn, priority=9),
            *(self.job(f"filled-{k}", {"key": "filled"}, schedule=Every(timedelta(hours=1))) for k in range(3)),
        )

    async def request(self, name: str, args: Sequence[Mapping[str, object]]) -> list[str]:
        """Request a run of the job with each of these arguments. Returns their ids."""
        record = await self.cluster.service.jobs.get(name)
        now = datetime.now(UTC)
        runs = [
            run_on_request(
                record, f"{name}@manual-{self.batch}-{k:03}", Kind.MANUAL, now.replace(microsecond=0), one, now
            )
            for k, one in enumerate(args)
        ]
        await self.cluster.backends.runs.insert(runs)
        await self.cluster.backends.bus.notify(Signal.JOBS)
        return [run.id for run in runs]

    async def backfill(self, name: str) -> str:
        last = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        first = last - (FILLED - 1) * timedelta(hours=1)
        found, _ = await self.cluster.service.backfills.request(
            name, first, last, BackfillScope.ALL, BackfillRate(10, "s"), by="ada"
        )
        self.backfills[found.id] = (name, [first + n * timedelta(hours=1) for n in range(FILLED)])
        return found.id

    def starts(self) -> list[Start]:
        lines = self.cluster.sink.read_text().splitlines() if self.cluster.sink.exists() else []
        return [Start(run, int(fence), float(at)) for word, run, fence, _, _, at in map(_six, lines) if word == "start"]

    async def wait_in_turn(self, gate: Path) -> list[str]:
        """A run that holds a key until the gate is opened, and behind it runs of low and, requested later, of high
        priority that wait for the key.
        """
        key = {"key": f"turn-{self.batch}"}
        (holder,) = await self.request(HOLDER, [{**key, "gate": str(gate)}])
        await eventually(lambda: any(start.run == holder for start in self.starts()), what="the key is held")
        waiting = await self.request("low", [key] * LOW)
        waiting += await self.request("urgent", [key] * URGENT)

        async def all_wait() -> bool:
            return all(run.waiting is not None for run in await self.cluster.backends.runs.get(waiting))

        await eventually(all_wait, what="the runs wait for the key")
        return [holder, *waiting]

    async def through(self, fault: Callable[[], Awaitable[None]]) -> None:
        """A batch of all four kinds, with the fault in the middle."""
        gate = self.cluster.folder / f"gate-{self.batch}"
        in_turn = await self.wait_in_turn(gate)
        keys = [{"key": f"{self.batch}-{k % 2}"} for k in range(LIMITED // 3)]
        limited = [run for name in ("import", "export", "report") for run in await self.request(name, keys)]
        paced = await self.request("paced", [{}] * PACED)
        filled = await self.backfill(f"filled-{self.batch}")

        def in_progress() -> bool:
            started = {start.run for start in self.starts()}
            backfilled = [run for run in started if job_of(run) == f"filled-{self.batch}"]
            return all(len(runs) >= 2 for runs in (started & set(limited), started & set(paced), backfilled))

        await eventually(in_progress, what="runs of each kind have started")
        await fault()
        await self.ended([*limited, *paced])

        async def done() -> bool:
            return (await self.cluster.service.backfills.get(filled)).backfill.state is BackfillState.DONE

        await eventually(done, what="the backfill is done")
        gate.touch()
        await self.ended(in_turn)
        self.batch += 1

    async def ended(self, runs: list[str]) -> None:
        async def all_ended() -> bool:
            found = await self.cluster.backends.runs.get(runs)
            return len(found) == len(runs) and not any(run.is_open for run in found)

        await eventually(all_ended, what="all runs have ended")


def _six(line: str) -> list[str]:
    return (line.split() + [""] * 6)[:6]


def _updated(document: dict[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    """The document after an update, which names the parts that differ: `permits`, `permits.1` or `permits.1.fence`."""
    document = deepcopy(document)
    for array in update["truncatedArrays"]:
        del document[array["field"]][array["newSize"] :]
    for path, value in update["updatedFields"].items():
        part: Any = document
        *parents, last = [int(key) if key.isdigit() else key for key in path.split(".")]
        for key in parents:
            part = part[key]
        if isinstance(part, list) and last == len(part):
            part.append(value)
        else:
            part[last] = value
    return document


@asynccontextmanager
async def issued_permits(mongo_url: str, namespace: str, limit: str) -> AsyncIterator[dict[tuple[str, int], datetime]]:
    """The permits of the limit, by run and fence, with the time at which MongoDB has issued each."""
    name = MongoDatabase(mongo_url, namespace)["limits"].full_name
    database, _, collection = name.partition(".")
    client: Any = AsyncIOMotorClient(mongo_url, tz_aware=True)
    found: dict[tuple[str, int], datetime] = {}

    async def follow(stream: Any) -> None:
        document: dict[str, Any] = {}
        async for change in stream:
            document = change.get("fullDocument") or _updated(document, change["updateDescription"])
            found.update({(one["run"], one["fence"]): one["since"] for one in document["permits"]})

    async with client[database][collection].watch([{"$match": {"documentKey._id": limit}}]) as stream:
        # The stream begins with the first command.
        await stream.try_next()
        following = asyncio.create_task(follow(stream))
        try:
            yield found
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
    client.close()


async def test_limits_rates_priorities_and_backfills_survive_a_killed_leader_a_killed_worker_and_a_wiped_redis(
    own_redis: RedisServer, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with (
        process_cluster(own_redis.url, mongo_url, namespace, tmp_path) as cluster,
        issued_permits(mongo_url, namespace, f"rate:{RATE}:job:paced") as issued,
    ):
        await cluster.up(*NODES)
        load = Load(cluster)
        await load.apply()

        async def kill(node: str) -> None:
            cluster.kill(node)
            with cluster.sink.open("a") as sink:
                sink.write(f"killed {node}\n")
            cluster.start(node)

        async def kill_leader() -> None:
            leader = await cluster.leader()
            assert leader is not None
            await kill(leader)

        async def kill_worker() -> None:
            leader = await cluster.leader()
            assert leader is not None
            await kill(next(node for node in NODES if node != leader))

        async def wipe_redis() -> None:
            async with Redis.from_url(own_redis.url) as redis:
                await redis.flushall()

        for fault in (kill_leader, kill_worker, wipe_redis):
            await load.through(fault)
        runs = {run.id: run for run in await cluster.runs()}
        wanted = {
            "import": LIMITED, "export": LIMITED, "report": LIMITED, "paced": 3 * PACED,
            HOLDER: 3, "low": 3 * LOW, "urgent": 3 * URGENT,
            "filled-0": FILLED, "filled-1": FILLED, "filled-2": FILLED,
        }  # fmt: skip
        assert Counter(run.job for run in runs.values() if run.job in wanted) == wanted
        assert {run.state for run in runs.values() if run.job in wanted} == {RunState.SUCCEEDED}
        starts = load.starts()
        lines = cluster.sink.read_text().splitlines()
        _judge_starts(lines, [run.id for run in runs.values() if run.job in wanted])
        _judge_limits(lines)
        _judge_rate([start for start in starts if start.job == "paced"], issued)
        _judge_priorities(starts)
        for backfill, (name, instants) in load.backfills.items():
            _judge_backfill((await cluster.service.backfills.get(backfill)).backfill, name, instants, runs)


def _judge_starts(lines: list[str], runs: Collection[str]) -> None:
    """Every run has started, and again only after the node that had it was killed."""
    nodes: dict[str, str] = {}
    killed: set[str] = set()
    for line in lines:
        match line.split():
            case ["start", run, _, node, *_]:
                assert run not in nodes or run in killed, line
                nodes[run] = node
                killed.discard(run)
            case ["killed", node]:
                killed |= {run for run, at in nodes.items() if at == node}
    assert set(nodes) == set(runs)


def _judge_limits(lines: list[str]) -> None:
    """Never a third holder of a limited key, never a second one of a key that one run may hold."""
    keys = {line.split()[4] for line in lines if line.startswith("start")} - {"paced", "filled"}
    assert len(keys) == 9
    for key in keys:
        of_key = [line for line in lines if line.startswith("killed") or line.split()[4] == key]
        limit = 1 if key.startswith("turn") else LIMIT
        found = judge(of_key, limit)
        assert found.excess is None
        assert found.most == limit


def _judge_rate(starts: list[Start], issued: Mapping[tuple[str, int], datetime]) -> None:
    """Each handler started after its permit was issued, and no two permits were issued closer than the rate allows."""
    for start in starts:
        # MongoDB's clock has milliseconds.
        assert issued[start.run, start.fence].timestamp() <= start.at
    times = sorted(issued.values())
    assert len(times) >= 3 * PACED
    assert all(later - earlier >= RATE.interval_ms * MS for earlier, later in pairwise(times))


def _judge_priorities(starts: list[Start]) -> None:
    """Runs of high priority started before those of low priority that had waited longer. One slot in eight goes to the
    run that has waited longest.
    """
    for batch in range(3):
        order = [
            start for start in starts if job_of(start.run) in ("low", "urgent") and f"manual-{batch}-" in start.run
        ]
        last = max(k for k, start in enumerate(order) if start.job == "urgent")
        before = starts[starts.index(order[0]) : starts.index(order[last])]
        assert sum(start.job == "low" for start in order[:last]) <= 1 + len(before) // 8, order


def _judge_backfill(backfill: Backfill, name: str, instants: list[datetime], runs: Mapping[str, Run]) -> None:
    """Each instant has exactly one run. `_judge_starts` has counted what these wrote."""
    assert backfill.inserted == FILLED
    assert sorted(run.fire_at for run in runs.values() if run.job == name and run.kind is Kind.BACKFILL) == instants
