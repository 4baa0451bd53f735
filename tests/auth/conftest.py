"""Stores for the replicas: in memory on virtual time, and on real servers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from cronflow.backends.clock import SystemClock
from cronflow.bootstrap.backends import open_backends
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends, memory_backends
from tests.auth.bench import Replica


@pytest.fixture
def clock() -> FakeClock:
    """Virtual time."""
    return FakeClock()


@pytest.fixture
def memory(clock: FakeClock) -> MemoryBackends:
    """Stores on virtual time."""
    return memory_backends(clock)


@pytest.fixture
def api(memory: MemoryBackends, clock: FakeClock) -> Replica:
    """A replica on virtual time."""
    return Replica(memory, clock)


@pytest.fixture(params=["memory", "servers"])
async def replicas(request: pytest.FixtureRequest, namespace: str) -> AsyncIterator[tuple[Replica, Replica]]:
    """Two replicas over the same stores, of either kind; real ones each with connections of its own."""
    clock = SystemClock()
    if request.param == "memory":
        backends = memory_backends(clock)
        yield Replica(backends, clock), Replica(backends, clock)
        return
    urls = request.getfixturevalue("redis_url"), request.getfixturevalue("mongo_url")
    async with open_backends(*urls, namespace) as one, open_backends(*urls, namespace) as two:
        yield Replica(one, clock), Replica(two, clock)
