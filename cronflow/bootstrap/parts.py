"""Parts that every process builds from its settings: time limits, addresses, metrics, events and use cases."""

from __future__ import annotations

import platform
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import metadata
from typing import TYPE_CHECKING

from cronflow.auth.vault import Vault
from cronflow.config import Settings
from cronflow.domain import metrics
from cronflow.domain.metrics import MetricSource
from cronflow.executors.notifications.notifier import Notifier
from cronflow.executors.webhook import HttpWebhookSender
from cronflow.leader.catch_up import CatchUpOptions
from cronflow.live.state import ClusterConfig
from cronflow.node.timings import Timings
from cronflow.ports import Backends, Clock, Exposition

if TYPE_CHECKING:
    from cronflow.monitoring.prometheus import PrometheusMeter
import asyncio

from cronflow.backends.clock import SystemClock
from cronflow.bootstrap.backends import open_backends
from cronflow.bootstrap.servers import mail_sender, urls
from cronflow.live.hub import Hub
from cronflow.node.cluster_clock import ClusterClock
from cronflow.node.event_log import EventLog
from cronflow.node.role_loop import Outages, end_tasks, repeat
from cronflow.ports import EventSink, discard_event
from cronflow.usecases import UseCases

VERSION = metadata.version("cronflow")
SAMPLE_EVERY_S = 15.0
"""How often a process that is no node asks the servers for the time."""


def timings(settings: Settings) -> Timings:
    """The time limits of a node. Raises InvalidInput if they contradict each other."""
    return Timings(
        leader_ttl=settings.leader_ttl.total_seconds(),
        leader_renew=settings.leader_renew.total_seconds(),
        failover_check=settings.failover_check.total_seconds(),
        heartbeat=settings.heartbeat.total_seconds(),
        node_ttl=settings.node_ttl.total_seconds(),
        run_lease=settings.run_lease.total_seconds(),
        lock_buffer=settings.lock_buffer.total_seconds(),
        drain=settings.drain_timeout.total_seconds(),
        look_ahead=settings.look_ahead.total_seconds(),
    )


def catch_up_options(settings: Settings) -> CatchUpOptions:
    """How a node that leads starts missed runs."""
    return CatchUpOptions(rate=settings.catch_up_rate, limit=settings.recovery_limit)


def vault(settings: Settings) -> Vault | None:
    """The vault that seals secrets; None without SECRETS_KEY."""
    return None if settings.secrets_key is None else Vault(settings.secrets_key)


def notifier(settings: Settings, backends: Backends, clock: Clock) -> Notifier:
    """Sends notifications: to the hosts that the settings allow, and by e-mail if they name a mail server."""
    return Notifier(
        HttpWebhookSender(backends.secrets, vault(settings), clock, allowed_hosts=settings.allow_http_hosts),
        mail_sender(settings),
        backends.jobs,
        backends.logs,
        clock,
        public_url=settings.public_url,
        namespace=settings.namespace,
    )


def cluster_config(settings: Settings) -> ClusterConfig:
    return ClusterConfig(namespace=settings.namespace, heartbeat=settings.heartbeat, lease=settings.leader_ttl)


def meter_of(settings: Settings, sources: Sequence[MetricSource], name: str) -> PrometheusMeter:
    """The meter of a process, with its build info."""
    # Imported here because commands do not need it, and importing it is slow.
    from cronflow.monitoring.prometheus import PrometheusMeter

    meter = PrometheusMeter(sources)
    role = "api" if MetricSource.API in sources else "node"
    labels: tuple[str, ...] = (VERSION, platform.python_version(), settings.namespace, role, name)
    meter.read(metrics.BUILD_INFO, lambda: {labels: 1})
    return meter


@asynccontextmanager
async def metrics_served(settings: Settings, exposition: Exposition) -> AsyncIterator[None]:
    """Serve metrics on METRICS_PORT, if it is set. Raises InvalidInput if the port is taken."""
    if settings.metrics_port is None:
        yield
        return
    from cronflow.monitoring.server import MetricsServer

    with MetricsServer(settings.metrics_host, settings.metrics_port, exposition):
        yield


@asynccontextmanager
async def open_service(settings: Settings) -> AsyncIterator[UseCases]:
    redis_url, mongo_url = urls(settings)
    async with open_backends(redis_url, mongo_url, settings.namespace) as backends:
        clock = await asked_clock(backends)
        async with writing_events(EventLog(backends.events, backends.feed, clock, "api"), clock) as emit:
            yield use_cases(settings, backends, clock, emit)


@asynccontextmanager
async def open_live(settings: Settings) -> AsyncIterator[tuple[UseCases, Hub]]:
    """The use cases with a live stream in this process, as in an API replica."""
    redis_url, mongo_url = urls(settings)
    async with open_backends(redis_url, mongo_url, settings.namespace) as backends:
        clock = await asked_clock(backends)
        async with (
            writing_events(EventLog(backends.events, backends.feed, clock, "api"), clock) as emit,
            asyncio.TaskGroup() as group,
        ):
            hub = Hub(backends, clock, cluster_config(settings))
            streaming = group.create_task(hub.run(), name="live stream")
            try:
                yield use_cases(settings, backends, clock, emit), hub
            finally:
                await end_tasks([streaming])


async def asked_clock(backends: Backends, emit: EventSink = discard_event) -> ClusterClock:
    """A clock with the cluster's time, for a process that edits jobs: the first fire of a job must not be computed from
    a wrong clock. BackendUnavailable if no server answers.
    """
    clock = ClusterClock(SystemClock(), backends.server_clocks, SAMPLE_EVERY_S, name="api", emit=emit)
    await clock.sample()
    return clock


@asynccontextmanager
async def writing_events(event_log: EventLog, clock: Clock) -> AsyncIterator[EventSink]:
    """Write events in the background, and flush the rest at the end."""
    writer = asyncio.create_task(repeat(event_log.role, clock, Outages()), name="events")
    try:
        yield event_log.emit
    finally:
        await end_tasks([writer])
        if not writer.cancelled():
            writer.result()
        await event_log.flush()


def use_cases(settings: Settings, backends: Backends, clock: Clock, emit: EventSink) -> UseCases:
    return UseCases(
        backends,
        clock,
        emit,
        vault=vault(settings),
        admin=settings.admin_user,
        notifier=notifier(settings, backends, clock),
        namespace=settings.namespace,
        machine_clock=SystemClock(),
    )
