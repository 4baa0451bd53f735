"""Connects every port to Redis and MongoDB."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from cronflow.backends.mongo.access import (
    MongoAuditStore,
    MongoKeyStore,
    MongoSecretStore,
    MongoSessionStore,
    MongoUserStore,
)
from cronflow.backends.mongo.admin import MongoArchive, MongoStoreAdmin
from cronflow.backends.mongo.alerts import MongoAlertConditions, MongoAlertStore, MongoOutbox
from cronflow.backends.mongo.backfills import MongoBackfillStore
from cronflow.backends.mongo.breakers import MongoBreakerStore
from cronflow.backends.mongo.calendars import MongoCalendarStore
from cronflow.backends.mongo.catch_up import MongoCatchUpStore
from cronflow.backends.mongo.chains import MongoChainStore
from cronflow.backends.mongo.control import MongoControl, MongoServerClock
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.backends.mongo.events import MongoEventStore, MongoRollupStore, MongoTotals
from cronflow.backends.mongo.job_health import MongoJobHealthStore
from cronflow.backends.mongo.jobs import MongoJobStore, MongoPlanStore, MongoVersionStore
from cronflow.backends.mongo.limits import MongoLimitStore
from cronflow.backends.mongo.logs import MongoLogStore
from cronflow.backends.mongo.runs import MongoDeadLetters, MongoLateStore, MongoResultStore, MongoRunStore
from cronflow.backends.redis.access import RedisRateLimiter, RedisTicketStore
from cronflow.backends.redis.admin import RedisCoordinationAdmin
from cronflow.backends.redis.connection import RedisConnection
from cronflow.backends.redis.live import RedisFeed, RedisLiveTail
from cronflow.backends.redis.nodes import RedisElection, RedisMembership, RedisServerClock
from cronflow.backends.redis.queue import RedisBus, RedisQueue
from cronflow.circuit_breaker import Circuit
from cronflow.ports import UNMETERED, Backends, Meter


@dataclass(frozen=True, slots=True)
class Connected:
    """Ports on their own connections, and the context manager that opens and closes these."""

    backends: Backends
    lifetime: AbstractAsyncContextManager[object]


def connect(
    redis_url: str,
    mongo_url: str,
    namespace: str,
    *,
    lock_s: float = 35.0,
    circuit: Circuit | None = None,
    meter: Meter = UNMETERED,
) -> Connected:
    """All ports on new connections, which open in the event loop that enters `lifetime`.

    Pass `circuit` to share MongoDB's circuit breaker if a process connects more than once.
    """
    redis = RedisConnection(redis_url, namespace, meter=meter)
    mongo = MongoDatabase(mongo_url, namespace, circuit=circuit, meter=meter)
    return Connected(adapters(redis, mongo, lock_s=lock_s), _both(redis, mongo))


def adapters(redis: RedisConnection, mongo: MongoDatabase, *, lock_s: float = 35.0) -> Backends:
    """All ports on these connections, which the caller opens."""
    return Backends(
        jobs=MongoJobStore(mongo),
        plans=MongoPlanStore(mongo),
        runs=MongoRunStore(mongo),
        versions=MongoVersionStore(mongo),
        late=MongoLateStore(mongo),
        results=MongoResultStore(mongo),
        dead_letters=MongoDeadLetters(mongo),
        breakers=MongoBreakerStore(mongo),
        backfills=MongoBackfillStore(mongo),
        chains=MongoChainStore(mongo),
        catch_up=MongoCatchUpStore(mongo),
        logs=MongoLogStore(mongo),
        control=MongoControl(mongo),
        archive=MongoArchive(mongo),
        store_admin=MongoStoreAdmin(mongo),
        events=MongoEventStore(mongo),
        rollups=MongoRollupStore(mongo),
        totals=MongoTotals(mongo),
        election=RedisElection(redis),
        membership=RedisMembership(redis),
        queue=RedisQueue(redis, lock_s=lock_s),
        bus=RedisBus(redis),
        coordination_admin=RedisCoordinationAdmin(redis),
        users=MongoUserStore(mongo),
        sessions=MongoSessionStore(mongo),
        keys=MongoKeyStore(mongo),
        secrets=MongoSecretStore(mongo),
        audit=MongoAuditStore(mongo),
        alerts=MongoAlertStore(mongo),
        outbox=MongoOutbox(mongo),
        alert_conditions=MongoAlertConditions(mongo),
        job_health=MongoJobHealthStore(mongo),
        limits=MongoLimitStore(mongo),
        calendars=MongoCalendarStore(mongo),
        limiter=RedisRateLimiter(redis),
        tickets=RedisTicketStore(redis),
        feed=RedisFeed(redis),
        live_tail=RedisLiveTail(redis),
        server_clocks={"Redis": RedisServerClock(redis), "MongoDB": MongoServerClock(mongo)},
    )


@asynccontextmanager
async def _both(redis: RedisConnection, mongo: MongoDatabase) -> AsyncIterator[None]:
    async with redis, mongo:
        yield


@asynccontextmanager
async def open_backends(
    redis_url: str,
    mongo_url: str,
    namespace: str,
    *,
    lock_s: float = 35.0,
    circuit: Circuit | None = None,
    meter: Meter = UNMETERED,
) -> AsyncIterator[Backends]:
    """Connect to both servers. Raises BackendUnavailable within ten seconds if one does not respond."""
    connected = connect(redis_url, mongo_url, namespace, lock_s=lock_s, circuit=circuit, meter=meter)
    async with connected.lifetime:
        yield connected.backends
