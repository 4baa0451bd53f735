"""The API process: routes and dashboard behind the middleware, and the live stream."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, nullcontext
from functools import partial
from typing import TYPE_CHECKING

import structlog

from cronflow.auth.tokens import AccessTokens
from cronflow.backends.clock import SystemClock
from cronflow.backends.mongo.database import mongo_circuit
from cronflow.bootstrap.alerting import alert_sender, missing_leader
from cronflow.bootstrap.backends import open_backends
from cronflow.bootstrap.garbage_collection import rare_garbage_collection
from cronflow.bootstrap.parts import (
    VERSION,
    asked_clock,
    cluster_config,
    meter_of,
    metrics_served,
    notifier,
    use_cases,
    writing_events,
)
from cronflow.bootstrap.servers import urls
from cronflow.bootstrap.shutdown import ShutdownSignals
from cronflow.bootstrap.sign_in import sign_in_parts
from cronflow.circuit_breaker import breaker_figures
from cronflow.config import Settings, credentials, weaknesses
from cronflow.domain import metrics
from cronflow.domain.events import RoleFailed
from cronflow.domain.metrics import MetricSource
from cronflow.live.hub import Hub, register_cluster_metrics
from cronflow.node.event_log import EventLog
from cronflow.node.keep_alive import LoopMonitor
from cronflow.node.role_guard import guarded
from cronflow.node.role_loop import NodeRole, Outages, end_tasks, repeat
from cronflow.node.zone_watch import ZoneWatch
from cronflow.ports import UNMETERED, Backends, Clock, EventSink, Meter, NotificationSender, discard_event
from cronflow.supervision import Phase, ProcessStatus, supervised, supervisors
from cronflow.usecases import UseCases
from cronflow.usecases.logins import Logins, settings_admin

GRACEFUL_S = 5
EXIT_AFTER_S = 15.0

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

    from cronflow.api.routes.chaos import Chaos
    from cronflow.monitoring.prometheus import PrometheusMeter

log = structlog.get_logger("cronflow.api")


def serve_api(settings: Settings, host: str, port: int, chaos: Chaos | None = None) -> None:
    """Serve the API until SIGTERM or SIGINT. `chaos` enables the chaos routes of a development cluster.

    Raises InvalidInput without an admin or a JWT_SECRET, or if METRICS_PORT is taken. Raises BackendUnavailable if a
    server is unavailable at startup.
    """

    server: uvicorn.Server | None = None

    def status() -> ProcessStatus:
        if server is None or not server.started:
            return ProcessStatus(Phase.STARTING)
        return ProcessStatus(Phase.STOPPING if server.should_exit else Phase.UP, "serving")

    async def serve() -> None:
        nonlocal server
        shutdown = ShutdownSignals(EXIT_AFTER_S)
        for weakness in weaknesses(credentials(settings)):
            log.warning("weak credential", setting=weakness.place, problem=weakness.what, remedy=weakness.remedy)
        redis_url, mongo_url = urls(settings)
        circuit = mongo_circuit()
        meter = meter_of(settings, (MetricSource.API,), "api")
        meter.read(metrics.BREAKER_STATE, lambda: breaker_figures({circuit.service: circuit.state}))
        async with AsyncExitStack() as stack:
            stack.enter_context(rare_garbage_collection())
            await stack.enter_async_context(supervised(supervisors(settings.pulse_dir), status))
            await stack.enter_async_context(metrics_served(settings, meter))
            opening = open_backends(redis_url, mongo_url, settings.namespace, circuit=circuit, meter=meter)
            backends = await shutdown.before(stack.enter_async_context(opening))
            if backends is None:
                return
            await backends.coordination_admin.check_rights()
            event_log = EventLog(backends.events, backends.feed, SystemClock(), "api", meter=meter)
            clock = event_log.clock = await asked_clock(backends, event_log.emit)
            emit = await stack.enter_async_context(writing_events(event_log, clock))
            hub = Hub(backends, clock, cluster_config(settings), meter)
            service = use_cases(settings, backends, clock, emit)
            server = await api_server(settings, service, backends, clock, hub, host, port, meter, chaos)
            # uvicorn would raise the signal again on exit, before the connections are closed.
            server.capture_signals = nullcontext  # type: ignore[method-assign, assignment]
            serving = server
            if shutdown.stops(lambda number: serving.handle_exit(number, None)):
                sender = notifier(settings, backends, clock)
                roles = missing_leader_roles(settings, backends, clock, sender, emit, meter)
                await serve_with_stream(server, hub, [NodeRole("cluster clock", clock.step, clock.wake), *roles])

    asyncio.run(serve())


async def api_application(
    settings: Settings,
    service: UseCases,
    backends: Backends,
    clock: Clock,
    hub: Hub,
    meter: PrometheusMeter,
    chaos: Chaos | None = None,
) -> ASGIApp:
    """The API and the dashboard behind the middleware. Raises InvalidInput without an admin or a JWT_SECRET."""
    # Imported here because most commands do not need a web framework, and importing it is slow.
    from cronflow.api.access import TokenGate
    from cronflow.api.app import create_api
    from cronflow.api.bodies import Deployment
    from cronflow.api.middleware import Measured
    from cronflow.api.middleware import guarded as with_middleware
    from cronflow.api.static_page import Page, WithPage
    from cronflow.api.stream import Stream
    from cronflow.bootstrap.setting_rows import setting_rows

    given = credentials(settings)
    password_hash = given.password_hash or await service.passwords.hashed(given.password or "")
    credential = given.password_hash or given.password or ""
    admin = settings_admin(given.admin, password_hash, given.jwt_secret, credential)
    tokens = AccessTokens(given.jwt_secret, settings.namespace, clock)
    oidc = sign_in_parts(settings, backends, clock, given.jwt_secret)
    logins = Logins(
        backends,
        clock,
        tokens,
        admin,
        service.passwords,
        people=None if oidc is None else oidc.people,
        passwords_for_all=settings.password_login,
    )
    gate = TokenGate(logins, service.keys, backends.limiter)
    deployment = Deployment(
        namespace=settings.namespace,
        heartbeat=settings.heartbeat,
        retry=settings.retry,
        timezone=settings.timezone,
        version=VERSION,
        origins=frozenset(settings.allow_origins),
        chaos=chaos,
        settings=partial(setting_rows, settings),
    )
    stream = Stream(hub, logins, origins=settings.allow_origins)
    meter.read(metrics.STREAM_SOCKETS, lambda: stream.connected)
    register_cluster_metrics(meter, hub)
    exposition = meter if settings.metrics_port is None else None
    api = create_api(
        service,
        gate,
        deployment,
        logins,
        stream,
        exposition,
        None if oidc is None else oidc.single_sign_on(backends, clock, logins),
    )
    app = with_middleware(WithPage(api, Page()), origins=settings.allow_origins, proxies=settings.trusted_proxies)
    return Measured(app, meter)


async def api_server(
    settings: Settings,
    service: UseCases,
    backends: Backends,
    clock: Clock,
    hub: Hub,
    host: str,
    port: int,
    meter: PrometheusMeter,
    chaos: Chaos | None = None,
) -> uvicorn.Server:
    """Build the server without starting it. Raises InvalidInput without an admin or a JWT_SECRET."""
    import uvicorn

    from cronflow.api.stream import LARGEST_MESSAGE

    # Without a limit a client that stays connected would keep the process from shutdown.
    config = uvicorn.Config(
        await api_application(settings, service, backends, clock, hub, meter, chaos),
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=GRACEFUL_S,
        lifespan="off",
        # By default uvicorn trusts every proxy on this machine; the middleware trusts TRUSTED_PROXIES.
        proxy_headers=False,
        server_header=False,
        # It would cost memory and CPU per socket; the live stream compresses each message once for all sockets.
        ws_per_message_deflate=False,
        ws_max_size=LARGEST_MESSAGE,
    )
    return uvicorn.Server(config)


def missing_leader_roles(
    settings: Settings,
    backends: Backends,
    clock: Clock,
    notifier: NotificationSender,
    emit: EventSink = discard_event,
    meter: Meter = UNMETERED,
) -> Sequence[NodeRole]:
    """Roles that report a missing leader, because no node can when all are down. An unexpected error in one of them is
    reported and does not end the API.
    """

    def failed(role: str, error: str) -> None:
        emit(RoleFailed("the API", role, error))

    sender = alert_sender(backends, notifier, clock, emit, meter)
    renew_s = settings.leader_renew.total_seconds()
    absence = missing_leader(backends, sender, leader_renew_s=renew_s, namespace=settings.namespace)
    return [guarded(role, failed) for role in (absence.role, sender.role)]


async def serve_with_stream(server: uvicorn.Server, hub: Hub, roles: Sequence[NodeRole] = ()) -> None:
    """Serve, and run the live stream and the roles, until the server stops."""
    loop_monitor, outages, zone_watch = LoopMonitor(SystemClock(), hub.meter), Outages(), ZoneWatch()
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(hub.run(), name="live stream"),
            *(
                group.create_task(repeat(role, SystemClock(), outages), name=role.name)
                # Edits compute the first fires of jobs, by the same data as the leader.
                for role in (loop_monitor.role, NodeRole("zone watch", zone_watch.step, zone_watch.wake), *roles)
            ),
        ]
        try:
            await server.serve()
        finally:
            await end_tasks(tasks)
