"""Every backend of each port, so that one contract suite runs on all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import fakeredis
import pytest

from cronflow.backends.clock import SystemClock
from cronflow.backends.mongo.admin import MongoArchive, MongoStoreAdmin
from cronflow.backends.mongo.backfills import MongoBackfillStore
from cronflow.backends.mongo.catch_up import MongoCatchUpStore
from cronflow.backends.mongo.chains import MongoChainStore
from cronflow.backends.mongo.control import MongoControl
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.backends.mongo.events import MongoEventStore, MongoRollupStore, MongoTotals
from cronflow.backends.mongo.indexes import INDEXES
from cronflow.backends.mongo.jobs import MongoJobStore, MongoPlanStore, MongoVersionStore
from cronflow.backends.mongo.logs import MongoLogStore
from cronflow.backends.mongo.runs import MongoDeadLetters, MongoLateStore, MongoResultStore, MongoRunStore
from cronflow.backends.redis.admin import RedisCoordinationAdmin
from cronflow.backends.redis.connection import RedisConnection
from cronflow.backends.redis.live import RedisFeed, RedisLiveTail
from cronflow.backends.redis.nodes import RedisElection, RedisMembership
from cronflow.backends.redis.queue import RedisBus, RedisQueue
from cronflow.ports import (
    Archive,
    BackfillStore,
    Bus,
    CatchUpStore,
    ChainStore,
    Control,
    CoordinationAdmin,
    DeadLetters,
    Election,
    EventStore,
    Feed,
    JobStore,
    LateStore,
    LiveTail,
    LogStore,
    Membership,
    PlanStore,
    Queue,
    ResultStore,
    RollupStore,
    RunStore,
    StoreAdmin,
    Totals,
    VersionStore,
)
from cronflow.testing.memory import memory_backends
from tests.servers import fresh_namespace


class Stores:
    """The ports that MongoDB serves."""

    def __init__(
        self,
        jobs: JobStore,
        plans: PlanStore,
        runs: RunStore,
        logs: LogStore,
        control: Control,
        archive: Archive,
        store_admin: StoreAdmin,
        versions: VersionStore,
        late: LateStore,
        results: ResultStore,
        dead_letters: DeadLetters,
        events: EventStore,
        rollups: RollupStore,
        totals: Totals,
        backfills: BackfillStore,
        chains: ChainStore,
        catch_up: CatchUpStore,
    ) -> None:
        self.jobs, self.plans, self.runs, self.logs, self.control = jobs, plans, runs, logs, control
        self.archive, self.store_admin = archive, store_admin
        self.versions, self.late, self.results, self.dead_letters = versions, late, results, dead_letters
        self.events, self.rollups, self.totals = events, rollups, totals
        self.backfills, self.chains = backfills, chains
        self.backfills, self.catch_up = backfills, catch_up


class Coordination:
    """The ports that Redis serves. The lock of a job lasts `LOCK_S`, an item may lie for `START_BY_S`."""

    LOCK_S = 0.5
    START_BY_S = 0.3

    def __init__(
        self,
        election: Election,
        membership: Membership,
        queue: Queue,
        bus: Bus,
        coordination_admin: CoordinationAdmin,
        feed: Feed,
        live_tail: LiveTail,
    ) -> None:
        self.election, self.membership, self.queue, self.bus = election, membership, queue, bus
        self.coordination_admin, self.feed, self.live_tail = coordination_admin, feed, live_tail


@pytest.fixture(scope="session")
def emptied_namespace() -> str:
    """A namespace that tests share one after the other, see `emptied`."""
    return fresh_namespace()


@asynccontextmanager
async def emptied(mongo_url: str, namespace: str) -> AsyncIterator[MongoDatabase]:
    """An emptied database. Creating a new one takes MongoDB longer than most of these tests."""
    async with MongoDatabase(mongo_url, namespace) as database:
        for name in await database["jobs"].database.list_collection_names():
            await database[name].delete_many({})
            made = {"_id_", *(index.document["name"] for index in INDEXES.get(name, ()))}
            for index in {*await database[name].index_information()} - made:
                await database[name].drop_index(index)
        yield database


@pytest.fixture(params=["memory", "mongodb"])
async def stores(request: pytest.FixtureRequest, emptied_namespace: str) -> AsyncIterator[Stores]:
    """The MongoDB ports of each backend, on the system's clock."""
    if request.param == "memory":
        memory = memory_backends(SystemClock())
        yield Stores(
            memory.jobs,
            memory.plans,
            memory.runs,
            memory.logs,
            memory.control,
            memory.archive,
            memory.store_admin,
            memory.versions,
            memory.late,
            memory.results,
            memory.dead_letters,
            memory.events,
            memory.rollups,
            memory.totals,
            memory.backfills,
            memory.chains,
            memory.catch_up,
        )
        return
    async with emptied(request.getfixturevalue("mongo_url"), emptied_namespace) as database:
        yield Stores(
            MongoJobStore(database),
            MongoPlanStore(database),
            MongoRunStore(database),
            MongoLogStore(database),
            MongoControl(database),
            MongoArchive(database),
            MongoStoreAdmin(database),
            MongoVersionStore(database),
            MongoLateStore(database),
            MongoResultStore(database),
            MongoDeadLetters(database),
            MongoEventStore(database),
            MongoRollupStore(database),
            MongoTotals(database),
            MongoBackfillStore(database),
            MongoChainStore(database),
            MongoCatchUpStore(database),
        )


@pytest.fixture(params=["memory", "redis", "fakeredis"])
async def coordination(request: pytest.FixtureRequest, namespace: str) -> AsyncIterator[Coordination]:
    """The Redis ports of each backend, on the system's clock, with short locks."""
    if request.param == "memory":
        memory = memory_backends(SystemClock(), lock_s=Coordination.LOCK_S, start_by_s=Coordination.START_BY_S)
        yield Coordination(
            memory.election,
            memory.membership,
            memory.queue,
            memory.bus,
            memory.coordination_admin,
            memory.feed,
            memory.live_tail,
        )
        return
    async with AsyncExitStack() as stack:
        if request.param == "redis":
            connection = RedisConnection(request.getfixturevalue("redis_url"), namespace)
        else:
            client = await stack.enter_async_context(fakeredis.FakeAsyncRedis())
            connection = RedisConnection("redis://fake", namespace, client=client)
        await stack.enter_async_context(connection)
        yield Coordination(
            RedisElection(connection),
            RedisMembership(connection),
            RedisQueue(connection, lock_s=Coordination.LOCK_S, start_by_s=Coordination.START_BY_S),
            RedisBus(connection),
            RedisCoordinationAdmin(connection),
            RedisFeed(connection),
            RedisLiveTail(connection),
        )
