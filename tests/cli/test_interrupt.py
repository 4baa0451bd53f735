"""One Ctrl-C ends a command even if the first cancellation is lost."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from cronflow.cli import connect


@pytest.mark.parametrize("swallowed", [0, 1, 2])
def test_one_interrupt_ends_the_command(swallowed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "AGAIN_S", 0.01)
    cancellations = 0

    async def follow() -> None:
        nonlocal cancellations
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancellations += 1
                if cancellations > swallowed:
                    raise

    with pytest.raises(KeyboardInterrupt):
        connect.run_interruptible(follow())
    assert cancellations == swallowed + 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_results_and_errors_are_passed_on() -> None:
    async def answer() -> int:
        return 7

    async def fails() -> int:
        raise OSError("away")

    assert connect.run_interruptible(answer()) == 7
    with pytest.raises(OSError, match="away"):
        connect.run_interruptible(fails())
