"""What the tests of handler processes share."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from cronflow.cli.handler_process import COMMAND
from cronflow.domain.job import PythonTarget
from cronflow.domain.run import AttemptResult
from cronflow.executors.pool.messages import HandlerOptions
from cronflow.executors.pool.pool import HandlerPool, handler_pool
from tests.executors import Lines, assignment, pooled
from tests.waiting import eventually

MODULE = pooled.__name__


def options(
    *apps: str, grace_s: float = 5.0, allow: tuple[str, ...] = (), path: tuple[str, ...] = ()
) -> HandlerOptions:
    return HandlerOptions(
        apps=apps or (f"{MODULE}:app",), allow_python=allow, path=[*path, *sys.path], grace_s=grace_s, node="node-1"
    )


@asynccontextmanager
async def opened(count: int = 1, given: HandlerOptions | None = None) -> AsyncIterator[HandlerPool]:
    async with handler_pool(COMMAND, given or options(), count) as pool:
        yield pool


def target(name: str, **args: object) -> PythonTarget:
    return PythonTarget(f"{MODULE}:{name}", args)


async def run(pool: HandlerPool, name: str, **args: object) -> tuple[AttemptResult, Lines]:
    lines = Lines()
    return await pool.run(assignment(target(name, **args)), "node-1#a1", lines), lines


def started(pool: HandlerPool, name: str, timeout: str = "20s", **args: object) -> asyncio.Task[AttemptResult]:
    return asyncio.create_task(pool.run(assignment(target(name, **args), timeout=timeout), "node-1#a1", Lines()))


async def text_of(note: Path) -> str:
    return await eventually(lambda: note.exists() and note.read_text(), what=f"the note {note.name}") or ""


async def all_respond(pool: HandlerPool, *gone: int) -> None:
    def up() -> bool:
        return all(process.responds for process in pool.processes) and not set(gone) & set(pool.pids)

    await eventually(up, what="every process is up")
