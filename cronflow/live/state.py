"""Builds the ticks: once a second, on one API replica at a time, a bounded document of absolute values.

Its cost and size do not grow with jobs or runs. It reads heartbeats, the leader key, the rollups of a few minutes, and
every ten seconds some counts from indexes. While MongoDB is unavailable, its values stay as they were, and the document
reports the outage. Redis refuses ticks of a replica that has lost the claim, for example after it was suspended, so
there is one tick per second however many replicas there are.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import orjson

from cronflow.domain.cluster import LeaderRecord, Member, lead_of
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.rollup import Bucket, BucketSize, quantile_ms, summed
from cronflow.ports import Backends, Clock
from cronflow.schemas import iso, optional_iso
from cronflow.schemas.cluster import MaintenanceSchema, capacity_of, maintenance_schema, node_state
from cronflow.schemas.job_health import HealthCountsSchema, health_counts_schema
from cronflow.schemas.stream import (
    JobCountsSchema,
    LatencySchema,
    LiveNodeSchema,
    LiveSchema,
    NextJobSchema,
    OpenBreakerSchema,
    ServerSchema,
    StreamQuantilesSchema,
)
from cronflow.usecases.job_health import JobHealthReader

MOST_NODES = 200
MOST_OPEN = 100_000
NEXT_JOBS = 10
COUNTED_EVERY_S = 10.0
LATENCY_OVER = timedelta(minutes=5)
MONGO_WITHIN_S = 2.0


@dataclass(frozen=True, slots=True)
class SlowCounts:
    """Values that are counted every ten seconds."""

    jobs: JobCountsSchema | None = None
    open: int | None = None
    dead_letters: int | None = None
    health: HealthCountsSchema | None = None
    next: list[NextJobSchema] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """Cluster settings shown in the stream: name, heartbeat interval and duration of the leader's lease."""

    namespace: str = "default"
    heartbeat: timedelta = timedelta(seconds=5)
    lease: timedelta = timedelta(seconds=30)


class State:
    """Reads the state of the cluster each second, and keeps values that are read less often."""

    def __init__(self, backends: Backends, clock: Clock, config: ClusterConfig) -> None:
        self._backends = backends
        self._clock = clock
        self._config = config
        self._health = JobHealthReader(backends, clock)
        self._seen: dict[datetime, Mapping[str, int]] | None = None
        self._seen_at = 0.0
        self._slow_counts = SlowCounts()
        self._counted_at = -1e9
        self._rated: dict[str, float] = {}
        self._latency: LatencySchema = {}
        self._maintenance: MaintenanceSchema | None = None
        self._record: LeaderRecord | None = None
        self._reading: asyncio.Task[float] | None = None

    async def read(self) -> LiveSchema:
        """Read the document. Raises BackendUnavailable without Redis; ticks could not be published then either."""
        members, held, redis_s = await asyncio.gather(
            self._backends.membership.members(), self._backends.election.holder(), self._backends.queue.ping()
        )
        mongo = await self._ask_mongo()
        record = self._record
        led = lead_of(held, record)
        leader = None if led is None else led.leader
        members = sorted(members, key=lambda member: (member.report.name != leader, member.report.name))
        return {
            "at": iso(self._clock.now()),
            "namespace": self._config.namespace,
            "leader": leader,
            "lease_s": self._config.lease.total_seconds(),
            "lease_left_s": None if led is None else round(led.lease_left_s, 1),
            "term": 0 if record is None else record.term,
            "elected_at": None if record is None else iso(record.elected_at),
            "nodes": [self._node(member, leader) for member in members[:MOST_NODES]],
            "nodes_more": max(0, len(members) - MOST_NODES),
            "queue": {
                "queued": sum(member.queued for member in members),
                "in_flight": sum(member.report.in_flight for member in members),
                "slots": sum(member.report.slots for member in members),
                "capacity": capacity_of(members),
                "open": self._slow_counts.open,
            },
            "rates": self._rated,
            "latency": self._latency,
            "jobs": self._slow_counts.jobs,
            "health": self._slow_counts.health,
            "dead_letters": self._slow_counts.dead_letters,
            "next": self._slow_counts.next,
            "breakers": _breakers(members),
            "maintenance": self._maintenance,
            "servers": {"redis": {"ms": _ms(redis_s)}, "mongodb": mongo},
        }

    def _node(self, member: Member, leader: str | None) -> LiveNodeSchema:
        report = member.report
        return {
            "name": report.name,
            "id": report.id,
            "leads": report.name == leader,
            "state": node_state(member, self._config.heartbeat),
            "cpu": report.cpu,
            "memory": report.memory,
            "lag_s": report.lag_s,
            "slots": report.slots,
            "in_flight": report.in_flight,
            "queued": member.queued,
            "rate": report.rate,
            "age_s": round(member.age.total_seconds(), 1),
        }

    async def _ask_mongo(self) -> ServerSchema:
        """Read the values of MongoDB. If it hangs, ticks go on with the values as they were, and one reading waits."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_mongo())
        done, _ = await asyncio.wait({self._reading}, timeout=MONGO_WITHIN_S)
        if not done:
            return {"error": f"no answer within {MONGO_WITHIN_S:g} s"}
        reading, self._reading = self._reading, None
        try:
            return {"ms": _ms(reading.result())}
        except BackendUnavailable as error:
            return {"error": error.reason}

    async def close(self) -> None:
        """Give up a reading that MongoDB has not answered."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
            self._reading = None

    async def _read_mongo(self) -> float:
        """Read the values of MongoDB, and return its round trip in seconds."""
        now = self._clock.now()
        since = BucketSize.MINUTE.begin(now - LATENCY_OVER)
        buckets, record, ping, mode = await asyncio.gather(
            self._backends.rollups.read(BucketSize.MINUTE, since, now + LATENCY_OVER),
            self._backends.control.leader(),
            self._backends.control.ping(),
            self._backends.control.maintenance(),
        )
        self._maintenance = maintenance_schema(mode if mode is not None and mode.holds(now) else None)
        self._rated, self._latency = self._rates(buckets), _latency(buckets)
        self._record = record or self._record
        if self._clock.monotonic() - self._counted_at >= COUNTED_EVERY_S:
            self._slow_counts = await self._count(now)
            self._counted_at = self._clock.monotonic()
        return ping

    async def _count(self, now: datetime) -> SlowCounts:
        counts, open_runs, dead, due, health = await asyncio.gather(
            self._backends.totals.jobs(),
            self._backends.totals.open_runs(MOST_OPEN),
            self._backends.dead_letters.count(),
            self._backends.jobs.due(now + timedelta(days=1), NEXT_JOBS),
            self._health.report(),
        )
        return SlowCounts(
            jobs={
                "total": counts.active + counts.paused + counts.idle,
                "active": counts.active,
                "paused": counts.paused,
                "idle": counts.idle,
            },
            open=open_runs,
            dead_letters=dead,
            health=health_counts_schema(health),
            next=[{"job": record.name, "at": optional_iso(record.due_at)} for record in due],
        )

    def _rates(self, buckets: list[Bucket]) -> dict[str, float]:
        """Runs finished per second since the last read, by state."""
        now = self._clock.monotonic()
        before, passed = self._seen, now - self._seen_at
        self._seen, self._seen_at = {bucket.at: dict(bucket.tally.states) for bucket in buckets}, now
        rates = {"ended": 0.0, "succeeded": 0.0, "failed": 0.0}
        if before is None or passed <= 0:
            return rates
        for at, states in self._seen.items():
            for state, count in states.items():
                more = max(0, count - before.get(at, {}).get(state, 0)) / passed
                rates["ended"] += more
                rates[state] = rates.get(state, 0.0) + more
        return {state: round(rate, 2) for state, rate in rates.items()}


