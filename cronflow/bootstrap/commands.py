"""The use-cases on the servers of the settings, with or without the live stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cronflow.backends.clock import SystemClock
from cronflow.bootstrap.backends import open_backends
from cronflow.bootstrap.parts import about, urls, vault, webhook_sender
from cronflow.config import Settings
from cronflow.live.hub import Hub
from cronflow.node.event_log import EventLog
from cronflow.node.role_loop import Outages, repeat
from cronflow.ports import Backends, Clock, EventSink
from cronflow.usecases.all import UseCases


@asynccontextmanager
async def open_service(settings: Settings) -> AsyncIterator[UseCases]:
    redis_url, mongo_url = urls(settings)
    clock = SystemClock()
    async with (
        open_backends(redis_url, mongo_url, settings.namespace) as backends,
        told(EventLog(backends.events, backends.feed, clock, "api"), clock) as emit,
    ):
        yield service_on(settings, backends, clock, emit)


@asynccontextmanager
async def open_live(settings: Settings) -> AsyncIterator[tuple[UseCases, Hub]]:
    """The use-cases, and a live stream in this process, as in an API replica."""
    redis_url, mongo_url = urls(settings)
    clock = SystemClock()
    async with (
        open_backends(redis_url, mongo_url, settings.namespace) as backends,
        told(EventLog(backends.events, backends.feed, clock, "api"), clock) as emit,
        asyncio.TaskGroup() as group,
    ):
        hub = Hub(backends, clock, about(settings))
        streaming = group.create_task(hub.run(), name="live stream")
        try:
            yield service_on(settings, backends, clock, emit), hub
        finally:
            streaming.cancel()


@asynccontextmanager
async def told(event_log: EventLog, clock: Clock) -> AsyncIterator[EventSink]:
    """Write the events in the background, and the remaining ones at the end."""
    telling = asyncio.create_task(repeat(event_log.role, clock, Outages()), name="events")
    try:
        yield event_log.emit
    finally:
        telling.cancel()
        await asyncio.wait({telling})
        if not telling.cancelled():
            telling.result()
        await event_log.flush()


def service_on(settings: Settings, backends: Backends, clock: Clock, emit: EventSink) -> UseCases:
    """The use-cases on open backends."""
    return UseCases(
        backends,
        clock,
        emit,
        vault=vault(settings),
        admin=settings.admin_user,
        webhook_sender=webhook_sender(settings, backends, clock),
        namespace=settings.namespace,
    )
