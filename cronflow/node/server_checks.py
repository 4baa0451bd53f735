"""What a node checks once, before it takes part: whether its servers suit it, and its time limits suit them.

The rule: a server that would drop what it was given is refused at the start, with the remedy, and not found out on the
night when its memory is full. What it does not tell is a warning. It changes nothing.
"""

from __future__ import annotations

import structlog

from cronflow.domain.cluster import NO_EVICTION, eviction_problem
from cronflow.domain.errors import InvalidInput
from cronflow.node.timings import Timings
from cronflow.ports import Backends

PINGS = 3

log = structlog.get_logger("cronflow.node")


async def check_servers(backends: Backends, timings: Timings) -> None:
    """Raises InvalidInput when Redis may evict keys, BackendUnavailable when it is away."""
    policy = (await backends.coordination_admin.redis_config()).eviction
    if policy is None:
        log.warning("redis does not tell its maxmemory-policy", remedy=f"make sure that it is {NO_EVICTION}")
    elif policy != NO_EVICTION:
        raise InvalidInput(eviction_problem(policy))
    # The first one may have to connect.
    trip_s = min([await backends.queue.ping() for _ in range(PINGS)])
    if timings.leader_margin < 2 * trip_s:
        log.warning(
            "redis is far away",
            round_trip_s=round(trip_s, 3),
            margin_s=timings.leader_margin,
            remedy=f"set LEADER_TTL to at least {20 * trip_s:.1f}s, or run the node nearer to Redis",
        )