def _latency(buckets: list[Bucket]) -> LatencySchema:
    tally = summed(buckets)
    return {"lateness_ms": _quantiles(tally.lateness), "duration_ms": _quantiles(tally.duration)}


def _quantiles(counts: Mapping[int, int]) -> StreamQuantilesSchema:
    return {"p50": _at(counts, 0.5), "p95": _at(counts, 0.95), "p99": _at(counts, 0.99)}


def _at(counts: Mapping[int, int], share: float) -> float | None:
    value = quantile_ms(counts, share)
    return None if value is None else round(value, 1)


def _breakers(members: list[Member]) -> list[OpenBreakerSchema]:
    found: dict[str, list[str]] = {}
    for member in members:
        for service, state in member.report.breakers.items():
            if state != "closed":
                found.setdefault(service, []).append(member.report.name)
    return [{"service": service, "nodes": nodes[:MOST_NODES]} for service, nodes in sorted(found.items())[:MOST_NODES]]


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


def point_of(doc: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The point that a tick adds to the series: of the cluster, and of each node by name."""
    queue, latency, rates = doc["queue"], doc["latency"], doc["rates"]
    quantiles = {
        f"{name.removesuffix('_ms')}_{word}_ms": latency.get(name, {}).get(word)
        for name in ("lateness_ms", "duration_ms")
        for word in StreamQuantilesSchema.__annotations__
    }
    cluster = {
        "at": doc["at"],
        "ended": rates.get("ended", 0.0),
        "failed": rates.get("failed", 0.0),
        "queued": queue["queued"],
        "in_flight": queue["in_flight"],
        **quantiles,
    }
    fields = ("cpu", "memory", "lag_s", "in_flight")
    nodes = {node["name"]: {field: node[field] for field in fields} for node in doc["nodes"]}
    return cluster, nodes


EVERY_S = 1.0
CLAIM_S = 3.0


class Builder:
    """Appends ticks to the stream; call `step` repeatedly."""

    def __init__(self, backends: Backends, clock: Clock, config: ClusterConfig) -> None:
        self._feed = backends.feed
        self._clock = clock
        self._state = State(backends, clock, config)
        self._holder = secrets.token_hex(8)

    async def step(self) -> float:
        """Append a tick if this replica holds or gets the claim. Returns the seconds until the next one."""
        began = self._clock.monotonic()
        if await self._feed.claim(self._holder, CLAIM_S):
            await self._feed.tick(self._holder, orjson.dumps(await self._state.read()))
        return max(0.0, EVERY_S - (self._clock.monotonic() - began))

    async def resign(self) -> None:
        """Release the claim so that another replica can continue at once."""
        await self._state.close()
        await self._feed.release(self._holder)
