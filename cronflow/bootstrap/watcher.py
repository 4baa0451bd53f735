"""The watcher process: rounds until it is stopped, or a single one.

It imports nothing of the leader and of the workers, opens no connection before its first round, and needs no right to
write: it creates no indexes.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from cronflow.auth.vault import KEY_BYTES, Vault
from cronflow.backends.clock import SystemClock
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.backends.redis.connection import RedisConnection
from cronflow.bootstrap.backends import adapters
from cronflow.bootstrap.servers import mail_sender, urls
from cronflow.bootstrap.shutdown import ShutdownSignals
from cronflow.config import Settings
from cronflow.domain.access import Secret
from cronflow.domain.alerts import Alert
from cronflow.executors.notifications.notifier import Notifier
from cronflow.executors.webhook import HttpWebhookSender
from cronflow.node.zone_watch import ZoneWatch
from cronflow.ports import Backends
from cronflow.supervision import Phase, ProcessStatus, supervised, supervisors
from cronflow.watcher.receivers import GivenSecrets, Receivers
from cronflow.watcher.watcher import ClusterWatcher, WatchLimits, WatchRound, snapshot_file

if TYPE_CHECKING:
    from cronflow.domain.watch import WatchFinding

EXIT_AFTER_S = 15.0

log = structlog.get_logger("cronflow.watcher")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """How to watch. `secrets` are the values of the secrets that receivers refer to, by name."""

    grace: timedelta = timedelta(seconds=90)
    every: timedelta = timedelta(seconds=30)
    repeat: timedelta = timedelta(hours=1)
    snapshot: Path | None = None
    receivers: Sequence[Alert] = ()
    secrets: Mapping[str, str] = field(default_factory=dict)


async def watch_once(settings: Settings, options: WatchOptions) -> tuple[WatchRound, Sequence[WatchFinding]]:
    """One round. Raises InvalidInput for options and settings that do not fit together."""
    async with _watching(settings, options, once=True) as watcher:
        return await watcher.round(), watcher.findings


async def watch(settings: Settings, options: WatchOptions) -> None:
    """Rounds until SIGTERM or SIGINT. Raises InvalidInput for options and settings that do not fit together."""
    shutdown = ShutdownSignals(EXIT_AFTER_S)
    status = ProcessStatus(Phase.STARTING)
    async with (
        _watching(settings, options) as watcher,
        supervised(supervisors(settings.pulse_dir), lambda: status),
    ):
        log.info("watcher started", receivers=len(options.receivers), jobs=watcher.jobs, snapshot=options.snapshot)
        while True:
            began = time.monotonic()
            done = await shutdown.before(watcher.round())
            if done is None:
                break
            if status.phase is Phase.STARTING:
                log.info("first round", jobs=done.jobs, found=len(done.observed))
            status = ProcessStatus(Phase.UP, "watching", done.away)
            if not await shutdown.before(_paused(options.every.total_seconds() - (time.monotonic() - began))):
                break
        status = ProcessStatus(Phase.STOPPING)
        await watcher.save()
        log.info("watcher stopped")


async def _paused(seconds: float) -> bool:
    await asyncio.sleep(max(0.0, seconds))
    return True


@asynccontextmanager
async def _watching(settings: Settings, options: WatchOptions, *, once: bool = False) -> AsyncIterator[ClusterWatcher]:
    clock, zones = SystemClock(), ZoneWatch()
    redis_url, mongo_url = urls(settings)
    vault = Vault([os.urandom(KEY_BYTES)])
    now = datetime.now(UTC)
    sealed = {
        name: Secret(name=name, sealed=vault.seal(name, value), updated_at=now, updated_by="")
        for name, value in options.secrets.items()
    }
    async with AsyncExitStack() as stack:

        def connect() -> Backends:
            redis, mongo = RedisConnection(redis_url, settings.namespace), MongoDatabase(mongo_url, settings.namespace)
            # Not entered: that would fail while a server is away, and create indexes.
            stack.push_async_exit(redis)
            stack.push_async_exit(mongo)
            return adapters(redis, mongo)

        webhooks = HttpWebhookSender(GivenSecrets(sealed), vault, clock, allowed_hosts=settings.allow_http_hosts)
        sender = Notifier(
            webhooks,
            mail_sender(settings),
            None,
            None,
            clock,
            public_url=settings.public_url,
            namespace=settings.namespace,
        )
        yield ClusterWatcher(
            connect,
            clock,
            WatchLimits(grace=options.grace, repeat=options.repeat, leader_renew=settings.leader_renew),
            Receivers(options.receivers, sender, settings.namespace),
            snapshot=snapshot_file(options.snapshot, settings.namespace),
            once=once,
            use_zone_data=lambda: zones.use(zones.found()),
        )
