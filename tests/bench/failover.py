"""Failover: how long a cluster has no leader, and how late the first run is, after each way to lose a leader.

    python -m tests.bench.failover --ttl 3 --trials 20

Three node processes on real servers; every node reaches them through proxies of its own, which can be cut. The faults
take turns, so that a busy moment of the machine meets all of them. A job that fires every second shows whether an
instant was lost or ran twice.

Each fault comes just before a whole second, when the job falls due, and at a random point of the lease. The gaps count
from that moment: until a leader is elected, until a run that was due since is dispatched, and until its handler has
started. The latest run of the gap also shows runs that were sent to a node that was gone.

A leader that ends without resigning leaves its key to expire, so its gap depends on how much of the lease was left:
half to all of it. A leader that resigns is replaced by a signal; the time without a leader then counts from the end of
its tenure, because until then it leads.

Results depend on the machine. It asserts nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import random
import signal
import sys
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from unittest import mock

from redis.asyncio import Redis

from cronflow.backends.redis.keys import RedisKeys
from cronflow.bootstrap.parts import VERSION
from cronflow.domain.events import LeaderElected, LeaderSteppedDown, kind_of
from cronflow.domain.job import Job, Overlap, PythonTarget, Retry
from cronflow.domain.run import Run
from cronflow.domain.schedule.kinds import Every
from cronflow.ports import RunQuery
from cronflow.testing.audit import FireAudit, percentile
from cronflow.testing.embedded import MongoServer, RedisServer
from cronflow.testing.tcp_proxy import TcpProxy
from tests.bench.results import record
from tests.bench.words import say, spread
from tests.processes.conftest import Processes, process_cluster
from tests.waiting import eventually

COMMAND = "python -m tests.bench.failover"
NODES = ("node-0", "node-1", "node-2")
JOB = "tick"
BEFORE_DUE = timedelta(milliseconds=20)
CLOCKS_APART = timedelta(milliseconds=50)
"""How far the clocks of the processes may be apart, on one machine."""


class Fault(StrEnum):
    KILL = "killed (SIGKILL)"
    PAUSE = "paused (SIGSTOP)"
    CUT_REDIS = "cut from Redis"
    CUT_BOTH = "cut from Redis and MongoDB"
    STOP = "stopped (SIGTERM)"
    STEPDOWN = "asked to step down"


GRACEFUL = {Fault.STOP, Fault.STEPDOWN}


@dataclass(frozen=True, slots=True)
class Gap:
    """Without a leader; from the fault until a run was dispatched, and until its handler had started; and how late the
    latest of the runs started that were due meanwhile.
    """

    leaderless: timedelta
    dispatched: timedelta
    started: timedelta
    latest: timedelta


@dataclass(slots=True)
class Results:
    gaps: dict[Fault, list[Gap]] = field(default_factory=lambda: defaultdict(list))
    repeated: dict[Fault, int] = field(default_factory=lambda: defaultdict(int))
    """Handlers started again for the same run, which `at_least_once` allows when a node has failed."""


def limits(ttl: float, *, lease_only: bool) -> dict[str, str]:
    """The time limits of a node: all in the proportions of the defaults, or only that of the lease."""
    seconds = {"LEADER_TTL": ttl, "DRAIN_TIMEOUT": 5.0}
    if not lease_only:
        seconds |= {
            "FAILOVER_CHECK": ttl * 1.5,
            "NODE_TTL": max(1.0, ttl / 2),
            "RUN_LEASE": max(1.0, ttl * 1.5),
            "LOCK_BUFFER": ttl / 6,
        }
    return {f"CRONFLOW_{name}": f"{round(value * 1000)}ms" for name, value in seconds.items()}


class Bench:
    """A cluster whose nodes have links of their own."""

    def __init__(
        self, cluster: Processes, redis: Redis, links: Mapping[str, tuple[TcpProxy, TcpProxy]], ttl: float
    ) -> None:
        self._cluster = cluster
        self._redis = redis
        self._links = links
        self._ttl = ttl
        self._repeated = 0

    def start(self, name: str) -> None:
        to_redis, to_mongo = self._links[name]
        self._cluster.start(name, redis_url=to_redis.url, mongo_url=to_mongo.url)

    async def settled(self) -> str:
        """Wait until all nodes are members, get signals and follow one leader. Returns its name."""
        channel = RedisKeys(self._cluster.namespace).signal("leader")
        fresh = timedelta(seconds=10)

        async def ready() -> str | None:
            members = await self._cluster.service.cluster.members()
            up = {member.report.name for member in members if member.age < fresh and not member.report.mongo_away_s}
            _, listening = (await self._redis.pubsub_numsub(channel))[0]
            return await self._cluster.leader() if up == set(NODES) and listening == len(NODES) else None

        return await eventually(ready, what="all nodes are up and follow a leader") or ""

    async def trial(self, fault: Fault) -> Gap:
        leader = await self.settled()
        if fault not in GRACEFUL:
            await asyncio.sleep(random.uniform(0, self._ttl / 2))
        record = await self._cluster.backends.control.leader()
        assert record is not None
        await _until_just_before_a_second()
        began = datetime.now(UTC)
        await self._inflict(fault, leader)
        elected_at = await self._elected(record.term, began)
        dispatched, started = await self._first_started(began)
        await self._heal(fault, leader)
        runs = await eventually(lambda: self._ended(began, elected_at), what="the runs of the gap have ended")
        return Gap(
            elected_at - (await self._stepped_down(record.term) if fault in GRACEFUL else began),
            dispatched - began,
            started - began,
            max(run.lateness for run in runs if run.lateness is not None),
        )

    async def _inflict(self, fault: Fault, leader: str) -> None:
        to_redis, to_mongo = self._links[leader]
        match fault:
            case Fault.KILL:
                self._cluster.kill(leader)
            case Fault.PAUSE:
                self._cluster.signal(leader, signal.SIGSTOP)
            case Fault.CUT_REDIS:
                to_redis.cut()
            case Fault.CUT_BOTH:
                to_redis.cut()
                to_mongo.cut()
            case Fault.STOP:
                self._cluster.signal(leader, signal.SIGTERM)
            case Fault.STEPDOWN:
                await self._cluster.service.cluster.stepdown()

    async def _heal(self, fault: Fault, leader: str) -> None:
        match fault:
            case Fault.KILL:
                self.start(leader)
            case Fault.PAUSE:
                self._cluster.signal(leader, signal.SIGCONT)
            case Fault.CUT_REDIS | Fault.CUT_BOTH:
                for link in self._links[leader]:
                    await link.mend()
            case Fault.STOP:
                await asyncio.to_thread(self._cluster.children.pop(leader).wait, 60)
                self.start(leader)

    async def _elected(self, term: int, began: datetime) -> datetime:
        """When the first leader after this term was elected, by its own record."""

        async def found() -> datetime | None:
            events = await self._cluster.backends.events.find(
                kinds={kind_of(LeaderElected)}, since=began - CLOCKS_APART
            )
            return min(
                (one.at for one in events if isinstance(one.event, LeaderElected) and one.event.term > term),
                default=None,
            )

        elected_at = await eventually(found, what="another leader")
        assert elected_at is not None
        return elected_at

    async def _stepped_down(self, term: int) -> datetime:
        """When the leader of the term ended its tenure, by its own record."""

        async def found() -> datetime | None:
            events = await self._cluster.backends.events.find(kinds={kind_of(LeaderSteppedDown)}, limit=10)
            ends = (one.at for one in events if isinstance(one.event, LeaderSteppedDown) and one.event.term == term)
            return next(ends, None)

        at = await eventually(found, what="the end of the tenure")
        assert at is not None
        return at

    async def _first_started(self, began: datetime) -> tuple[datetime, datetime]:
        """When a run that was due after the fault was dispatched and its handler started, of the first one."""

        async def found() -> tuple[datetime, datetime] | None:
            started = [(run.started_at, run.dispatched_at) for run in await self._due(began)]
            return min(((at, sent) for at, sent in started if at and sent), default=None)

        first = await eventually(found, what="a run after the fault")
        assert first is not None
        return first[1], first[0]

    async def _ended(self, began: datetime, elected_at: datetime) -> list[Run]:
        """The runs that were due from the fault until the second after the election, when all have ended."""
        until = elected_at + timedelta(seconds=1)
        runs = [run for run in await self._due(began) if run.fire_at < until]
        return [] if any(run.is_open for run in runs) or datetime.now(UTC) < until + CLOCKS_APART else runs

    async def _due(self, began: datetime) -> list[Run]:
        return await self._cluster.backends.runs.find(RunQuery(job=JOB, since=began, limit=500))

    def repeated(self) -> int:
        """How many handlers were started again for the same run since the last call."""
        starts = [run for run, _ in self._cluster.noted("start")]
        before, self._repeated = self._repeated, len(starts) - len(set(starts))
        return self._repeated - before


async def _until_just_before_a_second() -> None:
    while (left := timedelta(microseconds=1_000_000 - datetime.now(UTC).microsecond)) > BEFORE_DUE:
        await asyncio.sleep(max(timedelta(milliseconds=1), left - BEFORE_DUE).total_seconds())


def a_job(sink: Path) -> Job:
    """It fires every second, and writes each start into the sink."""
    return Job(
        name=JOB,
        target=PythonTarget("tests.processes.handlers:work", {"sink": str(sink), "seconds": 0}),
        schedule=Every("1s"),
        retry=Retry(max=0),
        overlap=Overlap.ALLOW,
    )


@asynccontextmanager
async def bench(
    folder: Path, redis_url: str, mongo_url: str, ttl: float, limits: Mapping[str, str]
) -> AsyncIterator[tuple[Bench, Processes]]:
    """Three nodes with these time limits."""
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(process_cluster(redis_url, mongo_url, f"ttl-{ttl:g}", folder))
        cluster.limits = dict(limits)
        links = {
            name: (
                await stack.enter_async_context(TcpProxy.to(redis_url)),
                await stack.enter_async_context(TcpProxy.to(mongo_url)),
            )
            for name in NODES
        }
        redis = await stack.enter_async_context(Redis.from_url(redis_url))
        found = Bench(cluster, redis, links, ttl)
        for name in NODES:
            found.start(name)
        yield found, cluster


async def measure(
    ttl: float, limits: Mapping[str, str], trials: int, faults: Sequence[Fault]
) -> tuple[Results, FireAudit]:
    results = Results()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis = stack.enter_context(RedisServer(folder))
        mongo = stack.enter_context(MongoServer(folder))
        async with bench(folder, redis.url, mongo.url, ttl, limits) as (found, cluster):
            await found.settled()
            since = await cluster.apply(a_job(cluster.sink))
            for _ in range(trials):
                for fault in faults:
                    results.gaps[fault].append(await found.trial(fault))
                    await found.settled()
                    results.repeated[fault] += found.repeated()
            return results, await cluster.proof(since)


def report(ttl: float, results: Results, audit: FireAudit) -> None:
    say(f"TTL {ttl:g} s", "")
    for fault, gaps in results.gaps.items():
        say(f"{fault}, n={len(gaps)}", f"without a leader      {spread(gap.leaderless for gap in gaps)}")
        say("", f"first run dispatched  {spread(gap.dispatched for gap in gaps)}")
        say("", f"first handler started {spread(gap.started for gap in gaps)}")
        say("", f"latest run of the gap {spread(gap.latest for gap in gaps)}")
        if results.repeated[fault]:
            say("", f"{results.repeated[fault]} runs started again, as at_least_once allows")
    say("instants due", f"{audit.fires_due:,}   without a run {len(audit.lost)}   with two {len(audit.doubled)}")


def figures(results: Mapping[float, Results]) -> dict[str, float]:
    """The figures of the targets, in seconds: p99 without a leader, by TTL after a kill, and over all graceful ends."""
    found = {f"failover_{ttl:g}_p99": _p99(one.gaps[Fault.KILL]) for ttl, one in results.items()}
    graceful = [gap for one in results.values() for fault in GRACEFUL for gap in one.gaps[fault]]
    found["failover_graceful_p99"] = _p99(graceful)
    return {name: value.total_seconds() for name, value in found.items() if value is not None}


def _p99(gaps: Iterable[Gap]) -> timedelta | None:
    return percentile(sorted(gap.leaderless for gap in gaps), 0.99)


async def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__.partition("\n")[0])
    parser.add_argument("--ttl", type=float, nargs="+", default=[30.0, 9.0, 3.0], help="leases to measure, in seconds")
    parser.add_argument(
        "--trials", type=int, nargs="+", default=[20], help="per fault: one number, or one for each lease"
    )
    parser.add_argument("--faults", nargs="+", choices=[fault.name.lower() for fault in Fault], help="all if not given")
    parser.add_argument(
        "--lease-only", action="store_true", help="keep the other time limits of the defaults, such as NODE_TTL"
    )
    parser.add_argument("--together", action="store_true", help="measure all leases at the same time, to save time")
    options = parser.parse_args(arguments)
    if len(options.trials) not in (1, len(options.ttl)):
        parser.error("--trials needs one number, or one for each lease")
    faults = [fault for fault in Fault if options.faults is None or fault.name.lower() in options.faults]
    say(
        f"cronflow {VERSION}, Python {platform.python_version()}",
        f"{os.cpu_count()} CPUs, {datetime.now(UTC):%Y-%m-%d %H:%MZ}",
    )
    trials = options.trials * (len(options.ttl) if len(options.trials) == 1 else 1)
    at_once = asyncio.Semaphore(len(trials) if options.together else 1)

    async def one(ttl: float, count: int) -> tuple[Results, FireAudit]:
        async with at_once:
            return await measure(ttl, limits(ttl, lease_only=options.lease_only), count, faults)

    # The nodes must not use the home directory of the person who runs this.
    with tempfile.TemporaryDirectory() as home, mock.patch.dict(os.environ, {"HOME": home}):
        found = await asyncio.gather(*(one(ttl, count) for ttl, count in zip(options.ttl, trials, strict=True)))
    for ttl, (results, audit) in zip(options.ttl, found, strict=True):
        report(ttl, results, audit)
    measured = {ttl: results for ttl, (results, _) in zip(options.ttl, found, strict=True)}
    command = " ".join([COMMAND, *(sys.argv[1:] if arguments is None else arguments)])
    for name, value in figures(measured).items():
        record(name, value, "s", command)


if __name__ == "__main__":
    asyncio.run(main())
