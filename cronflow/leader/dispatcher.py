"""The push: from a decided batch to the nodes' lists.

The rule it protects: whoever pushes has already recorded the run as dispatched. So nothing here needs to be certain:
what is not pushed, or lost on the way, is found by `check_at`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

import structlog

from cronflow.domain.cluster import Tenure
from cronflow.ports import Assignment, Queue

log = structlog.get_logger("cronflow.node")


class Dispatcher:
    """Pushes assignments, and tells Redis anew who leads when it has forgotten."""

    def __init__(self, queue: Queue, renew_now: Callable[[], Awaitable[Tenure | None]]) -> None:
        self._queue = queue
        self._renew_now = renew_now

    async def push(self, tenure: Tenure, placed: Iterable[tuple[str, Assignment]]) -> None:
        """Push each assignment to its node: one round trip. Raises Deposed when a newer term is known."""
        lists: dict[str, list[Assignment]] = {}
        for node, assignment in placed:
            lists.setdefault(node, []).append(assignment)
        if not lists:
            return
        if await self._queue.dispatch(tenure.term, tenure.redis_epoch, lists):
            return
        if await self._renew_now() is tenure and await self._queue.dispatch(tenure.term, tenure.redis_epoch, lists):
            return
        log.warning(
            "not pushed", term=tenure.term, runs=sum(map(len, lists.values())), remedy="check_at brings them back"
        )
