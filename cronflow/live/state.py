"""The state of the cluster as a tick tells it: a bounded document of absolute values.

The rule it protects: its cost and its size do not grow with jobs or runs. It reads heartbeats, the leader's key, the
roll-ups of a few minutes, and every ten seconds some counts from indexes. What MongoDB cannot say while it is away
stays as it was, and the document says that it is away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from cronflow.domain.cluster import Member, node_name
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.rollup import Bucket, BucketSize, quantile_ms, summed
from cronflow.ports import Backends, Clock
from cronflow.schemas.base import iso, optional_iso
from cronflow.schemas.cluster import capacity_of, node_state
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

MOST_NODES = 200
MOST_OPEN = 100_000
NEXT_JOBS = 10
COUNTED_EVERY_S = 10.0
LATENCY_OVER = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class SlowCounts:
    """What is counted every ten seconds."""

    jobs: JobCountsSchema | None = None
    open: int | None = None
    dead_letters: int | None = None
    next: list[NextJobSchema] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """What the settings say of the cluster: its name, how often nodes report, and how long a lead lasts unless it is
    renewed.
    """

    namespace: str = "default"
    heartbeat: timedelta = timedelta(seconds=5)
    lease: timedelta = timedelta(seconds=30)


class State:
    """What a builder reads each second, and what it remembers from one second to the next."""

    def __init__(self, backends: Backends, clock: Clock, about: ClusterConfig) -> None:
        self._backends = backends
        self._clock = clock
        self._about = about
        self._seen: dict[datetime, Mapping[str, int]] | None = None
        self._seen_at = 0.0
        self._run_counter = SlowCounts()
        self._counted_at = -1e9
        self._rated: dict[str, float] = {}
        self._latency: LatencySchema = {}
        self._term = 0
        self._elected_at: str | None = None

    async def read(self) -> LiveSchema:
        """The document. Raises BackendUnavailable when Redis is away: then there is nobody to tell it to either."""
        members, held, redis_s = await asyncio.gather(
            self._backends.membership.members(), self._backends.election.holder(), self._backends.queue.ping()
        )
        mongo: ServerSchema
        try:
            mongo = {"ms": _ms(await self._history())}
        except BackendUnavailable as error:
            mongo = {"error": error.reason}
        leader = None if held is None else node_name(held[0])
        members = sorted(members, key=lambda member: (member.report.name != leader, member.report.name))
        return {
            "at": iso(self._clock.now()),
            "namespace": self._about.namespace,
            "leader": leader,
            "lease_s": self._about.lease.total_seconds(),
            "lease_left_s": None if held is None else round(held[1], 1),
            "term": self._term,
            "elected_at": self._elected_at,
            "nodes": [self._node(member, leader) for member in members[:MOST_NODES]],
            "nodes_more": max(0, len(members) - MOST_NODES),
            "queue": {
                "queued": sum(member.queued for member in members),
                "in_flight": sum(member.report.in_flight for member in members),
                "slots": sum(member.report.slots for member in members),
                "capacity": capacity_of(members),
                "open": self._run_counter.open,
            },
            "rates": self._rated,
            "latency": self._latency,
            "jobs": self._run_counter.jobs,
            "dead_letters": self._run_counter.dead_letters,
            "next": self._run_counter.next,
            "breakers": _breakers(members),
            "servers": {"redis": {"ms": _ms(redis_s)}, "mongodb": mongo},
        }

    def _node(self, member: Member, leader: str | None) -> LiveNodeSchema:
        report = member.report
        return {
            "name": report.name,
            "id": report.id,
            "leads": report.name == leader,
            "state": node_state(member, self._about.heartbeat),
            "cpu": report.cpu,
            "memory": report.memory,
            "lag_s": report.lag_s,
            "slots": report.slots,
            "in_flight": report.in_flight,
            "queued": member.queued,
            "rate": report.rate,
            "age_s": round(member.age.total_seconds(), 1),
        }

    async def _history(self) -> float:
        """What MongoDB knows. Returns its round trip in seconds."""
        now = self._clock.now()
        since = BucketSize.MINUTE.begin(now - LATENCY_OVER)
        buckets, record, ping = await asyncio.gather(
            self._backends.rollups.read(BucketSize.MINUTE, since, now + LATENCY_OVER),
            self._backends.control.leader(),
            self._backends.control.ping(),
        )
        self._rated, self._latency = self._rates(buckets), _latency(buckets)
        if record is not None:
            self._term, self._elected_at = record.term, iso(record.elected_at)
        if self._clock.monotonic() - self._counted_at >= COUNTED_EVERY_S:
            self._run_counter = await self._count(now)
            self._counted_at = self._clock.monotonic()
        return ping

    async def _count(self, now: datetime) -> SlowCounts:
        standing, open_runs, dead, due = await asyncio.gather(
            self._backends.totals.jobs(),
            self._backends.totals.open_runs(MOST_OPEN),
            self._backends.dead_letters.count(),
            self._backends.jobs.due(now + timedelta(days=1), NEXT_JOBS),
        )
        return SlowCounts(
            jobs={
                "total": standing.active + standing.paused + standing.idle,
                "active": standing.active,
                "paused": standing.paused,
                "idle": standing.idle,
            },
            open=open_runs,
            dead_letters=dead,
            next=[{"job": record.name, "at": optional_iso(record.due_at)} for record in due],
        )

    def _rates(self, buckets: list[Bucket]) -> dict[str, float]:
        """Runs that ended a second, by state, since the last look."""
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
    """What the series keep of a tick: of the cluster, and of each node by its name."""
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
