"""The composition root: which adapter stands behind which port, and in which order things are opened and closed.

The only module that knows all the others. Settings become plain values here; nothing below reads them.
"""

from __future__ import annotations

import asyncio
import platform
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from importlib import metadata
from typing import TYPE_CHECKING

from cronflow.app import App
from cronflow.auth.logins import Logins, settings_admin
from cronflow.auth.tokens import AccessTokens
from cronflow.auth.vault import Vault
from cronflow.backends.clock import SystemClock
from cronflow.backends.memory import memory_backends
from cronflow.backends.mongo.access import (
    MongoAuditStore,
    MongoKeyStore,
    MongoSecretStore,
    MongoSessionStore,
    MongoUserStore,
)
from cronflow.backends.mongo.alerts import MongoAlertStore, MongoOutbox, MongoSigns
from cronflow.backends.mongo.archive import MongoArchive
from cronflow.backends.mongo.control import MongoControl, MongoTimepiece
from cronflow.backends.mongo.database import MongoDatabase, mongo_circuit
from cronflow.backends.mongo.events import MongoEventStore
from cronflow.backends.mongo.jobs import MongoJobStore, MongoPlanStore
from cronflow.backends.mongo.ledger import MongoDeadLetters, MongoLateStore, MongoResultStore, MongoVersionStore
from cronflow.backends.mongo.logs import MongoLogStore
from cronflow.backends.mongo.rollups import MongoRollupStore, MongoTotals
from cronflow.backends.mongo.runs import MongoRunStore
from cronflow.backends.mongo.upkeep import MongoUpkeep
from cronflow.backends.redis.access import RedisRateLimiter, RedisTicketStore
from cronflow.backends.redis.bus import RedisBus
from cronflow.backends.redis.connection import RedisConnection
from cronflow.backends.redis.election import RedisElection, RedisTimepiece
from cronflow.backends.redis.housekeeping import RedisHousekeeping
from cronflow.backends.redis.live import RedisFeed, RedisTails
from cronflow.backends.redis.membership import RedisMembership
from cronflow.backends.redis.queue import RedisQueue
from cronflow.circuit import Circuit, breaker_figures
from cronflow.config import Settings, credentials
from cronflow.domain import metrics
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import CommandTarget, HttpTarget, PythonTarget, SystemTarget
from cronflow.domain.metrics import Teller
from cronflow.domain.system import system_jobs
from cronflow.executors import Executors
from cronflow.executors.breakers import Breakers
from cronflow.executors.command import CommandExecutor
from cronflow.executors.http import HttpExecutor
from cronflow.executors.python import PythonExecutor, PythonTargets
from cronflow.executors.secrets import WithSecrets
from cronflow.executors.system import SystemExecutor
from cronflow.executors.webhook import WebhookPostman
from cronflow.live.figures import tell_figures
from cronflow.live.hub import Hub
from cronflow.live.state import About
from cronflow.node.arrival import patiently
from cronflow.node.cleanup import Cleanup
from cronflow.node.journal import Journal
from cronflow.node.lifeline import Pulse
from cronflow.node.loop import Outages, repeat
from cronflow.node.node import Connected, Node
from cronflow.node.spool import Spool
from cronflow.node.sweep import Sweep
from cronflow.node.timings import Timings
from cronflow.ports import UNMETERED, Backends, Clock, Exposition, Meter, Tell, nobody
from cronflow.service import Service
from cronflow.supervision import Phase, Standing, supervised, supervisors

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

    from cronflow.api.chaos import Chaos
    from cronflow.monitoring.prometheus import PrometheusMeter

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
    redis_url: str,
    mongo_url: str,
    namespace: str,
    *,
    lock_s: float = 35.0,
    circuit: Circuit | None = None,
    meter: Meter = UNMETERED,
) -> Connected:
    """All ports on connections of their own; whoever enters the lifetime opens them, in his own event loop.

    `circuit` is MongoDB's where one process connects more than once.
    """
    redis = RedisConnection(redis_url, namespace, meter=meter)
    mongo = MongoDatabase(mongo_url, namespace, circuit=circuit, meter=meter)
    return Connected(adapters(redis, mongo, lock_s=lock_s), _both(redis, mongo))


