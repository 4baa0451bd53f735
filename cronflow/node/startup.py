"""Startup checks, and waiting for servers that start later than the node, for example after a power failure.

The wait has a growing pause and a time limit, and is logged once; after the limit, the last error is raised. Any error
other than BackendUnavailable is raised at once; so is AccessDenied, which waiting does not mend.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from cronflow.domain.cluster import NO_EVICTION, eviction_problem
from cronflow.domain.errors import AccessDenied, BackendUnavailable, InvalidInput
from cronflow.node.timings import Timings
from cronflow.ports import Clock, CoordinationAdmin, Queue

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 5.0
PINGS = 3

Opened = TypeVar("Opened")

log = structlog.get_logger("cronflow.node")


async def wait_for_servers(open_: Callable[[], Awaitable[Opened]], clock: Clock, patience_s: float) -> Opened:
    """Call `open_` until it does not raise BackendUnavailable, for at most `patience_s` seconds."""
    began = clock.monotonic()
    pause = FIRST_PAUSE_S
    reported = None
    while True:
        try:
            opened = await open_()
        except AccessDenied:
            raise
        except BackendUnavailable as error:
            left = patience_s - (clock.monotonic() - began)
            if left <= 0:
                raise
            if error.service != reported:
                reported = error.service
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
            if reported is not None:
                log.info("servers answer", waited_s=round(clock.monotonic() - began, 1))
            return opened


async def check_servers(coordination_admin: CoordinationAdmin, queue: Queue, timings: Timings) -> None:
    """Raises InvalidInput when Redis may evict keys, AccessDenied when its user lacks a right, BackendUnavailable when
    it does not answer.
    """
    await coordination_admin.check_rights()
    policy = (await coordination_admin.redis_config()).eviction
    if policy is None:
        log.warning("redis does not report its maxmemory-policy", remedy=f"make sure that it is {NO_EVICTION}")
    elif policy != NO_EVICTION:
        raise InvalidInput(eviction_problem(policy))
    # The first ping may have to connect.
    trip_s = min([await queue.ping() for _ in range(PINGS)])
    if timings.leader_margin < 2 * trip_s:
        log.warning(
            "redis is far away",
            round_trip_s=round(trip_s, 3),
            margin_s=timings.leader_margin,
            remedy=f"set LEADER_TTL to at least {20 * trip_s:.1f}s, or run the node nearer to Redis",
        )
