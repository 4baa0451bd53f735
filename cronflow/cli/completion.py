"""Shell completion of the names of jobs, runs and nodes.

Rules: it answers within about a second and prints nothing else. Without a connection there are no suggestions.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import redirect_stderr
from io import StringIO
from typing import TYPE_CHECKING

from cronflow.domain.errors import CronFlowError

if TYPE_CHECKING:
    from cronflow.cli.connect import Cluster

WITHIN_S = 1.0
MOST_RUNS = 100


def job_names(incomplete: str) -> list[str]:
    async def read(cluster: Cluster) -> list[str]:
        return [job["name"] async for job in cluster.jobs.list()]

    return _starting_with(incomplete, read)


def run_ids(incomplete: str) -> list[str]:
    """The ids of the latest runs, of one job if it is already typed."""
    job, at, _ = incomplete.partition("@")

    async def read(cluster: Cluster) -> list[str]:
        from cronflow.cli.connect import runs_of

        return [run["id"] for run in await runs_of(cluster, job if at else None, MOST_RUNS)]

    return _starting_with(incomplete, read)


def node_names(incomplete: str) -> list[str]:
    async def read(cluster: Cluster) -> list[str]:
        return [node["name"] async for node in cluster.nodes.list()]

    return _starting_with(incomplete, read)


def _starting_with(incomplete: str, read: Callable[[Cluster], Awaitable[list[str]]]) -> list[str]:
    found: list[str] = []

    async def fill() -> None:
        from cronflow.cli.connect import open_client

        async with open_client() as cluster:
            found.extend(await read(cluster))

    def connect() -> None:
        try:
            asyncio.run(fill())
        except CronFlowError:
            return  # Not connected: no suggestions.

    # In a daemon thread, because connecting to a silent server cannot be interrupted everywhere.
    thread = threading.Thread(target=connect, name=__name__, daemon=True)
    with redirect_stderr(StringIO()):
        thread.start()
        thread.join(WITHIN_S)
    return [name for name in found if name.startswith(incomplete)]
