"""The API and the nodes of a cluster in one process and event loop, on any backends.

For `cronflow dev --memory` and for tests. A handler that blocks this process blocks the whole cluster, and nothing here
handles signals.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext

from cronflow.app import App
from cronflow.backends.clock import SystemClock
from cronflow.bootstrap.api import api_server, serve_with_stream
from cronflow.bootstrap.node import capabilities, capacity, executors, http_breakers, simulating
from cronflow.bootstrap.parts import (
    VERSION,
    catch_up_options,
    cluster_config,
    meter_of,
    metrics_served,
    notifier,
    timings,
    use_cases,
    writing_events,
)
from cronflow.bootstrap.roles import build_node
from cronflow.config import Settings
from cronflow.domain.job import system_jobs
from cronflow.domain.metrics import MetricSource
from cronflow.live.hub import Hub
from cronflow.node.event_log import EventLog
from cronflow.node.node import Node
from cronflow.ports import Backends
from cronflow.usecases import UseCases


class InProcessCluster:
    """`service` has the use cases of the cluster. Nodes may start and stop at any time."""

    def __init__(
        self,
        settings: Settings,
        backends: Backends,
        service: UseCases,
        event_log: EventLog,
        group: asyncio.TaskGroup,
        stack: AsyncExitStack,
    ) -> None:
        self.service = service
        self._settings, self._backends, self._event_log = settings, backends, event_log
        self._group, self._stack = group, stack
        self._nodes: dict[str, tuple[Node, asyncio.Task[None]]] = {}

    async def start_node(self, name: str, apps: Sequence[App], labels: Mapping[str, str] | None = None) -> None:
        """Start a node that can run the functions of these apps."""
        settings, clock = self._settings, SystemClock()
        breakers = http_breakers(settings, self._event_log.emit)
        opening = executors(
            settings,
            apps,
            threads=settings.slots,
            backends=self._backends,
            clock=clock,
            breakers=breakers,
            emit=self._event_log.emit,
        )
        node = build_node(
            self._backends,
            simulating(settings, await self._stack.enter_async_context(opening)),
            clock,
            timings(settings),
            name=name,
            slots=settings.slots,
            labels=labels,
            version=VERSION,
            system_jobs=system_jobs(settings.sweep_at, settings.cleanup_at),
            log_retention=settings.log_retention,
            breakers=breakers.states,
            lines_per_run=settings.log_lines_per_run,
            namespace=settings.namespace,
            notifier=notifier(settings, self._backends, clock),
            capabilities=capabilities(settings, apps),
            capacity=capacity(settings),
            catch_up_options=catch_up_options(settings),
        )
        self._nodes[name] = node, self._group.create_task(node.run(), name=node.id)

    async def stop_node(self, name: str) -> None:
        """Stop a node as SIGTERM would, and wait until it has stopped."""
        node, task = self._nodes.pop(name)
        node.stop()
        await asyncio.wait([task])

    def stop(self) -> None:
        """Stop all nodes."""
        for node, _ in self._nodes.values():
            node.stop()


@asynccontextmanager
async def in_process_cluster(
    settings: Settings, backends: Backends, *, host: str = "127.0.0.1", port: int
) -> AsyncIterator[InProcessCluster]:
    """Serve the API. Nodes that run at the end are stopped."""
    clock = SystemClock()
    meter = meter_of(settings, (MetricSource.API,), "api")
    event_log = EventLog(backends.events, backends.feed, clock, "api", meter=meter)
    service = use_cases(settings, backends, clock, event_log.emit)
    hub = Hub(backends, clock, cluster_config(settings), meter)
    server = await api_server(settings, service, backends, clock, hub, host, port, meter)
    # The caller handles signals; uvicorn would install its own handlers.
    server.capture_signals = nullcontext  # type: ignore[method-assign, assignment]
    async with (
        metrics_served(settings, meter),
        AsyncExitStack() as stack,
        writing_events(event_log, clock),
        asyncio.TaskGroup() as group,
    ):
        cluster = InProcessCluster(settings, backends, service, event_log, group, stack)
        group.create_task(serve_with_stream(server, hub), name="api")
        try:
            yield cluster
        finally:
            server.should_exit = True
            cluster.stop()
