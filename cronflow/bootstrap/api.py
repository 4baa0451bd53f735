"""The API as a process: the routes and the page behind their guards."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, nullcontext
from typing import TYPE_CHECKING

from cronflow.auth.tokens import AccessTokens
from cronflow.backends.clock import SystemClock
from cronflow.backends.mongo.database import mongo_circuit
from cronflow.bootstrap.backends import open_backends
from cronflow.bootstrap.commands import service_on, told
from cronflow.bootstrap.parts import VERSION, about, meter_of, metrics_served, urls
from cronflow.bootstrap.shutdown import ShutdownSignals
from cronflow.circuit_breaker import breaker_figures
from cronflow.config import Settings, credentials
from cronflow.domain import metrics
from cronflow.domain.metrics import MetricSource
from cronflow.live.hub import Hub
from cronflow.live.live_metrics import register_node_metrics
from cronflow.node.event_log import EventLog
from cronflow.node.keep_alive import LoopMonitor
from cronflow.node.role_loop import Outages, repeat
from cronflow.ports import Backends, Clock
from cronflow.supervision import Phase, ProcessStatus, supervised, supervisors
from cronflow.usecases.all import UseCases
from cronflow.usecases.logins import Logins, settings_admin

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

    from cronflow.api.routes.chaos import Chaos
    from cronflow.monitoring.prometheus import PrometheusMeter


def serve_api(settings: Settings, host: str, port: int, chaos: Chaos | None = None) -> None:
    """Serve the API until SIGTERM or SIGINT; `chaos` is what of a development cluster may be broken.

    Raises InvalidInput without an admin or a JWT_SECRET, or when METRICS_PORT is taken; BackendUnavailable when a
    server is away at start.
    """

    server: uvicorn.Server | None = None

    def status() -> ProcessStatus:
        if server is None or not server.started:
            return ProcessStatus(Phase.STARTING)
        return ProcessStatus(Phase.STOPPING if server.should_exit else Phase.UP, "serving")

    async def serve() -> None:
        nonlocal server
        ending = ShutdownSignals()
        credentials(settings)
        redis_url, mongo_url = urls(settings)
        clock, circuit = SystemClock(), mongo_circuit()
        meter = meter_of(settings, (MetricSource.API,), "api")
        meter.read(metrics.BREAKER_STATE, lambda: breaker_figures({circuit.service: circuit.state}))
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(supervised(supervisors(settings.pulse_dir), status))
            await stack.enter_async_context(metrics_served(settings, meter))
            opening = open_backends(redis_url, mongo_url, settings.namespace, circuit=circuit, meter=meter)
            backends = await ending.before(stack.enter_async_context(opening))
            if backends is None:
                return
            event_log = EventLog(backends.events, backends.feed, clock, "api", meter=meter)
            emit = await stack.enter_async_context(told(event_log, clock))
            hub = Hub(backends, clock, about(settings), meter)
            service = service_on(settings, backends, clock, emit)
            server = await api_server(settings, service, backends, clock, hub, host, port, meter, chaos)
            # uvicorn would raise the signal again at its end, before the connections are closed.
            server.capture_signals = nullcontext  # type: ignore[method-assign, assignment]
            serving = server
            if ending.stops(lambda number: serving.handle_exit(number, None)):
                await serve_beside(server, hub)

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
    """The API and the page behind their guards, measured. Raises InvalidInput without an admin or a JWT_SECRET."""
    # Imported here, because most commands need no web framework and would wait for it.
    from cronflow.api.app import create_api
    from cronflow.api.bodies import Deployment
    from cronflow.api.gate import TokenGate
    from cronflow.api.middleware import guarded
    from cronflow.api.request_metrics import Measured
    from cronflow.api.static_page import Page, WithPage
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
    register_node_metrics(meter, hub)
    exposition = meter if settings.metrics_port is None else None
    api = create_api(service, gate, deployment, logins, stream, exposition)
    app = guarded(WithPage(api, Page()), origins=settings.allow_origins, proxies=settings.trusted_proxies)
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
    """A server that has not begun to serve. Raises InvalidInput without an admin or a JWT_SECRET."""
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


async def serve_beside(server: uvicorn.Server, hub: Hub) -> None:
    """Serve until the server stops, with the live stream beside it."""
    loop_monitor = LoopMonitor(SystemClock(), hub.meter)
    async with asyncio.TaskGroup() as group:
        beside = [
            group.create_task(hub.run(), name="live stream"),
            group.create_task(repeat(loop_monitor.role, SystemClock(), Outages()), name="pulse"),
        ]
        try:
            await server.serve()
        finally:
            for task in beside:
                task.cancel()
