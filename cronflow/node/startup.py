"""Waiting for the servers when a node starts before them, as it does after a power failure or in a compose file.

The rule: it waits with a growing pause, says once for what, and for a bounded time; then the last failure is the
caller's. Only a server that is away is waited for, nothing else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from cronflow.domain.errors import BackendUnavailable
from cronflow.ports import Clock

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 5.0

Opened = TypeVar("Opened")

log = structlog.get_logger("cronflow.node")


async def wait_for_servers(open_: Callable[[], Awaitable[Opened]], clock: Clock, patience_s: float) -> Opened:
    """What `open_` returns, tried again while it raises BackendUnavailable and no longer than so many seconds."""
    began = clock.monotonic()
    pause = FIRST_PAUSE_S
    told = None
    while True:
        try:
            opened = await open_()
        except BackendUnavailable as error:
            left = patience_s - (clock.monotonic() - began)
            if left <= 0:
                raise
            if error.service != told:
                told = error.service
                log.warning(
                    "waiting for a server",
                    service=error.service,
                    address=error.address,
                    reason=error.reason,
                    gives_up_in_s=round(left, 1),
                )
            await clock.sleep(min(pause, left))
            pause = min(2 * pause, LONGEST_PAUSE_S)
        else:
            if told is not None:
                log.info("servers answer", waited_s=round(clock.monotonic() - began, 1))
            return opened