def adapters(redis: RedisConnection, mongo: MongoDatabase, *, lock_s: float = 35.0) -> Backends:
    """All ports on these connections, which are the caller's to open."""
    return Backends(
        jobs=MongoJobStore(mongo),
        plans=MongoPlanStore(mongo),
        runs=MongoRunStore(mongo),
        versions=MongoVersionStore(mongo),
        late=MongoLateStore(mongo),
        results=MongoResultStore(mongo),
        letters=MongoDeadLetters(mongo),
        logs=MongoLogStore(mongo),
        control=MongoControl(mongo),
        archive=MongoArchive(mongo),
        upkeep=MongoUpkeep(mongo),
        events=MongoEventStore(mongo),
        rollups=MongoRollupStore(mongo),
        totals=MongoTotals(mongo),
        election=RedisElection(redis),
        membership=RedisMembership(redis),
        queue=RedisQueue(redis, lock_s=lock_s),
        bus=RedisBus(redis),
        housekeeping=RedisHousekeeping(redis),
        users=MongoUserStore(mongo),
        sessions=MongoSessionStore(mongo),
        keys=MongoKeyStore(mongo),
        secrets=MongoSecretStore(mongo),
        audit=MongoAuditStore(mongo),
        alerts=MongoAlertStore(mongo),
        outbox=MongoOutbox(mongo),
        signs=MongoSigns(mongo),
        limiter=RedisRateLimiter(redis),
        tickets=RedisTicketStore(redis),
        feed=RedisFeed(redis),
        tails=RedisTails(redis),
        timepieces={"Redis": RedisTimepiece(redis), "MongoDB": MongoTimepiece(mongo)},
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
    """Connect to both servers and check that they serve.

    Raises BackendUnavailable within ten seconds when one does not.
    """
    connected = connect(redis_url, mongo_url, namespace, lock_s=lock_s, circuit=circuit, meter=meter)
    async with connected.lifetime:
        yield connected.backends


@asynccontextmanager
async def open_service(settings: Settings) -> AsyncIterator[Service]:
    """The use-cases on the servers of the settings."""
    redis_url, mongo_url = _urls(settings)
    clock = SystemClock()
    async with (
        open_backends(redis_url, mongo_url, settings.namespace) as backends,
        told(Journal(backends, clock, "api"), clock) as tell,
    ):
        yield _service(settings, backends, clock, tell)


@asynccontextmanager
async def open_live(settings: Settings) -> AsyncIterator[tuple[Service, Hub]]:
    """The use-cases, and the live stream as an API replica has it, in this process."""
    redis_url, mongo_url = _urls(settings)
    clock = SystemClock()
    async with (
        open_backends(redis_url, mongo_url, settings.namespace) as backends,
        told(Journal(backends, clock, "api"), clock) as tell,
        asyncio.TaskGroup() as group,
    ):
        hub = Hub(backends, clock, _about(settings))
        streaming = group.create_task(hub.run(), name="live stream")
        try:
            yield _service(settings, backends, clock, tell), hub
        finally:
            streaming.cancel()


@asynccontextmanager
async def told(journal: Journal, clock: Clock) -> AsyncIterator[Tell]:
    """Write what is told meanwhile, and the rest at the end."""
    telling = asyncio.create_task(repeat(journal.role, clock, Outages()), name="events")
    try:
        yield journal.tell
    finally:
        telling.cancel()
        await asyncio.wait({telling})
        if not telling.cancelled():
            telling.result()
        await journal.flush()


def _service(settings: Settings, backends: Backends, clock: Clock, tell: Tell) -> Service:
    return Service(
        backends,
        clock,
        tell,
        vault=_vault(settings),
        admin=settings.admin_user,
        postman=_postman(settings, backends, clock),
        namespace=settings.namespace,
    )


def _postman(settings: Settings, backends: Backends, clock: Clock) -> WebhookPostman:
    return WebhookPostman(backends.secrets, _vault(settings), clock, allowed_hosts=settings.allow_http_hosts)


def _about(settings: Settings) -> About:
    return About(namespace=settings.namespace, heartbeat=settings.heartbeat, lease=settings.leader_ttl)


def _vault(settings: Settings) -> Vault | None:
    return None if settings.secrets_key is None else Vault(settings.secrets_key)


def executors(
    settings: Settings,
    apps: Sequence[App],
    *,
    threads: int,
    backends: Backends,
    clock: Clock,
    breakers: Breakers,
    tell: Tell = nobody,
) -> WithSecrets:
    """An executor for every kind of target, allowed what the settings allow. `async with` it."""
    cleanup = Cleanup(backends, clock, run_retention=settings.run_retention, log_retention=settings.log_retention)
    by_target = Executors(
        {
            SystemTarget: SystemExecutor({"sweep": Sweep(backends, clock, tell).run, "cleanup": cleanup.run}),
            PythonTarget: PythonExecutor(PythonTargets(apps, settings.allow_python), threads=threads),
            CommandTarget: CommandExecutor(settings.allow_shell),
            HttpTarget: HttpExecutor(allowed_hosts=settings.allow_http_hosts, breakers=breakers),
        }
    )
    return WithSecrets(by_target, backends.secrets, _vault(settings))


async def run_node(
    settings: Settings,
    *,
    apps: Sequence[App] = (),
    labels: Mapping[str, str] | None = None,
    slots: int | None = None,
    name: str | None = None,
) -> None:
    """Be a node until SIGTERM or SIGINT; the second signal stops what runs at once.

    Waits START_WAIT for servers that are not up yet; then raises BackendUnavailable. Raises InvalidInput when
    METRICS_PORT is taken.
    """
    redis_url, mongo_url = _urls(settings)
    limits = timings(settings)
    clock: Clock = SystemClock()
    name = name or settings.node_name
    node: Node | None = None
    async with AsyncExitStack() as stack:
        looked = supervised(
            supervisors(settings.pulse_dir), lambda: Standing(Phase.STARTING) if node is None else node.standing
        )
        await stack.enter_async_context(looked)
        meter: Meter = UNMETERED
        if settings.metrics_port is not None:
            meter = found = _meter(settings, (Teller.NODE, Teller.LEADER), name)
            await stack.enter_async_context(_metrics_served(settings, found))

        async def arrive() -> tuple[Backends, Circuit]:
            # Each time a new one: an open circuit would only say that MongoDB was away a moment ago.
            circuit = mongo_circuit()
            opening = open_backends(
                redis_url, mongo_url, settings.namespace, lock_s=limits.job_lock, circuit=circuit, meter=meter
            )
            return await stack.enter_async_context(opening), circuit

        backends, circuit = await patiently(arrive, clock, settings.start_wait.total_seconds())
        journal = Journal(backends, clock, name, meter=meter)
        circuit.tell = journal.tell
        spool = await stack.enter_async_context(Spool(settings.spool_dir / settings.namespace / name, clock))
        breakers = Breakers(tell=journal.tell)
        by_target = executors(
            settings,
            apps,
            threads=slots or settings.slots,
            backends=backends,
            clock=clock,
            breakers=breakers,
            tell=journal.tell,
        )
        executor = await stack.enter_async_context(by_target)
        node = Node(
            backends,
            executor,
            clock,
            limits,
            name=name,
            slots=slots or settings.slots,
            labels=labels,
            version=VERSION,
            lifeline=connect(
                redis_url, mongo_url, settings.namespace, lock_s=limits.job_lock, circuit=circuit, meter=meter
            ),
            system_jobs=system_jobs(settings.sweep_at, settings.cleanup_at),
            log_retention=settings.log_retention,
            lines_per_run=settings.log_lines_per_run,
            spool=spool,
            breakers=lambda: {circuit.service: circuit.state, **breakers.states()},
            journal=journal,
            namespace=settings.namespace,
            postman=_postman(settings, backends, clock),
            meter=meter,
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
    meter = _meter(settings, (Teller.API,), "api")
    journal = Journal(backends, clock, "api", meter=meter)
    service = _service(settings, backends, clock, journal.tell)
    hub = Hub(backends, clock, _about(settings), meter)
    server = await _api_server(settings, service, backends, clock, hub, host, port, meter)
    # The signals are the caller's; uvicorn would take them.
    server.capture_signals = nullcontext  # type: ignore[method-assign, assignment]
    breakers = Breakers(tell=journal.tell)
    by_target = executors(
        settings,
        apps,
        threads=settings.slots,
        backends=backends,
        clock=clock,
        breakers=breakers,
        tell=journal.tell,
    )
    async with (
        _metrics_served(settings, meter),
        by_target as executor,
        told(journal, clock),
        asyncio.TaskGroup() as group,
    ):
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
                breakers=breakers.states,
                lines_per_run=settings.log_lines_per_run,
                namespace=settings.namespace,
                postman=_postman(settings, backends, clock),
            )
            for k in range(1, nodes + 1)
        ]
        for member in members:
            group.create_task(member.run(), name=member.id)
        group.create_task(_serve(server, hub), name="api")
        try:
            yield service
        finally:
            server.should_exit = True
            for member in members:
                member.stop()


