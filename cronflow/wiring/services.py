"""The use-cases on the servers of the settings, with the live stream or without."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cronflow.backends.clock import SystemClock
from cronflow.config import Settings
from cronflow.live.hub import Hub
from cronflow.node.journal import Journal
from cronflow.node.loop import Outages, repeat
from cronflow.ports import Backends, Clock, Tell
from cronflow.service import Service
from cronflow.wiring.parts import about, postman, urls, vault
from cronflow.wiring.stores import open_backends


@asynccontextmanager
async def open_service(settings: Settings) -> AsyncIterator[Service]:
    """The use-cases on the servers of the settings."""
    redis_url, mongo_url = urls(settings)
    clock = SystemClock()
    async with (
        open_backends(redis_url, mongo_url, settings.namespace) as backends,
        told(Journal(backends, clock, "api"), clock) as tell,
    ):
        yield service_on(settings, backends, clock, tell)


@asynccontextmanager
async def open_live(settings: Settings) -> AsyncIterator[tuple[Service, Hub]]:
    """The use-cases, and the live stream as an API replica has it, in this process."""
    redis_url, mongo_url = urls(settings)
    clock = SystemClock()
    async with (
        open_backends(redis_url, mongo_url, settings.namespace) as backends,
        told(Journal(backends, clock, "api"), clock) as tell,
        asyncio.TaskGroup() as group,
    ):
        hub = Hub(backends, clock, about(settings))
        streaming = group.create_task(hub.run(), name="live stream")
        try:
            yield service_on(settings, backends, clock, tell), hub
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


def service_on(settings: Settings, backends: Backends, clock: Clock, tell: Tell) -> Service:
    """The use-cases on stores that are open."""
    return Service(
        backends,
        clock,
        tell,
        vault=vault(settings),
        admin=settings.admin_user,
        postman=postman(settings, backends, clock),
        namespace=settings.namespace,
    )
