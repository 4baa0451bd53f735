"""A whole cluster in one process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext

from cronflow.app import App
from cronflow.backends.clock import SystemClock
from cronflow.bootstrap.api import api_server, serve_with_stream
from cronflow.bootstrap.node import capabilities, capacity, executors, http_breakers
from cronflow.bootstrap.parts import (
    VERSION,
    catch_up_options,
    cluster_config,
    meter_of,
    metrics_served,
    timings,
    use_cases,
    webhook_sender,
    writing_events,
)
from cronflow.bootstrap.roles import build_node
from cronflow.config import Settings
from cronflow.domain.job import system_jobs
from cronflow.domain.metrics import MetricSource
from cronflow.executors.prints import capturing_prints
from cronflow.live.hub import Hub
from cronflow.node.event_log import EventLog
from cronflow.testing.memory import memory_backends
from cronflow.usecases import UseCases


@asynccontextmanager
async def memory_cluster(
    settings: Settings, *, nodes: int, apps: Sequence[App], host: str = "127.0.0.1", port: int
) -> AsyncIterator[UseCases]:
    """Run nodes and the API in this process, on the memory backend."""
    limits, clock = timings(settings), SystemClock()
    backends = memory_backends(clock, lock_s=limits.job_lock)
    meter = meter_of(settings, (MetricSource.API,), "api")
    event_log = EventLog(backends.events, backends.feed, clock, "api", meter=meter)
    service = use_cases(settings, backends, clock, event_log.emit)
    hub = Hub(backends, clock, cluster_config(settings), meter)
    server = await api_server(settings, service, backends, clock, hub, host, port, meter)
    # The caller handles signals; uvicorn would install its own handlers.
    server.capture_signals = nullcontext  # type: ignore[method-assign, assignment]
    breakers = http_breakers(settings, event_log.emit)
    by_target = executors(
        settings,
        apps,
        threads=settings.slots,
        backends=backends,
        clock=clock,
        breakers=breakers,
        emit=event_log.emit,
    )
    async with (
        metrics_served(settings, meter),
        by_target as executor,
        writing_events(event_log, clock),
        asyncio.TaskGroup() as group,
    ):
        members = [
            build_node(
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
                webhook_sender=webhook_sender(settings, backends, clock),
                capabilities=capabilities(settings, apps),
                capacity=capacity(settings),
                catch_up_options=catch_up_options(settings),
            )
            for k in range(1, nodes + 1)
        ]
        for member in members:
            group.create_task(member.run(), name=member.id)
        group.create_task(serve_with_stream(server, hub), name="api")
        try:
            with capturing_prints():
                yield service
        finally:
            server.should_exit = True
            for member in members:
                member.stop()