def _meter(settings: Settings, tellers: Sequence[Teller], name: str) -> PrometheusMeter:
    """What this process tells, beginning with what it is."""
    # Imported here: commands have no use for it, and would wait for it.
    from cronflow.monitoring.prometheus import PrometheusMeter

    meter = PrometheusMeter(tellers)
    role = "api" if Teller.API in tellers else "node"
    about: tuple[str, ...] = (VERSION, platform.python_version(), settings.namespace, role, name)
    meter.read(metrics.BUILD_INFO, lambda: {about: 1})
    return meter


@asynccontextmanager
async def _metrics_served(settings: Settings, exposition: Exposition) -> AsyncIterator[None]:
    """On a port of their own, if they have one. Raises InvalidInput when it is taken."""
    if settings.metrics_port is None:
        yield
        return
    from cronflow.monitoring.server import MetricsServer

    with MetricsServer(settings.metrics_host, settings.metrics_port, exposition):
        yield


async def _serve(server: uvicorn.Server, hub: Hub) -> None:
    """Serve until the server stops, with the live stream beside it."""
    pulse = Pulse(SystemClock(), hub.meter)
    async with asyncio.TaskGroup() as group:
        beside = [
            group.create_task(hub.run(), name="live stream"),
            group.create_task(repeat(pulse.role, SystemClock(), Outages()), name="pulse"),
        ]
        try:
            await server.serve()
        finally:
            for task in beside:
                task.cancel()


