"""The backends of the sweep's and the clean-up's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from cronflow.backends.clock import SystemClock
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.backends.redis.connection import RedisConnection
from cronflow.bootstrap.backends import open_backends
from cronflow.testing.memory import memory_backends
from tests.leader.forging import Forge, MemoryForge, ServerForge


@asynccontextmanager
async def on_servers(request: pytest.FixtureRequest, namespace: str) -> AsyncIterator[ServerForge]:
    """The shared servers, in the test's own namespace."""
    redis_url, mongo_url = request.getfixturevalue("redis_url"), request.getfixturevalue("mongo_url")
    async with (
        open_backends(redis_url, mongo_url, namespace) as backends,
        MongoDatabase(mongo_url, namespace) as database,
        RedisConnection(redis_url, namespace) as connection,
    ):
        yield ServerForge(backends, database, connection)


@pytest.fixture
async def servers(request: pytest.FixtureRequest, namespace: str) -> AsyncIterator[ServerForge]:
    """On real servers."""
    async with on_servers(request, namespace) as forge:
        yield forge


@pytest.fixture(params=["memory", "servers"])
async def forge(request: pytest.FixtureRequest, namespace: str) -> AsyncIterator[Forge]:
    """On memory, and on real servers."""
    if request.param == "memory":
        yield MemoryForge(memory_backends(SystemClock()))
        return
    async with on_servers(request, namespace) as forge:
        yield forge
