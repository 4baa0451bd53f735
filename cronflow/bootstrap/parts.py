"""What of a process follows from its settings alone: time limits, addresses, secrets, what it tells."""

from __future__ import annotations

import platform
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import metadata
from typing import TYPE_CHECKING

from cronflow.auth.vault import Vault
from cronflow.config import Settings
from cronflow.domain import metrics
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.metrics import MetricSource
from cronflow.executors.webhook import HttpWebhookSender
from cronflow.live.state import ClusterConfig
from cronflow.node.timings import Timings
from cronflow.ports import Backends, Clock, Exposition

if TYPE_CHECKING:
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


def urls(settings: Settings) -> tuple[str, str]:
    """Of Redis and MongoDB. Raises InvalidInput when one is not set."""
    remedy = "set it; for commands `cronflow login URL` will do, and `cronflow dev` starts a local cluster"
    missing = [
        Problem(f"CRONFLOW_{name}", "is not set", remedy)
        for name, value in (("REDIS_URL", settings.redis_url), ("MONGO_URL", settings.mongo_url))
        if not value
    ]
    if missing or settings.redis_url is None or settings.mongo_url is None:
        raise InvalidInput(missing)
    return settings.redis_url, settings.mongo_url


def vault(settings: Settings) -> Vault | None:
    """What seals secrets; None without a SECRETS_KEY."""
    return None if settings.secrets_key is None else Vault(settings.secrets_key)


def webhook_sender(settings: Settings, backends: Backends, clock: Clock) -> HttpWebhookSender:
    """Who delivers notices, to the hosts that the settings allow."""
    return HttpWebhookSender(backends.secrets, vault(settings), clock, allowed_hosts=settings.allow_http_hosts)


def about(settings: Settings) -> ClusterConfig:
    """What the live stream says of the cluster's settings."""
    return ClusterConfig(namespace=settings.namespace, heartbeat=settings.heartbeat, lease=settings.leader_ttl)


def meter_of(settings: Settings, tellers: Sequence[MetricSource], name: str) -> PrometheusMeter:
    """What this process tells, beginning with what it is."""
    # Imported here: commands have no use for it, and would wait for it.
    from cronflow.monitoring.prometheus import PrometheusMeter

    meter = PrometheusMeter(tellers)
    role = "api" if MetricSource.API in tellers else "node"
    about: tuple[str, ...] = (VERSION, platform.python_version(), settings.namespace, role, name)
    meter.read(metrics.BUILD_INFO, lambda: {about: 1})
    return meter


@asynccontextmanager
async def metrics_served(settings: Settings, exposition: Exposition) -> AsyncIterator[None]:
    """On a port of their own, if they have one. Raises InvalidInput when it is taken."""
    if settings.metrics_port is None:
        yield
        return
    from cronflow.monitoring.server import MetricsServer

    with MetricsServer(settings.metrics_host, settings.metrics_port, exposition):
        yield
