"""The composition root: which adapter stands behind which port, and in which order things are opened and closed.

The only module that knows all the others. Settings become plain values here; nothing below reads them.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from importlib import metadata
from typing import TYPE_CHECKING

from cronflow.app import App
from cronflow.backends.clock import SystemClock
from cronflow.backends.memory import memory_backends
from cronflow.backends.mongo.archive import MongoArchive
from cronflow.backends.mongo.control import MongoControl, MongoTimepiece
from cronflow.backends.mongo.database import MongoDatabase, mongo_circuit
from cronflow.backends.mongo.jobs import MongoJobStore, MongoPlanStore
from cronflow.backends.mongo.ledger import MongoDeadLetters, MongoLateStore, MongoVersionStore
from cronflow.backends.mongo.logs import MongoLogStore
from cronflow.backends.mongo.runs import MongoRunStore
from cronflow.backends.mongo.upkeep import MongoUpkeep
from cronflow.backends.redis.bus import RedisBus
from cronflow.backends.redis.connection import RedisConnection
from cronflow.backends.redis.election import RedisElection, RedisTimepiece
from cronflow.backends.redis.housekeeping import RedisHousekeeping
from cronflow.backends.redis.membership import RedisMembership
from cronflow.backends.redis.queue import RedisQueue
from cronflow.circuit import Circuit
from cronflow.config import Settings
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import CommandTarget, HttpTarget, PythonTarget, SystemTarget
from cronflow.domain.system import system_jobs
from cronflow.executors import Executors
from cronflow.executors.command import CommandExecutor
from cronflow.executors.http import HttpExecutor
from cronflow.executors.python import PythonExecutor, PythonTargets
from cronflow.executors.system import SystemExecutor
from cronflow.node.cleanup import Cleanup
from cronflow.node.node import Connected, Node
from cronflow.node.spool import Spool
from cronflow.node.sweep import Sweep
from cronflow.node.timings import Timings
from cronflow.ports import Backends, Clock
from cronflow.service import Service

if TYPE_CHECKING:
    import uvicorn

VERSION = metadata.version("cronflow")


def timings(settings: Settings) -> Timings:
    """The time limits of a node, from the settings. Raises InvalidInput when they do not fit together."""
    return Timings(
        leader_ttl=settings.leader_ttl.total_seconds(),
        leader_renew=settings.leader_renew.total_seconds(),
        failover_check=settings.failover_check.total_seconds(),
        heartbeat=settings.heartbeat.total_seconds(),
        node_ttl=settings.node_ttl.total_seconds(),
        run_lease=settings.run_lease.total_seconds(),
        lock_buffer=settings.lock_buffer.total_seconds(),
        drain=settings.drain_timeout.total_seconds(),
    )


def connect(
    redis_url: str, mongo_url: str, namespace: str, *, lock_s: float = 35.0, circuit: Circuit | None = None
) -> Connected:
    """All ports on connections of their own; whoever enters the lifetime opens them, in his own event loop.

    `circuit` is MongoDB's where one process connects more than once.
    """
    redis, mongo = RedisConnection(redis_url, namespace), MongoDatabase(mongo_url, namespace, circuit=circuit)
    backends = Backends(
        jobs=MongoJobStore(mongo),
        plans=MongoPlanStore(mongo),
        runs=MongoRunStore(mongo),
        versions=MongoVersionStore(mongo),
        late=MongoLateStore(mongo),
        letters=MongoDeadLetters(mongo),
        logs=MongoLogStore(mongo),
        control=MongoControl(mongo),
        archive=MongoArchive(mongo),
        upkeep=MongoUpkeep(mongo),
        election=RedisElection(redis),
        membership=RedisMembership(redis),
        queue=RedisQueue(redis, lock_s=lock_s),
        bus=RedisBus(redis),
        housekeeping=RedisHousekeeping(redis),
        timepieces={"Redis": RedisTimepiece(redis), "MongoDB": MongoTimepiece(mongo)},
    )
    return Connected(backends, _both(redis, mongo))


@asynccontextmanager
async def _both(redis: RedisConnection, mongo: MongoDatabase) -> AsyncIterator[None]:
    async with redis, mongo:
        yield


@asynccontextmanager
async def open_backends(
    redis_url: str, mongo_url: str, namespace: str, *, lock_s: float = 35.0, circuit: Circuit | None = None
) -> AsyncIterator[Backends]:
    """Connect to both servers and check that they serve.

    Raises BackendUnavailable within ten seconds when one does not.
    """
    connected = connect(redis_url, mongo_url, namespace, lock_s=lock_s, circuit=circuit)
    async with connected.lifetime:
        yield connected.backends


@asynccontextmanager
async def open_service(settings: Settings) -> AsyncIterator[Service]:
    """The use-cases on the servers of the settings."""
    redis_url, mongo_url = _urls(settings)
    async with open_backends(redis_url, mongo_url, settings.namespace) as backends:
        yield Service(backends, SystemClock())


def executors(settings: Settings, apps: Sequence[App], *, threads: int, backends: Backends, clock: Clock) -> Executors:
    """An executor for every kind of target, allowed what the settings allow. `async with` it."""
    cleanup = Cleanup(backends, clock, run_retention=settings.run_retention, log_retention=settings.log_retention)
    return Executors(
        {
            SystemTarget: SystemExecutor({"sweep": Sweep(backends, clock).run, "cleanup": cleanup.run}),
            PythonTarget: PythonExecutor(PythonTargets(apps, settings.allow_python), threads=threads),
            CommandTarget: CommandExecutor(settings.allow_shell),
            HttpTarget: HttpExecutor(allowed_hosts=settings.allow_http_hosts),
        }
    )


async def run_node(
    settings: Settings,
    *,
    apps: Sequence[App] = (),
    labels: Mapping[str, str] | None = None,
    slots: int | None = None,
    name: str | None = None,
) -> None:
    """Be a node until SIGTERM or SIGINT; the second signal stops what runs at once."""
    redis_url, mongo_url = _urls(settings)
    limits = timings(settings)
    clock: Clock = SystemClock()
    name = name or settings.node_name
    circuit = mongo_circuit()
    async with AsyncExitStack() as stack:
        backends = await stack.enter_async_context(
            open_backends(redis_url, mongo_url, settings.namespace, lock_s=limits.job_lock, circuit=circuit)
        )
        spool = await stack.enter_async_context(Spool(settings.spool_dir / settings.namespace / name, clock))
        executor = await stack.enter_async_context(
            executors(settings, apps, threads=slots or settings.slots, backends=backends, clock=clock)
        )
        node = Node(
            backends,
            executor,
            clock,
            limits,
            name=name,
            slots=slots or settings.slots,
            labels=labels,
            version=VERSION,
            lifeline=connect(redis_url, mongo_url, settings.namespace, lock_s=limits.job_lock, circuit=circuit),
            system_jobs=system_jobs(settings.sweep_at, settings.cleanup_at),
            log_retention=settings.log_retention,
            spool=spool,
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, node.stop)
        await node.run()


@asynccontextmanager
async def memory_cluster(
    settings: Settings, *, nodes: int, apps: Sequence[App], host: str = "127.0.0.1", port: int
) -> AsyncIterator[Service]:
    """Nodes and the API in this one process, on the memory backend."""
    limits, clock = timings(settings), SystemClock()
    backends = memory_backends(clock, lock_s=limits.job_lock)
    service = Service(backends, clock)
    server = _api_server(service, settings, host, port)
    # The signals are the caller's; uvicorn would take them.
    server.capture_signals = nullcontext  # type: ignore[method-assign, assignment]
    by_target = executors(settings, apps, threads=settings.slots, backends=backends, clock=clock)
    async with by_target as executor, asyncio.TaskGroup() as group:
        members = [
            Node(
                backends,
                executor,
                clock,
                limits,
                name=f"node-{k}",
                slots=settings.slots,
                version=VERSION,
                system_jobs=system_jobs(settings.sweep_at, settings.cleanup_at),
                log_retention=settings.log_retention,
            )
            for k in range(1, nodes + 1)
        ]
        for member in members:
            group.create_task(member.run(), name=member.id)
        group.create_task(server.serve(), name="api")
        try:
            yield service
        finally:
            server.should_exit = True
            for member in members:
                member.stop()


def _api_server(service: Service, settings: Settings, host: str, port: int) -> uvicorn.Server:
    # Imported here, because most commands need no web framework and would wait for it.
    import uvicorn

    from cronflow.api.access import ClosedGate
    from cronflow.api.app import create_api
    from cronflow.api.inputs import Deployment

    deployment = Deployment(
        namespace=settings.namespace, heartbeat=settings.heartbeat, retry=settings.retry, version=VERSION
    )

    # Without a limit a client that stays connected would keep the process from ending.
    config = uvicorn.Config(
        create_api(service, ClosedGate(), deployment),
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=5,
        lifespan="off",
    )
    return uvicorn.Server(config)


def serve_api(settings: Settings, host: str, port: int) -> None:
    """Serve the API until SIGTERM or SIGINT. Raises BackendUnavailable when a server is away at start."""

    async def serve() -> None:
        async with open_service(settings) as service:
            server = _api_server(service, settings, host, port)
            # uvicorn would raise the signal again at its end, before the connections are closed.
            server.capture_signals = nullcontext  # type: ignore[method-assign, assignment]
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, server.handle_exit, number, None)
            await server.serve()

    asyncio.run(serve())


def _urls(settings: Settings) -> tuple[str, str]:
    missing = [
        Problem(f"CRONFLOW_{name}", "is not set", "set it, or start a local cluster with `cronflow dev`")
        for name, value in (("REDIS_URL", settings.redis_url), ("MONGO_URL", settings.mongo_url))
        if not value
    ]
    if missing or settings.redis_url is None or settings.mongo_url is None:
        raise InvalidInput(missing)
    return settings.redis_url, settings.mongo_url
