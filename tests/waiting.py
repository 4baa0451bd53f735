"""Waiting for something that other processes do, with a deadline; the only place of the tests with a real sleep.

The rule: a test waits for what it wants to see, never for a time that was long enough on somebody's machine. It does
not retry what raises: a condition that may meet a server that is down says so itself.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

PATIENCE_S = 90.0
"""For what has no deadline of its own: longer than any machine takes that is busy with something else. Only a test that
fails waits for it."""

FIRST_POLL_S, LAST_POLL_S = 0.01, 0.1
"""Each poll waits half as long again as the one before: what takes seconds is not asked for a hundred times in each,
most often of a database that other tests use as well."""

Seen = TypeVar("Seen")


@overload
async def eventually(condition: Callable[[], Awaitable[Seen]], timeout: float = ..., what: str = ...) -> Seen: ...
@overload
async def eventually(condition: Callable[[], Seen], timeout: float = ..., what: str = ...) -> Seen: ...
async def eventually(
    condition: Callable[[], object], timeout: float = PATIENCE_S, what: str = "the condition"
) -> object:
    """Returns the first true value of `condition`, which is asked every 10 ms, later every 100 ms, and may be async.

    AssertionError with `what` and the last value when none was true within `timeout` seconds, also when the condition
    itself hangs. Errors of the condition are passed on.
    """
    last: object = "nothing, it was never asked"
    poll_s = FIRST_POLL_S
    try:
        async with asyncio.timeout(timeout) as bound:
            while True:
                last = condition()
                if inspect.isawaitable(last):
                    pending, last = last, "nothing, it did not answer"
                    last = await pending
                if last:
                    return last
                await asyncio.sleep(poll_s)
                poll_s = min(poll_s * 1.5, LAST_POLL_S)
    except TimeoutError:
        if not bound.expired():
            raise
    raise AssertionError(f"{what}: not within {timeout:g} s; the last value was {last!r}")