async def _api_server(
    settings: Settings,
    service: Service,
    backends: Backends,
    clock: Clock,
    hub: Hub,
    host: str,
    port: int,
    meter: PrometheusMeter,
    chaos: Chaos | None = None,
) -> uvicorn.Server:
    import uvicorn

    from cronflow.api.stream import LARGEST_MESSAGE

    # Without a limit a client that stays connected would keep the process from ending.
    config = uvicorn.Config(
        await api_application(settings, service, backends, clock, hub, meter, chaos),
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=5,
        lifespan="off",
        # Its own default believes every proxy on this machine; the guards believe TRUSTED_PROXIES.
        proxy_headers=False,
        server_header=False,
        # It would cost each socket memory and time for messages that are small.
        ws_per_message_deflate=False,
        ws_max_size=LARGEST_MESSAGE,
    )
    return uvicorn.Server(config)


async def api_application(
    settings: Settings,
    service: Service,
    backends: Backends,
    clock: Clock,
    hub: Hub,
    meter: PrometheusMeter,
    chaos: Chaos | None = None,
) -> ASGIApp:
    """The API and the page behind their guards, measured. Raises InvalidInput without an admin or a JWT_SECRET."""
    # Imported here, because most commands need no web framework and would wait for it.
    from cronflow.api.app import create_api
    from cronflow.api.gate import TokenGate
    from cronflow.api.guards import guarded
    from cronflow.api.inputs import Deployment
    from cronflow.api.measuring import Measured
    from cronflow.api.page import Page, WithPage
    from cronflow.api.stream import Stream

    given = credentials(settings)
    password_hash = given.password_hash or await service.passwords.hashed(given.password or "")
    credential = given.password_hash or given.password or ""
    admin = settings_admin(given.admin, password_hash, given.jwt_secret, credential)
    tokens = AccessTokens(given.jwt_secret, settings.namespace, clock)
    logins = Logins(backends, clock, tokens, admin, service.passwords)
    gate = TokenGate(logins, service.keys, backends.limiter)
    deployment = Deployment(
        namespace=settings.namespace,
        heartbeat=settings.heartbeat,
        retry=settings.retry,
        version=VERSION,
        chaos=chaos,
    )
    stream = Stream(hub, logins.redeem, origins=settings.allow_origins)
    meter.read(metrics.STREAM_SOCKETS, lambda: stream.connected)
    tell_figures(meter, hub)
    exposition = meter if settings.metrics_port is None else None
    api = create_api(service, gate, deployment, logins, stream, exposition)
    app = guarded(WithPage(api, Page()), origins=settings.allow_origins, proxies=settings.trusted_proxies)
    return Measured(app, meter)


def serve_api(settings: Settings, host: str, port: int, chaos: Chaos | None = None) -> None:
    """Serve the API until SIGTERM or SIGINT; `chaos` is what of a development cluster may be broken.

    Raises InvalidInput without an admin or a JWT_SECRET, or when METRICS_PORT is taken; BackendUnavailable when a
    server is away at start.
    """

    server: uvicorn.Server | None = None

    def standing() -> Standing:
        if server is None or not server.started:
            return Standing(Phase.STARTING)
        return Standing(Phase.STOPPING if server.should_exit else Phase.UP, "serving")

    async def serve() -> None:
        nonlocal server
        credentials(settings)
        redis_url, mongo_url = _urls(settings)
        clock, circuit = SystemClock(), mongo_circuit()
        meter = _meter(settings, (Teller.API,), "api")
        meter.read(metrics.BREAKER_STATE, lambda: breaker_figures({circuit.service: circuit.state}))
        async with (
            supervised(supervisors(settings.pulse_dir), standing),
            _metrics_served(settings, meter),
            open_backends(redis_url, mongo_url, settings.namespace, circuit=circuit, meter=meter) as backends,
            told(Journal(backends, clock, "api", meter=meter), clock) as tell,
        ):
            hub = Hub(backends, clock, _about(settings), meter)
            service = _service(settings, backends, clock, tell)
            server = await _api_server(settings, service, backends, clock, hub, host, port, meter, chaos)
            # uvicorn would raise the signal again at its end, before the connections are closed.
            server.capture_signals = nullcontext  # type: ignore[method-assign, assignment]
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, server.handle_exit, number, None)
            await _serve(server, hub)

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
