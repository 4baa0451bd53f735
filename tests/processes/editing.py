"""A process that stops in the middle of an edit, so that a test can kill it there.

`python -m tests.processes.editing REDIS MONGO NAMESPACE JOB` resumes the job. It prints `moved` and waits forever after
the cursor has moved and before the run for the skipped fires is inserted.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace

from cronflow.backends.clock import SystemClock
from cronflow.bootstrap.backends import open_backends
from cronflow.domain.run import Run
from cronflow.ports import RunStore
from cronflow.usecases import UseCases


class Stops:
    """A run store that never returns from an insert."""

    def __init__(self, runs: RunStore) -> None:
        self._runs = runs

    def __getattr__(self, name: str) -> object:
        return getattr(self._runs, name)

    async def insert(self, runs: Sequence[Run]) -> set[str]:
        print("moved", flush=True)
        await asyncio.get_running_loop().create_future()
        return set()


async def main(redis_url: str, mongo_url: str, namespace: str, job: str) -> None:
    """Resume the job up to the insert."""
    async with open_backends(redis_url, mongo_url, namespace) as backends:
        stopping = replace(backends, runs=Stops(backends.runs))  # type: ignore[arg-type]
        await UseCases(stopping, SystemClock()).jobs.resume(job)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
