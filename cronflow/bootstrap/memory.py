"""A whole cluster in one process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from cronflow.app import App
from cronflow.backends.clock import SystemClock
from cronflow.bootstrap.in_process import in_process_cluster
from cronflow.bootstrap.parts import timings
from cronflow.config import Settings
from cronflow.executors.prints import capturing_prints
from cronflow.testing.memory import memory_backends
from cronflow.usecases import UseCases


@asynccontextmanager
async def memory_cluster(
    settings: Settings, *, nodes: int, apps: Sequence[App], host: str = "127.0.0.1", port: int
) -> AsyncIterator[UseCases]:
    """Run nodes and the API in this process, on the memory backend."""
    backends = memory_backends(SystemClock(), lock_s=timings(settings).job_lock)
    async with in_process_cluster(settings, backends, host=host, port=port) as cluster:
        for k in range(1, nodes + 1):
            await cluster.start_node(f"node-{k}", apps)
        with capturing_prints():
            yield cluster.service
