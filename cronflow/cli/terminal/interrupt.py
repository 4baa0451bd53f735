"""Commands that end with one Ctrl-C.

asyncio turns it into a cancellation of the command's task, and in CPython 3.11 `asyncio.wait_for`, which the Redis
client uses, loses a cancellation that arrives just as it finishes (python/cpython#86296). So the cancellation is
repeated until the command has ended.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine
from typing import TypeVar

AGAIN_S = 1.0

Answer = TypeVar("Answer")


def run(work: Coroutine[object, object, Answer]) -> Answer:
    """Run it. Raises KeyboardInterrupt after Ctrl-C."""
    return asyncio.run(_interruptible(work))


async def _interruptible(work: Coroutine[object, object, Answer]) -> Answer:
    # Only the main thread receives signals.
    if threading.current_thread() is not threading.main_thread():
        return await work
    loop, working = asyncio.get_running_loop(), asyncio.ensure_future(work)
    interrupted = False

    def interrupt() -> None:
        nonlocal interrupted
        interrupted = True
        if not working.done():
            working.cancel()
            loop.call_later(AGAIN_S, interrupt)

    loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        return await working
    except asyncio.CancelledError:
        if interrupted:
            raise KeyboardInterrupt from None
        raise
    finally:
        loop.remove_signal_handler(signal.SIGINT)
