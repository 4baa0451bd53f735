"""The end that somebody asks a process for while it opens what it needs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from cronflow.bootstrap.shutdown import ShutdownSignals
from tests.children import child_environment


@pytest.fixture(autouse=True)
def _handlers_of_before() -> Iterator[None]:
    """The loop of a test takes its own handlers away; what Python had is put back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def ask(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("swallows", [False, True])
async def test_an_end_that_is_asked_for_while_something_opens_is_not_lost(number: int, swallows: bool) -> None:
    ending, begun = ShutdownSignals(), asyncio.Event()

    async def connect() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            # A driver that retries.
            if not swallows:
                raise
        return "connected"

    opening = asyncio.create_task(ending.before(connect()))
    await begun.wait()
    ask(number)
    assert await opening is None
    assert not ending.stops(lambda _number: None)


async def test_what_opens_in_peace_is_had_and_a_later_signal_stops_it() -> None:
    ending, stopped = ShutdownSignals(), asyncio.Queue[int]()

    async def connect() -> str:
        return "connected"

    assert await ending.before(connect()) == "connected"
    assert ending.stops(stopped.put_nowait)
    ask(signal.SIGTERM)
    assert await stopped.get() == signal.SIGTERM
    ask(signal.SIGINT)
    assert await stopped.get() == signal.SIGINT


async def test_an_error_is_raised_unless_shutdown_was_requested() -> None:
    ending, begun = ShutdownSignals(), asyncio.Event()

    async def refused() -> str:
        raise OSError("refused")

    with pytest.raises(OSError, match="refused"):
        await ending.before(refused())

    async def fails_late() -> str:
        begun.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        raise OSError("closed")

    opening = asyncio.create_task(ending.before(fails_late()))
    await begun.wait()
    ask(signal.SIGINT)
    assert await opening is None


HANGS = """
import asyncio, os, signal, time
from cronflow.bootstrap.shutdown import ShutdownSignals
from tests.children import child_environment

async def main():
    ShutdownSignals(0.2)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.sleep(0)
    await asyncio.to_thread(time.sleep, 60)

asyncio.run(main())
"""


def test_a_process_ends_by_itself_although_one_of_its_threads_hangs() -> None:
    """A thread that looks up a name cannot be cancelled, and the interpreter waits for it."""
    ended = subprocess.run(
        [sys.executable, "-c", HANGS], env=child_environment(), capture_output=True, text=True, timeout=50
    )
    assert ended.returncode == 1
    assert "stop overdue" in ended.stdout + ended.stderr
